/// <reference path="./base/globals.ts" preserve="true" />

/**
 * A client for only keys, transactions, watches and leases, for programs whose size matters. It is the base class of
 * the `Client` of `etcdwire`.
 *
 * @module etcdwire/core
 */

// This module exports from the main entry point, because the package then has fewer files and Node.js loads it faster.
// Bundlers leave out the parts of the main entry point that a program does not use.
export {
  type CloseOptions,
  CoreClient,
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
