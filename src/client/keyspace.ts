import type { Channel } from '../channel/channel.js';
import type { CallOptions, Rpc } from '../channel/rpc.js';
import type { Endpoint } from '../host/endpoint.js';
import type { Keys } from '../kv/keys.js';
import type { KV, PagedKV } from '../kv/kv.js';
import type { GuardedKeyspace } from '../kv/retried-writes.js';
import type { LeaseClient, Leases } from '../lease/leases.js';
import { type CachedRange, openCachedRange } from '../mirror/cached-range.js';
import { type Mirror, type MirrorOptions, RangeMirror } from '../mirror/mirror.js';
import { checkCan } from '../runtime/arguments.js';
import type { BytesLike } from '../runtime/bytes.js';
import type { Transport } from '../transport/transport.js';
import type { Watch, WatchOptions } from '../watch/watch.js';
import type { WatchStream } from '../watch/watch-stream.js';

export type { Watch };

/**
 * Keys, watches and leases of a cluster, or of a namespace in it. The clients of `etcdwire/core` and `etcdwire` and
 * their namespaces implement this interface. In `etcdwire/concurrency`, `Session.open` and everything else that needs a
 * client accept it.
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
   * Ends the keepalives and sessions of this keyspace with reason `ClientClosed`, and ends its watches. Sessions revoke
   * their leases, so their locks become free at once. Waits at most 2 s for a server that does not answer. Closing a
   * namespace leaves the client open.
   */
  close(): Promise<void>;
}

/**
 * A `CoreKeyspace` that can also follow a range of keys. The `Client` of `etcdwire` and its namespaces implement this
 * interface.
 *
 * @example
 * async function countKeys(etcd: Keyspace, keys: Keys): Promise<number> {
 *   await using cached = await etcd.cachedRange(keys);
 *   return cached.size;
 * }
 */
export interface Keyspace extends CoreKeyspace {
  /**
   * Reads a range at one revision, and then delivers every later change in the range. With `fromRevision`, delivers the
   * changes after that revision, and reads the range only if it cannot continue from that revision.
   */
  mirror(keys: Keys, options?: MirrorOptions): Mirror;

  /**
   * Keeps a range in memory and up to date. Resolves when the client has read the range for the first time. Close the
   * cached range after use.
   */
  cachedRange(keys: Keys, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<CachedRange>;

  namespace(prefix: BytesLike): Keyspace;
}

/** The parts of a client. A namespace of the client shares every field except `transport` and `prefix`. */
export interface KeyspaceCore extends GuardedKeyspace {
  readonly channel: Channel;
  /** Aborts `settings.closed`. */
  readonly abortClosed: () => void;
  /** Returns the endpoints of the options, or the endpoints of the latest call of `setEndpoints`. */
  readonly configured: () => readonly Endpoint[];
  /** See `CoreClient.setEndpoints`. */
  readonly setEndpoints: (urls: readonly string[]) => void;
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

/** A function that runs before a keyspace closes, for example to revoke the lease of a session. */
export type Closer = () => Promise<void>;

/** A client or a namespace, with the members that only this package uses. A test double does not have these members. */
export interface KeyspaceClient extends CoreKeyspace, PagedKV {
  readonly leaseClient: LeaseClient;
  readonly core: KeyspaceCore;
  readonly rpc: Rpc;
  readonly watchStream: WatchStream;
  /** Registers `closer` to run before the keyspace or its client closes. Returns a function that removes `closer`. */
  beforeClose(closer: Closer): () => void;
}

export function mirrorOf(client: CoreKeyspace, keys: Keys, options: MirrorOptions = {}): Mirror {
  const keyspace = keyspaceClientOf(client);
  return new RangeMirror(keyspace, keyspace.watchStream, keys, options);
}

export function cachedRangeOf(
  client: CoreKeyspace,
  keys: Keys,
  options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {},
): Promise<CachedRange> {
  const keyspace = keyspaceClientOf(client);
  return openCachedRange(keyspace, keyspace.watchStream, keys, options);
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
