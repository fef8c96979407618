/// <reference path="../runtime/globals.ts" preserve="true" />

/**
 * Recipes: functions and classes on top of locks, watches and keys that many programs need. A program that does not
 * import this entry point does not load the code of the recipes.
 *
 * @module etcdwire/recipes
 */
export { Etcd3Mutex } from './etcd3-mutex.js';
export { ExpiringKeys, type ExpiringKeysOptions, type ExpiringPutOptions, type TouchOptions } from './expiring-keys.js';
export { type HistoryEntry, type HistoryOptions, history } from './history.js';
export { type PersistedOptions, type PersistedRange, persisted } from './persisted.js';
export type { CopyStore, PersistedRangeNotice, PersistedRangeState, StoredState } from './persisted-range.js';
export {
  type Again,
  type KeyHandler,
  type KeyRun,
  type LeaderKeyRun,
  type OwnedKeys,
  type ReconcileLead,
  type ReconcileOptions,
  type RunReport,
  reconcile,
} from './reconcile.js';
export { type ScheduleOptions, schedule, type Tick } from './schedule.js';
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
export type { When } from './ticks.js';
