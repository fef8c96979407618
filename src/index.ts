/**
 * The client of etcd v3: keys, transactions, watches, leases, and every RPC.
 *
 * @module etcdwire
 */
export type { Access, Auth, Login, Permission } from './auth/auth.js';
export type { BytesLike } from './bytes.js';
export type { Credentials } from './channel/credentials.js';
export type { CallDiagnostics } from './channel/diagnostics.js';
export type { Interceptor } from './channel/interceptors.js';
export type { BidiStream, StreamOptions } from './channel/message-stream.js';
export type { CallOptions } from './channel/rpc.js';
export { Client, type ClientOptions } from './client.js';
export type { Cluster, Member, Members } from './cluster/cluster.js';
export type { ElectionService, LeaderKey } from './election/election-service.js';
export { type ClientReason, EtcdError, type EtcdErrorDetails, type Outcome, type Reason } from './errors.js';
export type { DowngradeInfo, ResponseHeader, StatusResponse } from './gen/etcdserverpb/rpc.js';
export { Keyspace } from './keyspace.js';
export { fromKey, type Keys, keyRange, prefix } from './kv/key-range.js';
export { KeyValue } from './kv/key-value.js';
export type { GetOptions, ScanOptions } from './kv/kv.js';
export * from './kv/range-presets.js';
export type { DeleteOptions, PutOptions, RangeOptions, Sort } from './kv/requests.js';
export type { DeleteResult, PutResult, RangeResult, WithHeader } from './kv/results.js';
export type { KeepAlive } from './lease/keep-alive.js';
export type { GrantOptions, Lease, Leases, TimeToLive } from './lease/lease.js';
export type { LockService } from './lock/lock-service.js';
export { type LogDetails, type Logger, type ObjectFirstLogger, objectFirst } from './log.js';
export type { Alarm, Maintenance, Status } from './maintenance/maintenance.js';
export type { Snapshot, SnapshotSink } from './maintenance/snapshot.js';
export type { CachedRange } from './mirror/cached-range.js';
export type { Mirror, MirrorMessage, MirrorOptions } from './mirror/mirror.js';
export type { Init } from './protobuf/codec.js';
export type { Method, MethodKind } from './protobuf/method.js';
export type { Raw, Stub } from './raw.js';
export type { ServerReason } from './server-errors.js';
export type { StatusCode } from './status.js';
export type { Endpoint } from './transport/endpoint.js';
export type { TlsOptions, TlsSource } from './transport/tls.js';
export type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  UnaryCall,
} from './transport/transport.js';
export type { TransportFactory, TransportOptions } from './transport/transport-options.js';
export { type Compare, compare, type Operator } from './txn/compare.js';
export {
  type DeleteOp,
  type GetOp,
  type Op,
  type OpResult,
  op,
  type PutOp,
  type RangeOp,
  type Results,
  type Txn,
  type TxnOp,
  type TxnResult,
} from './txn/op.js';
export type { WatchBatch, WatchEvent } from './watch/event.js';
export type { Watch, WatchOptions } from './watch/watch.js';
