/**
 * Servers to break, and the judges of what a client did meanwhile.
 *
 * @module etcdwire/testing
 */
export { type BytesTest, containing } from './bytes-test.js';
export { type Claim, checkLock, type LockRule } from './check-lock.js';
export {
  checkOrder,
  type OrderedCall,
  type OrderedOperation,
  type OrderedResult,
  type OrderRule,
} from './check-order.js';
export { checkPuts, type PutCall, type PutRule } from './check-puts.js';
export { checkRegister, type RegisterCall, type RegisterOperation, type RegisterResult } from './check-register.js';
export { checkWatch, type SeenEvent, type WatchRule } from './check-watch.js';
export {
  type AddMember,
  EtcdCluster,
  type EtcdClusterOptions,
  type EtcdClusterTls,
  type JoinOptions,
} from './etcd-cluster.js';
export type { EtcdMember } from './etcd-member.js';
export { type Direction, FaultProxy, type FaultProxyOptions } from './fault-proxy.js';
export { GuardedResource } from './guarded-resource.js';
export { History, type Operation } from './history.js';
export type { Violation } from './violation.js';
