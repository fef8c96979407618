export { CoreClient } from './core-client.js';
export {
  type CloseOptions,
  type CoreKeyspace,
  checkClient,
  type GuardedKeyspace,
  type KeyspaceClient,
  keyspaceClientOf,
} from './keyspace.js';
export { Keyed, KeyValue, keyOf, parseJson, parseJsonValue, wireOf } from './kv/key-value.js';
export {
  checkKey,
  contains,
  endOf,
  fromKey,
  GUARD_PREFIX,
  type KeyRange,
  type Keys,
  keyAfter,
  keyRange,
  keysOf,
  overlaps,
  ownKey,
  ownKeys,
  prefix,
  prefixEnd,
  resolveKeys,
  type WireRange,
} from './kv/keys.js';
export type { KV, PagedKV } from './kv/kv.js';
export {
  type DeleteOptions,
  type DeleteResult,
  type FirstOf,
  GET_OPTIONS,
  type GetOptions,
  malformedResponse,
  PUT_HINTS,
  type PutOptions,
  type PutResult,
  type RangeOptions,
  type RangeResult,
  type ScanOptions,
  type Sort,
  withFirstCreate,
  withFirstKey,
  withFirstRev,
  withLastCreate,
  withLastKey,
  withLastRev,
  withMaxCreateRev,
} from './kv/requests.js';
export type { ScanPage } from './kv/scan.js';
export {
  type Compare,
  type Conditions,
  checkOps,
  compare,
  type DeleteOp,
  type GetOp,
  mismatch,
  type Op,
  type Operator,
  type OpResult,
  op,
  type PreparedTxn,
  type PutOp,
  preparedTxn,
  type RangeOp,
  REPEATABLE_TXN,
  type Results,
  runTxn,
  type Txn,
  type TxnOp,
  type TxnResult,
} from './kv/txn.js';
export { checkReads } from './kv/txn-rules.js';
export {
  CLIENT_HINTS,
  CORE_CLIENT_OPTIONS,
  type CoreClientOptions,
  checkIsObject,
  coreLayers,
  type Embedded,
} from './layers.js';
export { type KeepAlive as LeaseKeepAlive, lostWithClient, Moment } from './lease/keep-alive.js';
export { holdersOf, LeaseHolders } from './lease/lease-holders.js';
export { type LeaseLike, leaseIdOf, leaseIdOrNone } from './lease/lease-id.js';
export {
  checkTtl,
  checkUsualTtl,
  type GrantOptions,
  type KeepAlive,
  type Lease,
  type Leases,
  MAX_TTL,
  MAX_USUAL_TTL_S,
  REPEATABLE_GRANT,
  type TimeToLive,
} from './lease/leases.js';
export { namespaceCore } from './namespace.js';
export { type Raw, rawStubs, type Stub, stubOf } from './raw.js';
export { type Access, Auth, type Login, type Permission } from './services/auth.js';
export { Cluster, type Member, type Members } from './services/cluster.js';
export {
  type Alarm,
  Maintenance,
  MEMBER_CALL_HINTS,
  type MemberCallOptions,
  type Snapshot,
  type SnapshotSink,
  type Status,
} from './services/maintenance.js';
export type { DeleteEvent, PutEvent, WatchBatch, WatchEvent } from './watch/event.js';
export { pastEvents } from './watch/past-events.js';
export type { Watch, Watches, WatchOptions } from './watch/watch.js';
