import { type CallOptions, Rpc, type RpcSettings } from '../channel/rpc.js';
import { checkKey, type Keys } from '../kv/keys.js';
import { KV, type KVOptions } from '../kv/kv.js';
import type { KeepAlive as LeaseKeepAlive } from '../lease/keep-alive.js';
import type { LeaseLike } from '../lease/lease-id.js';
import { type Lease, Leases as LeaseClient } from '../lease/leases.js';
import { type CachedRange as CachedKeyRange, type CachedRangeState, openCachedRange } from '../mirror/cached-range.js';
import { type MirrorOptions, openMirror, type Mirror as RangeMirror } from '../mirror/mirror.js';
import { checkCan, checkOptions, KEYS_HINTS } from '../runtime/arguments.js';
import { once } from '../runtime/async.js';
import { type BytesLike, concatBytes } from '../runtime/bytes.js';
import { INSPECT, type InspectArguments, inspected } from '../runtime/printed.js';
import { settledWithin } from '../runtime/timers.js';
import type { Transport } from '../transport/transport.js';
import { Watch as KeyWatch, WATCH_OPTIONS, type WatchOptions } from '../watch/watch.js';
import { WatchStream } from '../watch/watch-stream.js';
import { namespaceTransport } from './namespace.js';

/**
 * The public members of a class, without the members that `Internal` names. A test double can implement this type,
 * because the type does not contain the private fields of the class.
 */
type PublicOf<Class, Internal = never> = Pick<Class, Exclude<keyof Class, Internal>>;

/**
 * The events of a key or a range of keys. The watch delivers each event once, in revision order, even if the client
 * reconnects. Iterate over the watch or over `batches()`, but not over both.
 *
 * The iteration ends when the watch is closed. The iteration throws an `EtcdError` if the watch cannot continue; an
 * error with reason `Compacted` has a `compactRevision`.
 *
 * @example
 * for await (const event of etcd.watch(prefix('config/'))) {
 *   if (event.type === 'put') console.log(event.keyText(), '=', event.kv.text());
 *   else console.log(event.keyText(), 'was deleted');
 * }
 */
export interface Watch extends PublicOf<KeyWatch> {}

/**
 * An iterable of messages: first the keys of a range at one revision, and then every change in the range from the next
 * revision on. Iterate over the mirror only once. Breaking out of the loop ends the mirror.
 *
 * @example
 * for await (const message of etcd.mirror(prefix('config/'))) {
 *   if (message.type === 'keys') for (const kv of message.kvs) console.log(kv.keyText(), kv.text());
 *   if (message.type === 'events') for (const event of message.events) console.log(event.type, event.keyText());
 * }
 */
export interface Mirror extends PublicOf<RangeMirror> {}

/**
 * A range that the client holds in memory and keeps up to date. The range shows the store at one revision, which may be
 * older than the current revision of the store. `waitForRevision` waits until the range has caught up with a write or a
 * read.
 *
 * @example
 * await using config = await etcd.cachedRange(prefix('config/'));
 * const { header } = await etcd.put('config/color', 'blue');
 * await config.waitForRevision(header.revision);
 * console.log(config.get('config/color')?.text());
 */
export interface CachedRange extends PublicOf<CachedKeyRange, 'revision' | 'size' | 'state'> {
  /** The revision of the store that the range shows. */
  readonly revision: bigint;
  /**
   * Number of keys in the range.
   *
   * @throws EtcdError if the range was closed, or if the client can no longer keep it up to date.
   */
  readonly size: number;
  /**
   * Whether the range is up to date now; see `CachedRangeState`. For a proof, use `catchUp`.
   *
   * @throws EtcdError as `size` does.
   */
  readonly state: CachedRangeState;
}

/**
 * Keeps a lease alive until the keepalive is closed or the lease is lost. The lease's local deadline counts from the
 * time when the client sent the last acknowledged renewal, so the lease never expires on the server before that
 * deadline.
 *
 * @example
 * await using alive = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: 10 }));
 * alive.signal.addEventListener('abort', () => console.log('lost the lease:', alive.signal.reason));
 */
export interface KeepAlive extends PublicOf<LeaseKeepAlive, 'signal' | 'ttl' | 'acknowledged' | 'lose'> {
  /**
   * Aborts when the lease is lost. The abort reason is an `EtcdError`. Each read of `aborted` compares the local
   * deadline of the lease with the clocks of the machine, so the result is right even if timers run late.
   */
  readonly signal: AbortSignal;
  /** TTL in seconds that the latest grant or renewal returned. Undefined before the client knows the TTL. */
  readonly ttl: number | undefined;
}

/**
 * Grants, renews, revokes and lists leases. When a lease expires or is revoked, the server deletes the keys that are
 * attached to it.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 10 });
 * await etcd.put('workers/1', 'ready', { lease: lease.id });
 */
export interface Leases extends PublicOf<LeaseClient, 'keepAlive' | 'withDefaultTimeout' | 'close'> {
  /**
   * Renews a lease each time a third of its TTL has passed, until the keepalive is closed or the lease is lost. If you
   * pass the `Lease` that `grant` returned, the keepalive is valid at once. If you pass a lease ID, the keepalive is
   * valid from the first renewal on.
   */
  keepAlive(lease: Lease | LeaseLike): KeepAlive;
}

/**
 * Keys, watches and leases of a cluster, or of a namespace in it. The clients of `etcdwire/core` and `etcdwire` and
 * their namespaces implement this interface. Sessions, locks and all other classes of `etcdwire/concurrency` accept it.
 *
 * Functions that only read and write keys accept any implementation, so a test can pass a test double. Sessions need a
 * real client or namespace, and so do locks, because they need a session.
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
export interface CoreKeyspace extends PublicOf<KV, 'scanPages'>, AsyncDisposable {
  /** Grants, renews, revokes and lists leases. A namespace shows the leases of the whole cluster. */
  readonly lease: Leases;

  /** Watches a key or a range of keys. Delivers each event once, in revision order. */
  watch(keys: Keys, options?: WatchOptions): Watch;

  /**
   * Returns a keyspace of the keys that begin with `prefix`. Its methods accept and return keys without the prefix. The
   * namespace shares the client's connections, and is closed when the client is closed.
   */
  namespace(prefix: BytesLike): CoreKeyspace;

  /**
   * Ends the watches, keepalives and sessions of this keyspace with reason `ClientClosed`. Sessions revoke their
   * leases, so their locks become free at once. Waits at most 2 s for a server that does not answer. Closing a
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
   * changes after that revision without reading the range.
   */
  mirror(keys: Keys, options?: MirrorOptions): Mirror;

  /**
   * Holds a range in memory and keeps it up to date. Resolves when the client has read the range for the first time.
   * Close the cached range after use.
   */
  cachedRange(keys: Keys, options?: Pick<CallOptions, 'signal' | 'timeoutMs'>): Promise<CachedRange>;

  namespace(prefix: BytesLike): Keyspace;
}

/** What a keyspace consists of. A client and its namespaces share every field except `transport` and `prefix`. */
export interface KeyspaceCore {
  readonly transport: Transport;
  /** The prefix of all keys of the keyspace. Empty for a client. */
  readonly prefix: Uint8Array;
  readonly settings: RpcSettings;
  readonly kv: KVOptions;
  /** Functions that run before the client closes, for the client itself and for all its namespaces. */
  readonly closers: Set<Closer>;
  /** The prefix of the guards, relative to the keyspace. */
  readonly guardPrefix: Uint8Array;
  /** Returns the transport of a keyspace whose writes are guarded. Undefined if no write is. */
  readonly guarding?: ((core: KeyspaceCore) => Transport) | undefined;
}

/** A function that runs before a keyspace closes, for example to revoke the lease of a session. */
type Closer = () => Promise<void>;

/**
 * Maximum time, in milliseconds, that `close` waits for sessions to revoke their leases. An available server answers
 * much sooner.
 */
const CLOSERS_TIMEOUT_MS = 2_000;

/** The implementation of `CoreKeyspace` that all clients and namespaces share. */
export class KeyspaceClient extends KV implements CoreKeyspace {
  readonly lease: Leases;
  /** @internal The same object as `lease`, with its internal methods. */
  readonly leaseClient: LeaseClient;
  /** @internal */
  readonly core: KeyspaceCore;
  /** @internal */
  readonly rpc: Rpc;
  /** @internal */
  readonly watchStream: WatchStream;
  readonly #closers = new Set<Closer>();
  readonly #close = once(() => this.closeAfter(this.#closers));

  /** @internal */
  constructor(core: KeyspaceCore) {
    const rpc = new Rpc(core.guarding?.(core) ?? core.transport, core.settings);
    super(rpc, core.kv);
    this.core = core;
    this.rpc = rpc;
    this.watchStream = new WatchStream(rpc);
    this.leaseClient = new LeaseClient(rpc);
    this.lease = this.leaseClient;
  }

  watch(keys: Keys, options: WatchOptions = {}): Watch {
    checkOptions(options, WATCH_OPTIONS, 'watch', KEYS_HINTS);
    return new KeyWatch(this.watchStream, keys, options);
  }

  namespace(prefix: BytesLike): CoreKeyspace {
    return new KeyspaceClient(this.coreOf(prefix));
  }

  /** @internal Returns what the namespace of the keys that begin with `prefix` consists of. */
  protected coreOf(prefix: BytesLike): KeyspaceCore {
    const { core } = this;
    const inner = checkKey(prefix, 'prefix');
    const transport = namespaceTransport(core.transport, inner);
    return { ...core, transport, prefix: concatBytes(core.prefix, inner) };
  }

  /** Returns the fields that `JSON.stringify` writes. A namespace has none, because its prefix is part of keys. */
  toJSON(): object {
    return {};
  }

  /** @internal */
  [INSPECT](...args: InspectArguments): string {
    return inspected('Keyspace', this.toJSON(), ...args);
  }

  close(): Promise<void> {
    return this.#close();
  }

  /**
   * @internal Registers `closer` to run before the keyspace or its client closes. Returns a function that removes
   * `closer`.
   */
  beforeClose(closer: Closer): () => void {
    const all = [this.#closers, this.core.closers];
    for (const closers of all) closers.add(closer);
    return () => {
      for (const closers of all) closers.delete(closer);
    };
  }

  /** @internal Runs the closers, ends the watches and keepalives, and waits at most 2 s for the closers to finish. */
  protected async closeAfter(closers: Iterable<Closer>): Promise<void> {
    const done = closeAll(closers);
    this.leaseClient.close();
    this.watchStream.close();
    await settledWithin(CLOSERS_TIMEOUT_MS, done);
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Runs all closers. Also runs closers that are added in the meantime, because a session may open while the client
 * closes.
 */
async function closeAll(closers: Iterable<Closer>): Promise<void> {
  const called = new Set<Closer>();
  for (;;) {
    const added = [...closers].filter((closer) => !called.has(closer));
    if (added.length === 0) return;
    for (const closer of added) called.add(closer);
    await Promise.allSettled(added.map((closer) => closer()));
  }
}

/** Mirrors the keys, see `Keyspace.mirror`. */
export function mirrorOf(client: CoreKeyspace, keys: Keys, options: MirrorOptions = {}): Mirror {
  const keyspace = keyspaceClientOf(client);
  return openMirror(keyspace, keyspace.watchStream, keys, options);
}

/** Caches the keys, see `Keyspace.cachedRange`. */
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

/**
 * Returns `client` as the class that has the internal methods that sessions need. A test double does not have these
 * methods.
 *
 * @throws EtcdError with reason `InvalidInput` if `client` is neither a `Client` nor a namespace of one.
 */
export function keyspaceClientOf(client: CoreKeyspace): KeyspaceClient {
  return checkCan(client as KeyspaceClient, 'beforeClose', 'client', ALLOWED);
}
