import { EtcdError } from '../errors.js';
import type { Keys } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import type { ScanPage } from '../kv/scan.js';
import { backoffMs, pause } from '../time.js';
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

/** What a mirror needs of a client. */
export interface MirrorSource {
  scanPages(keys: Keys, options: { readonly signal?: AbortSignal | undefined }): AsyncIterable<ScanPage>;
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
    const { signal } = this.#options;
    let begun = false;
    for (let failures = 0; ; failures += 1) {
      try {
        let revision = 0n;
        for await (const page of this.#source.scanPages(this.#keys, { signal })) {
          revision = page.revision;
          begun = true;
          yield { type: 'keys', ...page };
        }
        yield { type: 'synced', revision };
        failures = 0;
        yield* this.#changes(revision + 1n);
        return;
      } catch (error) {
        if (!(error instanceof EtcdError) || !begun || signal?.aborted || !isPassing(error)) throw error;
        yield { type: 'resync', cause: error };
      }
      await pause(backoffMs(failures), signal);
    }
  }

  async *#changes(startRevision: bigint): AsyncGenerator<MirrorMessage, void> {
    const { signal, prevKv } = this.#options;
    const watch = this.#source.watch(this.#keys, { startRevision, prevKv, signal });
    for await (const batch of watch.batches()) yield { type: 'events', ...batch };
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
