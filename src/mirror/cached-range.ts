import { type CallOptions, checkTimeout } from '../channel/rpc.js';
import { canceled, clientClosed, EtcdError, invalidInput, timedOut } from '../errors/etcd-error.js';
import { checkKey, type Keys, resolveKeys, type WireRange } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { checkInt64, checkOptions } from '../runtime/arguments.js';
import { type BytesLike, compareBytes } from '../runtime/bytes.js';
import { onAbort } from '../runtime/signals.js';
import { after, pause } from '../runtime/timers.js';
import type { Mirror, MirrorMessage } from './mirror.js';
import { SortedKeys } from './sorted-keys.js';

/** Events of one's own writes are there sooner. */
const FIRST_LOOK_MS = 5;
/** How often the store is looked at, while somebody waits for a revision and no event tells of it. */
const LOOK_MS = 100;

/** Names of the options of `cachedRange` and of `waitForRevision`. */
export const CACHED_RANGE_OPTIONS = { signal: true, timeoutMs: true } as const;

interface Waiter {
  readonly revision: bigint;
  resolve(): void;
  reject(error: unknown): void;
}

/** The store as of `revision`: how many keys the range has, and whether any has changed since a revision. */
export interface RangeState {
  readonly revision: bigint;
  readonly count: bigint;
  readonly changed: boolean;
}

/** What a cached range stands on. */
export interface CachedRangeSource {
  mirror(signal: AbortSignal): Mirror;
  look(since: bigint, options: CallOptions): Promise<RangeState>;
}

/**
 * A range held in memory and kept up to date: at every moment the store as of one revision, `revision`. It may be
 * behind the store; `waitForRevision` brings it to where a write or a read has been. While all keys have to be read
 * anew it shows what it had, and then takes over the new ones at once.
 */
export class CachedRange implements AsyncDisposable {
  readonly #source: CachedRangeSource;
  readonly #range: WireRange;
  readonly #stop = new AbortController();
  #keys = new SortedKeys();
  /** Keys read anew, not all of them yet. */
  #next = new SortedKeys();
  #revision = 0n;
  #ended: EtcdError | undefined;
  #waiters: Waiter[] = [];
  #looking = false;

  /** @internal */
  constructor(keys: Keys, source: CachedRangeSource) {
    this.#range = resolveKeys(keys, 'keys');
    this.#source = source;
    void this.#follow();
  }

  /** Everything up to this revision is in it. */
  get revision(): bigint {
    return this.#revision;
  }

  /** Number of keys. */
  get size(): number {
    this.#check();
    return this.#keys.size;
  }

  /** @throws EtcdError, reason `InvalidInput` where the key is not in the range that is held. */
  get(key: BytesLike): KeyValue | undefined {
    this.#check();
    const bytes = checkKey(key, 'key');
    this.#checkInside({ key: bytes, rangeEnd: new Uint8Array(0) }, 'key');
    return this.#keys.get(bytes);
  }

  /** In ascending order. Default: all. @throws EtcdError, reason `InvalidInput` where that is more than is held. */
  range(keys?: Keys): readonly KeyValue[] {
    this.#check();
    if (keys === undefined) return this.#keys.range(this.#range);
    const range = resolveKeys(keys, 'keys');
    this.#checkInside(range, 'keys');
    return this.#keys.range(range);
  }

  /** Waits until everything up to this revision is in it. @throws EtcdError */
  waitForRevision(revision: bigint, options: Pick<CallOptions, 'signal' | 'timeoutMs'> = {}): Promise<void> {
    return new Promise((resolve, reject) => {
      checkOptions(options, CACHED_RANGE_OPTIONS, 'waitForRevision');
      const { signal, timeoutMs = Number.POSITIVE_INFINITY } = options;
      checkInt64(revision, 'revision');
      checkTimeout(timeoutMs, 'timeoutMs');
      if (this.#ended !== undefined) return reject(this.#ended);
      if (signal?.aborted) return reject(canceled(signal, 'rejected'));
      if (this.#revision > 0n && this.#revision >= revision) return resolve();
      const finish = (settle: () => void): void => {
        for (const undo of undos) undo();
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        settle();
      };
      const waiter: Waiter = {
        revision,
        resolve: () => finish(resolve),
        reject: (error) => finish(() => reject(error)),
      };
      this.#waiters.push(waiter);
      const undos = [
        after(timeoutMs, () => waiter.reject(timedOut('waitForRevision', timeoutMs, 'rejected'))),
        signal === undefined ? () => {} : onAbort(signal, () => waiter.reject(canceled(signal, 'rejected'))),
      ];
      void this.#lookWhileAwaited();
    });
  }

  /** Ends it: nothing is to be had of it any more. */
  async close(): Promise<void> {
    this.#end(
      new EtcdError('the cached range was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'rejected' }),
    );
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * No event comes where nothing changes, so the store is asked. A progress request to the watch would be cheaper, but
   * etcd before 3.4.25 and 3.5.8 answers it ahead of events that are still to come.
   */
  async #lookWhileAwaited(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    for (let delayMs = FIRST_LOOK_MS; ; delayMs = LOOK_MS) {
      await pause(delayMs, this.#stop.signal);
      if (this.#waiters.length === 0) break;
      // Where it fails the mirror deals with the trouble, and the waits have limits of their own.
      await this.#look().catch(() => {});
    }
    this.#looking = false;
  }

  /** As many keys as here, none of them changed since: so they are the same. */
  async #look(): Promise<void> {
    const since = this.#revision;
    if (since === 0n) return;
    const { revision, count, changed } = await this.#source.look(since, { signal: this.#stop.signal });
    if (this.#revision === since && !changed && count === BigInt(this.#keys.size)) this.#advance(revision);
  }

  async #follow(): Promise<void> {
    try {
      for await (const message of this.#source.mirror(this.#stop.signal)) this.#take(message);
      // A mirror ends without an error only together with its client.
      this.#end(clientClosed('rejected'));
    } catch (error) {
      this.#end(error as EtcdError);
    }
  }

  #take(message: MirrorMessage): void {
    switch (message.type) {
      case 'keys':
        for (const kv of message.kvs) this.#next.put(kv);
        return;
      case 'resync':
        this.#next = new SortedKeys();
        return;
      case 'synced':
        this.#keys = this.#next;
        this.#next = new SortedKeys();
        // It may have gone back: the cluster may have been restored from an older copy.
        this.#revision = message.revision;
        return this.#advance(message.revision);
      case 'events':
        for (const { type, kv } of message.events) {
          if (type === 'put') this.#keys.put(kv);
          else this.#keys.delete(kv.key);
        }
        return this.#advance(message.revision);
    }
  }

  #advance(revision: bigint): void {
    if (revision > this.#revision) this.#revision = revision;
    for (const waiter of [...this.#waiters]) if (waiter.revision <= this.#revision) waiter.resolve();
  }

  #end(error: EtcdError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#stop.abort(error);
    for (const waiter of [...this.#waiters]) waiter.reject(error);
  }

  /** What has ended would grow older without a word. */
  #check(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }

  #checkInside(range: WireRange, argument: string): void {
    const [first, end] = [this.#range, endOf(this.#range)];
    const inner = endOf(range);
    const inside =
      compareBytes(first.key, range.key) <= 0 &&
      (end === undefined || (inner !== undefined && compareBytes(inner, end) <= 0));
    if (!inside) throw invalidInput(argument, 'keys outside of the cached range', 'keys of the range that is held');
  }
}

/** The first key after the range; undefined where it has no end. */
function endOf({ key, rangeEnd }: WireRange): Uint8Array | undefined {
  if (rangeEnd.length === 0) return new Uint8Array([...key, 0]);
  return rangeEnd.length === 1 && rangeEnd[0] === 0 ? undefined : rangeEnd;
}
