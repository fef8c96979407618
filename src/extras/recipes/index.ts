export { Barrier } from './barrier.js';
export { DoubleBarrier } from './double-barrier.js';
export { Etcd3Mutex } from './etcd3-mutex.js';
export { ExpiringKeys, type ExpiringKeysOptions, type ExpiringPutOptions, type TouchOptions } from './expiring-keys.js';
export { type HistoryEntry, type HistoryOptions, history } from './history.js';
export { Job, type RetryOptions } from './job.js';
export type { RunReport } from './key-runs.js';
export { type PersistedOptions, type PersistedRange, persisted } from './persisted.js';
export type { CopyStore, PersistedRangeNotice, PersistedRangeState, StoredState } from './persisted-range.js';
export { PriorityQueue, Queue } from './queue.js';
export { RateLimiter, type RateLimiterOptions } from './rate-limiter.js';
export {
  type Again,
  type KeyHandler,
  type KeyRun,
  type LeaderKeyRun,
  type OwnedKeys,
  type ReconcileLead,
  type ReconcileOptions,
  reconcile,
} from './reconcile.js';
export { type ScheduleOptions, schedule, type Tick } from './schedule.js';
export {
  type PickedEndpoint,
  type Picking,
  type Registration,
  Service,
  type ServiceEndpoint,
  ServiceView,
  type Update,
  type ViewOptions,
} from './service.js';
export {
  type Shard,
  type ShardOwner,
  type ShardOwners,
  type ShardsOptions,
  type ShardWorkerState,
  shardOwners,
  shards,
} from './shards.js';
export { type Slot, Slots } from './slots.js';
export { type Isolation, type StmOptions, type StmTransaction, stm } from './stm.js';
export type { When } from './ticks.js';
export { WorkQueue } from './work-queue.js';
export type { DeadJob, EnqueueOptions, WorkOptions, WorkQueueCounts, WorkQueueOptions } from './work-queue-options.js';
