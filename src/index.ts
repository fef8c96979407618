/**
 * The client of etcd v3: keys, transactions, watches, leases, and every RPC.
 *
 * @module etcdwire
 */

export type { Credentials } from './channel/credentials.js';
export type { CallDiagnostics } from './channel/diagnostics.js';
export type { Interceptor } from './channel/interceptors.js';
export type { BidiStream, StreamOptions } from './channel/message-stream.js';
export type { CallOptions } from './channel/rpc.js';
export { Client, type ClientOptions } from './client.js';
export { type ClientReason, EtcdError, type EtcdErrorDetails, type Outcome, type Reason } from './errors/etcd-error.js';
export type { ServerReason } from './errors/server-errors.js';
export type { StatusCode } from './errors/status.js';
export type { DowngradeInfo, ResponseHeader, StatusResponse } from './gen/etcdserverpb/rpc.js';
export type { Endpoint } from './host/endpoint.js';
export type { TlsOptions, TlsSource } from './host/tls.js';
export { Keyspace } from './keyspace.js';
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
  type WithHeader,
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
export type { KeepAlive } from './lease/keep-alive.js';
export type { LeaseLike } from './lease/lease-id.js';
export type { GrantOptions, Lease, Leases, TimeToLive } from './lease/leases.js';
export type { CachedRange } from './mirror/cached-range.js';
export type { Mirror, MirrorMessage, MirrorOptions } from './mirror/mirror.js';
export type { Init } from './protobuf/codec.js';
export type { Method, MethodKind } from './protobuf/schema.js';
export type { Raw, Stub } from './raw.js';
export type { BytesLike } from './runtime/bytes.js';
export { type LogDetails, type Logger, type ObjectFirstLogger, objectFirst } from './runtime/log.js';
export type { Access, Auth, Login, Permission } from './services/auth.js';
export type { Cluster, Member, Members } from './services/cluster.js';
export type { ElectionService, LeaderKey } from './services/election.js';
export type { LockService } from './services/lock.js';
export type {
  Alarm,
  Maintenance,
  MemberCallOptions,
  Snapshot,
  SnapshotSink,
  Status,
} from './services/maintenance.js';
export type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from './transport/transport.js';
export type { DeleteEvent, PutEvent, WatchBatch, WatchEvent } from './watch/event.js';
export type { Watch, WatchOptions } from './watch/watch.js';
