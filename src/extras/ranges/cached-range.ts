import {
  type BytesLike,
  canceled,
  checkInt64,
  checkOptions,
  clientClosed,
  compareBytes,
  EtcdError,
  type Int64Like,
  invalidInput,
  KEYS_HINTS,
  monotonicMs,
  pause,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkKey,
  contains,
  endOf,
  type Keys,
  type KeyspaceClient,
  type KeyValue,
  type KV,
  keyspaceClientOf,
  op,
  ownKeys,
  resolveKeys,
  type WireRange,
} from '../../client/index.js';
import { type CallOptions, internally, TIME_LIMITS, WaitTrace, withSharedLimit } from '../../rpc/index.js';
import { CHANGES_OPTIONS, Changes, type ChangesOptions, type RangeChange } from './changes.js';
import { type MirrorMessage, type MirrorOptions, RangeMirror } from './mirror.js';
import { type NoteChange, RangeFold } from './range-fold.js';
import { RevisionWaits } from './revision-waits.js';

/**
 * Delay in milliseconds before the first read of the store's revision, while a caller waits for a revision. If the
 * caller waits for a write by this client, the event of the write usually arrives sooner, so the read is not needed.
 */
const FIRST_READ_MS = 5;
/** Interval in milliseconds between further reads of the store's revision, while a caller waits for a revision. */
const READ_INTERVAL_MS = 100;

/** A function that starts a mirror of the keys. The mirror ends when the signal aborts. */
type MirrorOf = (keys: Keys, options: Pick<MirrorOptions, 'signal'>) => AsyncIterable<MirrorMessage>;

/**
 * Whether a cached range is up to date.
 *
 * - `current`: The watch is open, so every change arrives as soon as the server sends it. If the server stops
 *   answering, the status stays `current` for some seconds, until the client notices. After an interruption, missed
 *   changes may still be on their way.
 * - `stale`: The watch has been interrupted for `forMs` milliseconds. The range shows the keys from before the
 *   interruption.
 * - `syncing`: The client reads the whole range again, because it may have missed changes. Until it has read all keys,
 *   the range shows the previous keys.
 */
export type CachedRangeState =
  | { readonly status: 'current' | 'syncing' }
  | { readonly status: 'stale'; readonly forMs: number };

/**
 * Opens a cached range. Resolves when the client has read the range for the first time. While no server answers, waits
 * like a watch, but at most `timeoutMs`.
 */
export async function cachedRangeOf(
  client: CoreKeyspace,
  keys: Keys,
  options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {},
): Promise<CachedRange> {
  checkOptions(options, TIME_LIMITS, 'cachedRange', KEYS_HINTS);
  const kv = keyspaceClientOf(client);
  const cached = new CachedKeyRange(keys, kv, (own, options) => new RangeMirror(kv, kv.watches, own, options));
  try {
    await cached.waitForRevision(0n, options);
    return cached;
  } catch (error) {
    await cached.close();
    throw error;
  }
}

/**
 * An in-memory copy of a range of keys. The client keeps the copy up to date. At every moment, the copy equals the
 * range in the store at the revision `revision`, which may be older than the latest revision. `waitForRevision` waits
 * until the cached range has reached a given revision. When the client has to read the range from the store again, the
 * cached range keeps its previous keys until the client has read all keys, and then replaces all of them at once.
 *
 * @example
 * await using config = await etcd.cachedRange(prefix('config/'));
 * const { header } = await etcd.put('config/size', '10');
 * await config.waitForRevision(header.revision);
 * console.log(config.get('config/size')?.text(), config.size);
 */
export interface CachedRange extends Omit<CachedKeyRange, 'revision' | 'size' | 'state'> {
  /**
   * The revision of the store that the cached range shows. 0n until the client has read the whole range once. After the
   * cluster was restored from a backup, 0n until the client has read the range again.
   */
  readonly revision: bigint;
  /**
   * Number of keys.
   *
   * @throws EtcdError if the cached range has ended: with reason `WatchClosed` after `close`, otherwise the error that
   * ended the cached range.
   */
  readonly size: number;
  /**
   * Whether the range is up to date, as far as the client knows: see `CachedRangeState`. To be certain, use `catchUp`.
   *
   * @throws EtcdError as `size` does.
   */
  readonly state: CachedRangeState;
}

/** Identifies the keys of a cached range: each change of the keys changes one of the properties. */
export interface RangeVersion {
  /** The read of the whole range to which the range owes its keys. After a restore, it may have the former revision. */
  readonly read: object;
  readonly revision: bigint;
}

/** Returns what identifies the present keys of a cached range. Throws if the cached range has ended. */
export let versionOf: (range: CachedRange) => RangeVersion;

/**
 * Implements `CachedRange`, which is an interface, because a test double cannot have the private fields of a class. A
 * subclass may have other states, of type `OtherState`.
 */
export class CachedKeyRange<OtherState = never> implements AsyncDisposable {
  /** @internal The class name that `console.log` shows. */
  static readonly name: string = 'CachedRange';

  readonly #kv: Pick<KV, 'txn'>;
  readonly #keys: Keys;
  readonly #range: WireRange;
  readonly #stop = new AbortController();
  readonly #fold = new RangeFold();
  #ended: EtcdError | undefined;
  readonly #consumers = new Set<Changes>();
  /** @internal What happened to the calls and the watch of the range. */
  protected readonly trace: WaitTrace = new WaitTrace();
  readonly #waits = new RevisionWaits(this.trace);
  #isReadingState = false;

  /** @internal */
  constructor(keys: Keys, kv: Pick<KV, 'txn'>, mirror: MirrorOf) {
    this.#keys = ownKeys(keys);
    this.#range = resolveKeys(this.#keys, 'keys');
    this.#kv = kv;
    void this.#follow(mirror(this.#keys, internally({ signal: this.#stop.signal }, { trace: this.trace })));
  }

  static {
    versionOf = (range) => {
      const self = range as CachedKeyRange;
      self.#checkOpen();
      return { read: self.#fold.kvs, revision: self.#fold.revision };
    };
  }

  get revision(): bigint {
    return this.#fold.revision;
  }

  get state(): CachedRangeState | OtherState {
    this.#checkOpen();
    const { detachedAt } = this.trace;
    if (detachedAt !== undefined) return { status: 'stale', forMs: monotonicMs() - detachedAt };
    return { status: this.#fold.isSyncing ? 'syncing' : 'current' };
  }

  get size(): number {
    this.#checkOpen();
    return this.#fold.kvs.size;
  }

  /**
   * Returns a key from memory, or undefined if the key does not exist.
   *
   * @throws EtcdError with reason `InvalidInput` if the key is outside the cached range. If the cached range has ended,
   * throws the same error as `size`.
   */
  get(key: BytesLike): KeyValue | undefined {
    this.#checkOpen();
    const bytes = checkKey(key, 'key');
    if (!contains(this.#range, bytes)) throw outside('key');
    return this.#fold.kvs.get(bytes);
  }

  /**
   * Returns keys from memory, in ascending order. Default: all keys of the cached range, like `entries()` of a `Map`.
   *
   * @throws EtcdError with reason `InvalidInput` if a part of `keys` is outside the cached range. If the cached range
   * has ended, throws the same error as `size`.
   */
  range(keys?: Keys): readonly KeyValue[] {
    this.#checkOpen();
    if (keys === undefined) return this.#fold.all();
    const range = resolveKeys(keys, 'keys');
    if (!includes(this.#range, range)) throw outside('keys');
    return this.#fold.kvs.slice(range.key, endOf(range));
  }

  /**
   * Waits until the cached range contains every change up to `revision`. Without `timeoutMs`, the wait has no limit.
   *
   * @throws EtcdError with reason `DeadlineExceeded` after `timeoutMs`, `Canceled` when the signal aborts, or
   * `InvalidInput` for invalid arguments. If the cached range ends, rejects with the same error as `size`.
   *
   * @example
   * await using config = await etcd.cachedRange(prefix('config/'));
   * const { header } = await etcd.put('config/size', '10');
   * await config.waitForRevision(header.revision, { timeoutMs: 5_000 });
   */
  async waitForRevision(revision: Int64Like, options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<void> {
    checkOptions(options, TIME_LIMITS, 'waitForRevision');
    const awaited = checkInt64(revision, 'revision');
    const { signal } = options;
    this.#checkOpen();
    if (signal?.aborted) throw canceled(signal, 'rejected');
    const limits = withSharedLimit(options);
    // The client has seen that the store went back to an older revision, and the range has not.
    const seen = (this.#kv as Partial<KeyspaceClient>).rpc?.settings.cluster?.revision ?? this.revision;
    if (seen < this.revision) await this.#readRevision(limits);
    if (this.revision > 0n && this.revision >= awaited) return;
    const what = this.revision === 0n ? 'the first read of the range' : undefined;
    const reached = this.#waits.add(awaited, limits, what);
    void this.#readStateWhileAwaited();
    await reached;
  }

  /**
   * Waits until the cached range contains every change that was complete when the caller called this method. Reads from
   * memory then see all of these changes. The call costs one linearizable read of the store's revision.
   *
   * @throws EtcdError as `waitForRevision` does, or the error of the read if the read fails.
   *
   * @example
   * await using config = await etcd.cachedRange(prefix('config/'));
   * await config.catchUp({ timeoutMs: 5_000 });
   * console.log(config.get('config/color')?.text(), config.state.status); // blue current
   */
  async catchUp(options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<void> {
    checkOptions(options, TIME_LIMITS, 'catchUp');
    this.#checkOpen();
    const limits = withSharedLimit(options);
    await this.waitForRevision(await this.#readRevision(options), limits);
  }

  /**
   * Yields each change of the cached range, also those that the client finds when it has to read the range again. If a
   * key changes several times before the consumer takes the change, the consumer gets one change from the first state
   * to the last. All consumers share the watch of the cached range. The iteration ends when the cached range is closed.
   * An iterator collects changes from the call of `changes` on, so iterate over it, or call its `return`.
   *
   * @throws EtcdError with reason `Canceled` when `signal` aborts. If the cached range ends otherwise, throws the same
   * error as `size`.
   *
   * @example
   * await using config = await etcd.cachedRange(prefix('config/'));
   * const changes = config.changes();
   * await etcd.put('config/color', 'red');
   * for await (const { type, kv, old } of changes) {
   *   console.log(type, kv?.key, old?.text(), kv?.text());
   *   break;
   * }
   */
  changes(options: ChangesOptions = {}): AsyncIterableIterator<RangeChange> {
    this.#checkOpen();
    checkOptions(options, CHANGES_OPTIONS, 'changes');
    const consumer = new Changes(this.#consumers, options.signal);
    if (options.initial) for (const kv of this.#fold.all()) consumer.note(kv.keyBytes, undefined, kv);
    return consumer;
  }

  /** Ends the cached range. Later reads throw, and pending and later waits reject, with reason `WatchClosed`. */
  async close(): Promise<void> {
    this.#end(
      new EtcdError('the cached range was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'rejected' }),
    );
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Reads and returns the store's revision. */
  async #readRevision(options: CallOptions): Promise<bigint> {
    const { revision: before, kvs } = this.#fold;
    const { header } = await this.#kv.txn({ then: [op.range(this.#keys, { countOnly: true })] }, options);
    // The store has gone back to an older revision, so it was restored, and the client will read the range again.
    if (header.revision < before && this.#fold.kvs === kvs) this.#fold.revision = 0n;
    return header.revision;
  }

  /**
   * Reads the store's revision repeatedly as long as a caller waits, because no event arrives if the range does not
   * change. A progress request on the watch would be cheaper, but versions of etcd before 3.4.25 and 3.5.8 may answer
   * it before they have sent the events of earlier revisions.
   */
  async #readStateWhileAwaited(): Promise<void> {
    if (this.#isReadingState) return;
    this.#isReadingState = true;
    for (let delayMs = FIRST_READ_MS; ; delayMs = READ_INTERVAL_MS) {
      await pause(delayMs, this.#stop.signal);
      if (this.#waits.isEmpty || this.#stop.signal.aborted) break;
      // Ignore a failed read, because the next read may succeed, and `timeoutMs` limits the wait of each caller.
      await this.#advanceIfUnchanged().catch(() => {});
    }
    this.#isReadingState = false;
  }

  /**
   * Advances `revision` to the store's revision if the range has not changed. It has not changed if the range in the
   * store has as many keys as the cached range, and no client has put one of these keys after `revision`.
   */
  async #advanceIfUnchanged(): Promise<void> {
    const since = this.revision;
    if (since === 0n) return;
    const countAll = op.range(this.#keys, { countOnly: true });
    const firstChanged = op.range(this.#keys, { minModRevision: since + 1n, limit: 1, keysOnly: true });
    const { header, responses } = await this.#kv.txn({ then: [countAll, firstChanged] }, { signal: this.#stop.signal });
    const [{ count }, { kvs: changed }] = responses;
    if (this.revision === since && changed.length === 0 && count === this.#fold.kvs.size)
      this.apply({ type: 'events', ...header, events: [] });
  }

  async #follow(messages: AsyncIterable<MirrorMessage>): Promise<void> {
    try {
      for await (const message of messages) this.apply(message);
      // A mirror ends without an error only when its client or namespace is closed.
      this.#end(clientClosed('rejected'));
    } catch (error) {
      this.#end(error as EtcdError);
    }
  }

  /** Applies a message to the keys and the revision. A subclass may apply the message later. */
  protected apply(message: MirrorMessage): void {
    if (this.#fold.take(message, this.#consumers.size > 0 ? this.#note : undefined)) this.#waits.reached(this.revision);
  }

  readonly #note: NoteChange = (key, old, kv) => {
    for (const consumer of this.#consumers) consumer.note(key, old, kv);
  };

  #end(error: EtcdError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#stop.abort(error);
    for (const consumer of this.#consumers) consumer.end(error.reason === 'WatchClosed' ? undefined : error);
    this.#waits.fail(error);
  }

  /** Throws if the cached range has ended, because its keys are then no longer updated. */
  #checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }
}

/** Whether every key of `inner` is in `outer`. */
function includes(outer: WireRange, inner: WireRange): boolean {
  if (compareBytes(outer.key, inner.key) > 0) return false;
  const [outerEnd, innerEnd] = [endOf(outer), endOf(inner)];
  return outerEnd === undefined || (innerEnd !== undefined && compareBytes(innerEnd, outerEnd) <= 0);
}

function outside(argument: 'key' | 'keys'): EtcdError {
  const what = argument === 'key' ? 'a key' : argument;
  return invalidInput(argument, `${what} outside the cached range`, 'only keys in the cached range');
}
