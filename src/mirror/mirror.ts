import { isTooLarge } from '../channel/retry.js';
import { EtcdError } from '../errors/etcd-error.js';
import type { Keys } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import type { WithHeader } from '../kv/results.js';
import type { ScanPage } from '../kv/scan.js';
import { backoffMs, pause } from '../runtime/timers.js';
import type { WatchEvent } from '../watch/event.js';
import type { Watch, WatchOptions } from '../watch/watch.js';

/**
 * What a mirror tells.
 *
 * - `keys`: some of the keys, as of this revision.
 * - `synced`: those were all keys as of this revision; from here on come changes.
 * - `events`: every change of one revision.
 * - `resync`: what was said of the keys so far is void, for history that was not seen is gone: all keys follow anew.
 */
export type MirrorMessage =
  | { readonly type: 'keys'; readonly revision: bigint; readonly kvs: readonly KeyValue[] }
  | { readonly type: 'synced'; readonly revision: bigint }
  | { readonly type: 'events'; readonly revision: bigint; readonly events: readonly WatchEvent[] }
  | { readonly type: 'resync'; readonly cause: EtcdError };

/** What of a change is told, and when the mirror ends. */
export interface MirrorOptions {
  /** Deliver each key's state before a change too. */
  readonly prevKv?: boolean | undefined;
  /** Ends the mirror, with an error, when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

export const MIRROR_OPTIONS = { prevKv: true, signal: true } as const;

/** What a mirror needs of a client. */
export interface MirrorSource {
  scanPages(keys: Keys, options: { readonly signal?: AbortSignal | undefined }): AsyncGenerator<ScanPage, void>;
  range(
    keys: Keys,
    options: { readonly signal?: AbortSignal | undefined },
  ): Promise<WithHeader<{ readonly kvs: readonly KeyValue[] }>>;
  watch(keys: Keys, options: WatchOptions): Watch;
}

/**
 * A range as of one revision, and then every change of it from the next, without a gap or a repetition. To be iterated
 * once. Breaking out of the iteration ends it.
 */
export class Mirror implements AsyncIterable<MirrorMessage> {
  readonly #source: MirrorSource;
  readonly #keys: Keys;
  readonly #options: MirrorOptions;

  /** @internal */
  constructor(source: MirrorSource, keys: Keys, options: MirrorOptions) {
    this.#source = source;
    this.#keys = keys;
    this.#options = options;
  }

  /** @throws EtcdError where the first reading of the range fails, or the server ends the watch for good. */
  async *[Symbol.asyncIterator](): AsyncGenerator<MirrorMessage, void> {
    const { signal, prevKv } = this.#options;
    let begun = false;
    let isWhole = false;
    for (let failures = 0; ; failures += 1) {
      // From "now", ahead of the keys: etcd serves such a watch at once, and no compaction reaches it. A watch from the
      // revision of the keys is served at the next 100 ms, and fails where that revision is compacted by then.
      const watch = this.#source.watch(this.#keys, { prevKv, signal });
      let isReading = true;
      try {
        let revision = 0n;
        for await (const page of this.#pages(watch, isWhole)) {
          revision = page.revision;
          begun = true;
          yield { type: 'keys', ...page };
        }
        isReading = false;
        yield { type: 'synced', revision };
        failures = 0;
        for await (const batch of watch.batches()) if (batch.revision > revision) yield { type: 'events', ...batch };
        return;
      } catch (error) {
        if (!(error instanceof EtcdError) || !begun || signal?.aborted || !isPassing(error)) throw error;
        isWhole = isReading && !isWhole && error.reason === 'Compacted';
        yield { type: 'resync', cause: error };
      } finally {
        await watch.close();
      }
      await pause(backoffMs(failures), signal);
    }
  }

  /** All keys at one revision, which is that of the watch's creation or a later one: so the watch has every change since. */
  async *#pages(watch: Watch, isWhole: boolean): AsyncGenerator<ScanPage, void> {
    const { signal } = this.#options;
    for (let reads = 0; ; reads += 1) {
      // The second read is new enough, unless a proxy names a revision that the store does not have yet.
      if (reads > 1) await pause(backoffMs(reads), signal);
      const pages = isWhole ? this.#whole() : this.#source.scanPages(this.#keys, { signal });
      const [first, createdAt] = await Promise.all([pages.next(), watch.created()]);
      if (first.done) return;
      if (first.value.revision >= createdAt) {
        yield first.value;
        return yield* pages;
      }
      // Read before the watch was created. What is read now is not.
      await pages.return();
    }
  }

  /**
   * All keys in one answer: the server reads them at once, while pages need their revision until the last of them, and
   * never come to an end where compactions are more frequent. In pages where the answer is too large for the client.
   */
  async *#whole(): AsyncGenerator<ScanPage, void> {
    const { signal } = this.#options;
    try {
      const { header, kvs } = await this.#source.range(this.#keys, { signal });
      yield { revision: header.revision, kvs };
    } catch (error) {
      if (!(error instanceof EtcdError && isTooLarge(error))) throw error;
      yield* this.#source.scanPages(this.#keys, { signal });
    }
  }
}

/**
 * Whether reading all keys again helps: history was compacted, the cluster was restored from an older copy, or no server
 * answered for a while.
 */
function isPassing({ code, reason }: EtcdError): boolean {
  return (
    reason === 'Compacted' || reason === 'ClusterChanged' || code === 'Unavailable' || reason === 'DeadlineExceeded'
  );
}
