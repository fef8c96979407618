/// <reference path="./runtime/globals.ts" preserve="true" />

/**
 * The client for keys, transactions, watches and leases alone, for programs whose size matters. It is the base class of
 * the `Client` of `etcdwire`.
 *
 * @module etcdwire/core
 */

// These exports come from the main entry point, although programs that use this module need only a part of it. Bundlers
// leave out the rest. The package then has fewer files, so that Node.js loads it faster.
export {
  CoreClient as Client,
  type CoreClientOptions,
  type CoreKeyspace,
  compare,
  createKey,
  deleteKeyIf,
  type Embedded,
  EtcdError,
  fromKey,
  getMany,
  keyRange,
  modifyKey,
  objectFirst,
  op,
  prefix,
  updateKey,
  withFirstCreate,
  withFirstKey,
  withFirstRev,
  withLastCreate,
  withLastKey,
  withLastRev,
  withMaxCreateRev,
} from './index.js';
