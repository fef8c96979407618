import { type CallOptions, Rpc, type RpcSettings } from './channel/rpc.js';
import type { KeyValue } from './kv/key-value.js';
import { checkKey, type Keys } from './kv/keys.js';
import { KV, type KVOptions } from './kv/kv.js';
import type {
  DeleteOptions,
  DeleteResult,
  GetOptions,
  PutOptions,
  PutResult,
  RangeOptions,
  RangeResult,
  ScanOptions,
  WithHeader,
} from './kv/requests.js';
import type { Conditions, Op, Txn, TxnResult } from './kv/txn.js';
import { Leases } from './lease/leases.js';
import { CACHED_RANGE_OPTIONS, CachedRange } from './mirror/cached-range.js';
import { MIRROR_OPTIONS, Mirror, type MirrorOptions } from './mirror/mirror.js';
import { NamespaceTransport } from './namespace.js';
import { checkCan, checkOptions, KEYS_HINTS } from './runtime/arguments.js';
import type { BytesLike } from './runtime/bytes.js';
import { once } from './runtime/signals.js';
import { settledWithin } from './runtime/timers.js';
import type { Transport } from './transport/transport.js';
import { WATCH_OPTIONS, Watch, type WatchOptions } from './watch/watch.js';
import { WatchStream } from './watch/watch-stream.js';

/** What a keyspace is made of. */
export interface KeyspaceCore {
  readonly transport: Transport;
  readonly settings: RpcSettings;
  readonly kv: KVOptions;
  /** What is to be done before the client closes, of all its namespaces. */
  readonly closers: Set<Closer>;
}

type Closer = () => Promise<void>;

/** For those who hold something in the cluster to give it back: long enough for a server that answers. */
const CLOSERS_TIMEOUT_MS = 2_000;

/**
 * Keys, watches and leases: of a whole cluster, or of a namespace within it. Everything that is built on keys, locks for
 * one, takes either. Every method throws an `EtcdError`: reason `InvalidInput` before anything is sent, else what the
 * server or the connection had to say, with the `outcome` of the write. An option that a method does not have is refused
 * by its name.
 */
export class Keyspace implements AsyncDisposable {
  /** Grant, renew, revoke, look up. */
  readonly lease: Leases;
  readonly #core: KeyspaceCore;
  readonly #kv: KV;
  readonly #watchStream: WatchStream;
  readonly #closers = new Set<Closer>();
  readonly #close = once(() => this.closeAfter(this.#closers));

  /** @internal */
  constructor(core: KeyspaceCore) {
    const rpc = new Rpc(core.transport, core.settings);
    this.#core = core;
    this.#kv = new KV(rpc, core.kv);
    this.#watchStream = new WatchStream(rpc);
    this.lease = new Leases(rpc);
  }

  /** The key, or undefined where there is none. */
  get(key: BytesLike, options?: GetOptions & CallOptions): Promise<KeyValue | undefined> {
    return this.#kv.get(key, options);
  }

  /** A key or a range of keys. */
  range(keys: Keys, options?: RangeOptions & CallOptions): Promise<WithHeader<RangeResult>> {
    return this.#kv.range(keys, options);
  }

  /**
   * Every key of a range in ascending order, all as of one revision: streamed where the server can (etcd 3.7), else
   * page by page. A compaction past that revision during a long scan ends it with reason `Compacted`.
   */
  scan(keys: Keys, options?: ScanOptions & CallOptions): AsyncIterableIterator<KeyValue> {
    return this.#kv.scan(keys, options);
  }

  /** Puts a key. Without `lease` it is detached from the one it had. */
  put(key: BytesLike, value: BytesLike, options?: PutOptions & CallOptions): Promise<WithHeader<PutResult>> {
    return this.#kv.put(key, value, options);
  }

  /** Deletes a key or a range of keys; `deleted` tells how many there were. */
  delete(keys: Keys, options?: DeleteOptions & CallOptions): Promise<WithHeader<DeleteResult>> {
    return this.#kv.delete(keys, options);
  }

  /**
   * Runs `then` when every condition of `if` holds, and `else` otherwise; all of it at one revision. `succeeded` tells
   * which of them ran, and types `responses`. Without `if`, `then` always runs, and `else` is not allowed.
   *
   * @example
   * const result = await etcd.txn({
   *   if: [compare.missing('config/size')],
   *   then: [op.put('config/size', '10')],
   *   else: [op.get('config/size')],
   * });
   * if (!result.succeeded) console.log(result.responses[0]?.text());
   */
  txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options?: CallOptions): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    return this.#kv.txn(txn, options);
  }

  /** Discards history below `revision`, of the whole store. */
  compact(
    revision: bigint,
    options?: { readonly physical?: boolean | undefined } & CallOptions,
  ): Promise<WithHeader<object>> {
    return this.#kv.compact(revision, options);
  }

  /**
   * Watches a key or a range of keys, and delivers each event once and in order.
   *
   * @example
   * ```ts
   * const watch = etcd.watch(prefix('jobs/'));
   * await watch.created();
   * await etcd.put('jobs/1', 'todo');
   * for await (const event of watch) {
   *   if (event.type === 'put') console.log(event.keyText(), event.kv.text()); // jobs/1 todo
   *   break; // Closes the watch.
   * }
   * ```
   */
  watch(keys: Keys, options: WatchOptions = {}): Watch {
    checkOptions(options, WATCH_OPTIONS, 'watch', KEYS_HINTS);
    return new Watch(this.#watchStream, keys, options);
  }

  /** A range as of one revision, and then its changes. */
  mirror(keys: Keys, options: MirrorOptions = {}): Mirror {
    checkOptions(options, MIRROR_OPTIONS, 'mirror', KEYS_HINTS);
    return new Mirror(this.#kv, this.#watchStream, keys, options);
  }

  /** A range held in memory and kept up to date, from when it was read first. Close it. */
  async cachedRange(keys: Keys, options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<CachedRange> {
    checkOptions(options, CACHED_RANGE_OPTIONS, 'cachedRange', KEYS_HINTS);
    const cached = new CachedRange(keys, this.#kv, (own, signal) => this.mirror(own, { signal }));
    try {
      await cached.waitForRevision(0n, options);
      return cached;
    } catch (error) {
      await cached.close();
      throw error;
    }
  }

  /**
   * The keys that begin with `prefix`, seen without it. It shares the client's connections and ends with it; closing
   * it ends its own watches and keepalives alone. Leases are those of the whole cluster.
   */
  namespace(prefix: BytesLike): Keyspace {
    const transport = new NamespaceTransport(this.#core.transport, checkKey(prefix, 'prefix'));
    return new Keyspace({ ...this.#core, transport });
  }

  /**
   * Ends all watches and keepalives with reason `ClientClosed`. Sessions are closed, so that their locks are free at
   * once; a server that is not there is waited for no longer than 2 s.
   */
  close(): Promise<void> {
    return this.#close();
  }

  /** @internal Has this done when the keyspace or its client is closed, unless the function returned is called before. */
  beforeClose(closer: Closer): () => void {
    const all = [this.#closers, this.#core.closers];
    for (const closers of all) closers.add(closer);
    return () => {
      for (const closers of all) closers.delete(closer);
    };
  }

  /** @internal */
  protected async closeAfter(closers: Iterable<Closer>): Promise<void> {
    const done = closeAll(closers);
    this.lease.close();
    this.#watchStream.close();
    await settledWithin(CLOSERS_TIMEOUT_MS, done);
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Those too that come meanwhile: a session may be granted just then. */
async function closeAll(closers: Iterable<Closer>): Promise<void> {
  const called = new Set<Closer>();
  for (;;) {
    const fresh = [...closers].filter((closer) => !called.has(closer));
    if (fresh.length === 0) return;
    for (const closer of fresh) called.add(closer);
    await Promise.allSettled(fresh.map((closer) => closer()));
  }
}

/** @throws EtcdError, reason `InvalidInput`. */
export function checkClient(client: Keyspace): Keyspace {
  return checkCan(client, 'cachedRange', 'client', 'a Client, or a namespace of one');
}
