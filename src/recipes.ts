/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Recipes: functions and classes on top of locks, watches and keys that many programs need. A program that does not
 * import this entry point does not load the code of the recipes.
 *
 * @module etcdwire/recipes
 */
export {
  type Again,
  type CopyStore,
  Etcd3Mutex,
  ExpiringKeys,
  type ExpiringKeysOptions,
  type ExpiringPutOptions,
  type HistoryEntry,
  type HistoryOptions,
  history,
  type KeyHandler,
  type KeyRun,
  type LeaderKeyRun,
  type OwnedKeys,
  type PersistedOptions,
  type PersistedRange,
  type PersistedRangeNotice,
  type PersistedRangeState,
  persisted,
  type ReconcileLead,
  type ReconcileOptions,
  type RunReport,
  reconcile,
  type ScheduleOptions,
  type Shard,
  type ShardOwner,
  type ShardOwners,
  type ShardsOptions,
  type ShardWorkerState,
  type Slot,
  Slots,
  type StoredState,
  schedule,
  shardOwners,
  shards,
  type Tick,
  type TouchOptions,
  type When,
} from './extras/recipes/index.js';
