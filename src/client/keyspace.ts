import { type BytesLike, checkCan } from '../base/index.js';
import type { Channel, Rpc, RpcSettings } from '../rpc/index.js';
import type { Transport } from '../wire/index.js';
import type { Closer, Closers } from './closers.js';
import type { Keys } from './kv/keys.js';
import type { KV, PagedKV } from './kv/kv.js';
import type { LeaseHolders } from './lease/lease-holders.js';
import type { LeaseClient, Leases } from './lease/leases.js';
import type { RenewalStream } from './lease/renewal-stream.js';
import type { Watch, Watches, WatchOptions } from './watch/watch.js';
import type { WatchStream } from './watch/watch-stream.js';

/**
 * Keys, watches and leases of a cluster, or of a namespace in it. The clients of `etcdwire/core` and `etcdwire` and
 * their namespaces implement this interface. In `etcdwire/locks` and `etcdwire/recipes`, `Session.open` and everything
 * else that needs a client accept it.
 *
 * Functions of this package that only read and write keys, such as `createKey`, accept any implementation, so a test
 * can pass a test double. Sessions need a real client or namespace. So do the functions that need a session, a mirror
 * or a cached range, and the writes that must not take effect twice, such as `WorkQueue.enqueue`.
 *
 * A method that fails throws an `EtcdError`, or returns a promise that rejects with one. Reason `InvalidInput` means
 * that nothing was sent; unknown options have this reason too. For other reasons, `outcome` says what happened to a
 * write.
 *
 * @example
 * async function increment(etcd: CoreKeyspace, key: string): Promise<void> {
 *   const count = Number((await etcd.get(key))?.text() ?? 0);
 *   await etcd.put(key, String(count + 1));
 * }
 */
export interface CoreKeyspace extends KV, AsyncDisposable {
  /** Grants, renews, revokes and lists leases. A namespace shows the leases of the whole cluster. */
  readonly lease: Leases;

  /** Watches a key or a range of keys. Delivers each event once, in revision order. */
  watch(keys: Keys, options?: WatchOptions): Watch;

  /**
   * Returns a keyspace of the keys that begin with `prefix`. Its methods accept and return keys without the prefix. The
   * namespace shares the client's connections, and closes when the client closes.
   */
  namespace(prefix: BytesLike): CoreKeyspace;

  /**
   * Ends the sessions, watches and keepalives of this keyspace with reason `ClientClosed`, after the functions that hold
   * a lock have ended. First, the signals of sessions and locks abort, and `lead`, `work` and similar functions end as if
   * their own signal had aborted. Then waits, at most `drainMs`, until these functions have returned and all locks are
   * released. A session revokes its lease, which frees its locks at once, only if it holds no lock any longer. The other
   * leases expire, so that no other client gets a lock while an action still runs. Closing a namespace leaves the client
   * open.
   */
  close(options?: CloseOptions): Promise<void>;
}

/** Options of `close` of a client or a namespace. */
export interface CloseOptions {
  /**
   * Maximum time in milliseconds that `close` waits for calls in flight, for the actions of `withLock`, `lead` and
   * similar functions, for the release of locks, and for the revocation of leases. Default 2,000.
   */
  readonly drainMs?: number | undefined;
}

/** The parts of a keyspace that its guards use. */
export interface GuardedKeyspace {
  readonly transport: Transport;
  readonly prefix: Uint8Array;
  readonly settings: RpcSettings;
  readonly maxTxnOps: number;
  readonly closers: Closers;
  readonly guardPrefix: Uint8Array;
}

/** The parts of a client. A namespace of the client shares every field except `transport` and `prefix`. */
export interface KeyspaceCore extends GuardedKeyspace {
  readonly channel: Channel;
  /** Aborts `settings.closed`. */
  readonly abortClosed: () => void;
  /** See `CoreClient.setEndpoints`. */
  readonly setEndpoints: (urls: readonly string[]) => void;
  /** The streams of all watches and keepalives of the client and its namespaces. The client creates both. */
  readonly watchStream?: WatchStream | undefined;
  readonly renewals?: RenewalStream | undefined;
  /** What is held under each lease with a session. */
  readonly leaseHolders: Map<bigint, LeaseHolders>;
  readonly isIntercepted: boolean;
  /** Maximum length, in bytes, of a response that the client accepts. */
  readonly maxReceiveBytes: number;
  /**
   * Returns the transport that guards all writes of a keyspace. Undefined unless the client's transport may send a
   * request twice.
   */
  readonly guarding?: ((keyspace: GuardedKeyspace) => Transport) | undefined;
  /** Returns the transport of the writes with `retryWrites`. Undefined if the client does not have this option. */
  readonly retrying?: ((keyspace: GuardedKeyspace) => Transport) | undefined;
}

/** A client or a namespace, with the members that only this package uses. A test double does not have these members. */
export interface KeyspaceClient extends CoreKeyspace, PagedKV {
  readonly leaseClient: LeaseClient;
  readonly core: KeyspaceCore;
  readonly rpc: Rpc;
  readonly watches: Watches;
  /** Registers `closer` to run when the keyspace or its client closes. Returns a function that removes `closer`. */
  beforeClose(closer: Closer): () => void;
}

const ALLOWED = 'a Client, or a namespace of one';

/**
 * Returns `client`. A test double needs only the methods that the caller uses, so the caller names one of them.
 *
 * @throws EtcdError with reason `InvalidInput` if `client` does not have this method of a `CoreKeyspace`.
 */
export function checkClient(client: CoreKeyspace, method: 'namespace' | 'range' | 'txn' = 'namespace'): CoreKeyspace {
  return checkCan(client, method, 'client', ALLOWED);
}

/** @throws EtcdError with reason `InvalidInput` if `client` is neither a `Client` nor a namespace of one. */
export function keyspaceClientOf(client: CoreKeyspace): KeyspaceClient {
  return checkCan(client as KeyspaceClient, 'beforeClose', 'client', ALLOWED);
}
