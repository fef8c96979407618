/**
 * etcd clusters and fault proxies for tests that inject faults, and functions that check what the clients saw during
 * the faults.
 *
 * @module etcdwire/testing
 */
export * from './check-calls.js';
export * from './check-events.js';
export {
  type AddMember,
  EtcdCluster,
  type EtcdClusterOptions,
  type EtcdClusterTls,
  type JoinOptions,
} from './etcd-cluster.js';
export type { EtcdMember } from './etcd-member.js';
export * from './fault-proxy.js';
export * from './history.js';
