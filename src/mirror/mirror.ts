import { EtcdError } from '../errors/etcd-error.js';
import type { KeyValue } from '../kv/key-value.js';
import { type Keys, ownKeys } from '../kv/keys.js';
import type { KV } from '../kv/kv.js';
import type { ScanPage } from '../kv/scan.js';
import { backoffMs, pause } from '../runtime/timers.js';
import type { WatchEvent } from '../watch/event.js';
import { Watch } from '../watch/watch.js';
import type { WatchStream } from '../watch/watch-stream.js';

/**
 * A message of a mirror.
 *
 * - `keys`: some of the keys of the range, as they were at `revision`. One reading of the range takes any number of
 *   these messages.
 * - `synced`: the reading is complete. The keys since the start of the mirror, or since the last `resync`, are all keys
 *   of the range at `revision`. Changes follow.
 * - `events`: every change of one revision.
 * - `resync`: the mirror has to read the range again, because it may have missed changes; `cause` is the reason.
 *   Discard all keys received so far. All keys of the range follow.
 */
export type MirrorMessage =
  | { readonly type: 'keys'; readonly revision: bigint; readonly kvs: readonly KeyValue[] }
  | { readonly type: 'synced'; readonly revision: bigint }
  | { readonly type: 'events'; readonly revision: bigint; readonly events: readonly WatchEvent[] }
  | { readonly type: 'resync'; readonly cause: EtcdError };

/** Options of `mirror`. */
export interface MirrorOptions {
  /** Whether each event also contains the key as it was before the change. Default false. */
  readonly prevKv?: boolean | undefined;
  /** Ends the mirror when it aborts: the iteration rejects with reason `Canceled`. */
  readonly signal?: AbortSignal | undefined;
}

export const MIRROR_OPTIONS = { prevKv: true, signal: true } as const;

/**
 * Reads a range of keys at one revision, and then delivers every change of the following revisions exactly once,
 * without gaps. Iterate over a mirror only once, because each iteration reads the range again. Breaking out of the
 * iteration ends the mirror.
 *
 * @example
 * const config = new Map<string, string>();
 * for await (const message of etcd.mirror(prefix('config/'))) {
 *   if (message.type === 'resync') config.clear();
 *   if (message.type === 'keys') for (const kv of message.kvs) config.set(kv.keyText(), kv.text());
 *   if (message.type !== 'events') continue;
 *   for (const event of message.events) {
 *     if (event.type === 'put') config.set(event.keyText(), event.kv.text());
 *     else config.delete(event.keyText());
 *   }
 *   console.log(`${config.size} keys at revision ${message.revision}`);
 * }
 */
export class Mirror implements AsyncIterable<MirrorMessage> {
  readonly #kv: KV;
  readonly #watchStream: WatchStream;
  readonly #keys: Keys;
  readonly #options: MirrorOptions;

  /** @internal */
  constructor(kv: KV, watchStream: WatchStream, keys: Keys, options: MirrorOptions) {
    this.#kv = kv;
    this.#watchStream = watchStream;
    this.#keys = ownKeys(keys);
    this.#options = options;
  }

  /**
   * Starts the mirror. The mirror reads the range again when etcd has compacted changes that it still needs, when the
   * cluster was restored from a backup, and when no server answered for a while.
   *
   * @throws EtcdError when the signal aborts, when the first reading of the range fails before its first page of keys,
   * or when the watch or a reading fails for a reason other than those above.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<MirrorMessage, void> {
    const { signal, prevKv } = this.#options;
    let hasDelivered = false;
    let readsWhole = false;
    for (let failures = 0; ; failures += 1) {
      // Create the watch before reading the keys, so that it starts at the current revision. etcd sends the events of
      // such a watch at once. A watch that starts at a past revision is processed only every 100 ms, and etcd cancels
      // it if that revision has been compacted by then (syncWatchersLoop in etcd's watchable_store.go).
      const watch = new Watch(this.#watchStream, this.#keys, { prevKv, signal });
      let isReading = true;
      try {
        let revision = 0n;
        for await (const page of this.#pages(watch, readsWhole)) {
          revision = page.revision;
          hasDelivered = true;
          yield { type: 'keys', revision, kvs: [...page.kvs] };
        }
        isReading = false;
        yield { type: 'synced', revision };
        failures = 0;
        for await (const batch of watch.batches()) if (batch.revision > revision) yield { type: 'events', ...batch };
        return;
      } catch (error) {
        if (!(error instanceof EtcdError) || !hasDelivered || signal?.aborted || !canResync(error)) throw error;
        readsWhole = isReading && !readsWhole && error.reason === 'Compacted';
        yield { type: 'resync', cause: error };
      } finally {
        await watch.close();
      }
      await pause(backoffMs(failures), signal);
    }
  }

  /**
   * Reads all keys at a revision that is not before the creation of the watch, so that the watch delivers every change
   * after that revision.
   */
  async *#pages(watch: Watch, readsWhole: boolean): AsyncGenerator<ScanPage, void> {
    const { signal } = this.#options;
    for (let reads = 0; ; reads += 1) {
      // The first two reads need no delay. A third read is rare: a proxy has reported a revision that the store has not
      // reached yet.
      if (reads > 1) await pause(backoffMs(reads), signal);
      const pages = readsWhole ? this.#wholeRange() : this.#kv.scanPages(this.#keys, { signal });
      const [first, createdAt] = await Promise.all([pages.next(), watch.created()]);
      if (first.done) return;
      if (first.value.revision >= createdAt) {
        yield first.value;
        return yield* pages;
      }
      // These keys were read before the watch was created. Read them again, now that it exists.
      await pages.return();
    }
  }

  /**
   * Reads all keys in one response, so that no compaction can interrupt the reading. Reading in pages fails if their
   * revision is compacted before the last page is read. Falls back to pages if the response is larger than the client
   * accepts.
   */
  async *#wholeRange(): AsyncGenerator<ScanPage, void> {
    const { signal } = this.#options;
    try {
      const { header, kvs } = await this.#kv.range(this.#keys, { signal });
      yield { revision: header.revision, kvs };
    } catch (error) {
      if (!(error instanceof EtcdError && error.reason === 'ResponseTooLarge')) throw error;
      yield* this.#kv.scanPages(this.#keys, { signal });
    }
  }
}

/** Whether reading the range again helps: after a compaction, a restore, or a time in which no server answered. */
function canResync({ code, reason }: EtcdError): boolean {
  return (
    reason === 'Compacted' || reason === 'ClusterChanged' || code === 'Unavailable' || reason === 'DeadlineExceeded'
  );
}
