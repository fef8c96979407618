/// <reference path="./runtime/globals.ts" preserve="true" />

/**
 * The etcd v3 client: keys, transactions, watches, leases, and every RPC.
 *
 * @module etcdwire
 */

export type { Credentials, CredentialsSource } from './channel/authentication.js';
export type { Balance } from './channel/endpoint-pool.js';
export type { WithHeader } from './channel/results.js';
export type { CallOptions, WriteOptions } from './channel/rpc.js';
export type { BidiStream, StreamOptions } from './channel/streams.js';
export { Client, type ClientOptions, type EmbeddedClientOptions } from './client/client.js';
export { type ConnectLimits, type ConnectOptions, connect } from './client/connect.js';
export { CoreClient } from './client/core-client.js';
export { type EndpointHealth, type Health, type HealthOptions, health } from './client/health.js';
export type { CoreKeyspace, Keyspace } from './client/keyspace.js';
export type { CoreClientOptions, Embedded } from './client/layers.js';
export type { Raw, Stub } from './client/raw.js';
export { type ClientReason, EtcdError, type EtcdErrorDetails, type Outcome, type Reason } from './errors/etcd-error.js';
export type { ServerReason, StatusCode } from './errors/status.js';
export { rawEnums } from './gen/enums.js';
export type { DowngradeInfo, ResponseHeader, StatusResponse } from './gen/etcdserverpb/rpc.js';
export type { CallerStream, DuplexStream, WebReader, WebStreams, WebWriter } from './host/host.js';
export type { TlsOptions, TlsSource } from './host/tls.js';
export { type HedgedReadsOptions, hedgedReads } from './interceptors/hedged-reads.js';
export type { Interceptor } from './interceptors/interceptors.js';
export type { CallDiagnostics } from './interceptors/observe.js';
export { type RetryPolicy, retryPolicy } from './interceptors/retry-policy.js';
export {
  type CallStats,
  collectStats,
  type ErrorCounts,
  type LatencyStats,
  type Stats,
  type StatsSnapshot,
  type StreamStats,
} from './interceptors/stats.js';
export {
  type CreateOptions,
  createKey,
  deleteKeyIf,
  type Expected,
  type Modified,
  type ModifyOptions,
  modifyKey,
  type NotWritten,
  type UpdateOptions,
  updateKey,
  type Written,
} from './keys/compare-and-set.js';
export { type GetManyOptions, getMany, type Many } from './keys/get-many.js';
export {
  json,
  type TypedCachedRange,
  type TypedChange,
  type TypedKeys,
  type TypedKeyValue,
  type TypedWatch,
  typed,
  type ValueCodec,
} from './keys/typed.js';
export type { KeyValue } from './kv/key-value.js';
export { fromKey, type KeyRange, type Keys, keyRange, prefix } from './kv/keys.js';
export {
  type DeleteOptions,
  type DeleteResult,
  type FirstOf,
  type GetOptions,
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
export {
  type Compare,
  type Conditions,
  compare,
  type DeleteOp,
  type GetOp,
  type Op,
  type Operator,
  type OpResult,
  op,
  type PutOp,
  type RangeOp,
  type Results,
  type Txn,
  type TxnOp,
  type TxnResult,
} from './kv/txn.js';
export type { LeaseLike } from './lease/lease-id.js';
export type { GrantOptions, KeepAlive, Lease, Leases, TimeToLive } from './lease/leases.js';
export type { ElectionService, LeaderKey } from './lock-services/election.js';
export type { LockService } from './lock-services/lock.js';
export type { CachedRange, CachedRangeState } from './mirror/cached-range.js';
export type { ChangesOptions, RangeChange } from './mirror/changes.js';
export type { Mirror, MirrorMessage, MirrorOptions } from './mirror/mirror.js';
export type { Init } from './protobuf/codec.js';
export type { SignalOption } from './runtime/arguments.js';
export type { BytesLike } from './runtime/bytes.js';
export {
  type ClientEvent,
  type LogDetails,
  type Logger,
  type ObjectFirstLogger,
  objectFirst,
  type WaitCause,
} from './runtime/log.js';
export type { Access, Auth, Login, Permission } from './services/auth.js';
export type { Cluster, Member, Members } from './services/cluster.js';
export type {
  Alarm,
  Maintenance,
  MemberCallOptions,
  Snapshot,
  SnapshotSink,
  Status,
} from './services/maintenance.js';
export { type Http2Options, http2 } from './transport/http2.js';
export type { DeleteEvent, PutEvent, WatchBatch, WatchEvent } from './watch/event.js';
export type { Watch, WatchOptions } from './watch/watch.js';
