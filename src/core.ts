/**
 * The client for keys, transactions, watches and leases alone, for programs whose size matters. It is the base class of
 * the `Client` of `etcdwire`.
 *
 * @module etcdwire/core
 */

export {
  CoreClient as Client,
  type CoreClientOptions,
  type Embedded,
} from './core-client.js';
export { EtcdError } from './errors/etcd-error.js';
export { createKey, deleteKeyIf, modifyKey, updateKey } from './keys/compare-and-set.js';
export { getMany } from './keys/get-many.js';
export type { CoreKeyspace } from './keyspace.js';
export { fromKey, keyRange, prefix } from './kv/keys.js';
export {
  withFirstCreate,
  withFirstKey,
  withFirstRev,
  withLastCreate,
  withLastKey,
  withLastRev,
  withMaxCreateRev,
} from './kv/requests.js';
export { compare, op } from './kv/txn.js';
export { objectFirst } from './runtime/log.js';
