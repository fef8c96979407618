/// <reference path="../base/globals.ts" preserve="true" />

/**
 * This module contains servers for tests: real etcd members and clusters, and an etcd in memory. It also contains fault
 * proxies, and functions that check what the clients saw during faults.
 *
 * @module etcdwire/testing
 */
export * from './checks/check-calls.js';
export * from './checks/check-events.js';
export * from './checks/history.js';
export {
  type AddMember,
  EtcdCluster,
  type EtcdClusterOptions,
  type EtcdClusterTls,
  type JoinOptions,
} from './etcd/etcd-cluster.js';
export type { EtcdMember } from './etcd/etcd-member.js';
export type { FindEtcdOptions } from './etcd/find.js';
export { EtcdNotFoundError } from './etcd/not-found.js';
export { type RunningEtcd, type StartEtcdOptions, startEtcd } from './etcd/start-etcd.js';
export type { EtcdMinor } from './etcd/versions.js';
export { type BytesTest, containing } from './faults/bytes-test.js';
export { FaultProxy, type FaultProxyOptions } from './faults/fault-proxy.js';
export type { Direction, ThrottleOptions } from './faults/paced-pipe.js';
export { memoryOverHttp2 } from './http2-server/in-process.js';
export { type Listener, type ListenOptions, listen, type ServerTls } from './http2-server/listen.js';
export type { Http2ServerOptions } from './http2-server/server.js';
export { type Clock, ManualClock } from './memory/clock.js';
export { MemoryEtcd, type MemoryEtcdOptions } from './memory/memory-etcd.js';
export type { MemoryMember, RaftEntry, RaftView } from './memory/memory-member.js';
export type { MemoryVersion } from './memory/settings.js';
export { memory } from './memory/transport.js';
export type {
  CallStep,
  EventStep,
  OpenStep,
  RecordedMessage,
  RecordedState,
  RecordedStep,
  RecordedValue,
  Recording,
  ReplayDifference,
  StreamStep,
} from './replay/recording.js';
export { type ReplayOptions, replay } from './replay/replay.js';
