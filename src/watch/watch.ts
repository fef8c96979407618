import { traceCalls, traceOf } from '../channel/attempts.js';
import { canceled } from '../errors/etcd-error.js';
import { FilterType } from '../gen/etcdserverpb/rpc.js';
import { type Keys, resolveKeys } from '../kv/keys.js';
import { checkChoice, checkInt64, checkList, checkPositive, checkSignal } from '../runtime/arguments.js';
import { BatchItemIterator } from '../runtime/async.js';
import { onAbort } from '../runtime/signals.js';
import type { WatchBatch, WatchEvent } from './event.js';
import { WatchParts } from './watch-parts.js';
import type { WatchStream } from './watch-stream.js';

const DEFAULT_BUFFER_BYTES = 8 * 1024 * 1024;
const FILTERS = { noPut: FilterType.NOPUT, noDelete: FilterType.NODELETE } as const;

/** From where on a range is watched, and what of it is told. */
export interface WatchOptions {
  /** First revision to deliver; 0n, the default, for all that comes after the watch is created. */
  readonly startRevision?: bigint | undefined;
  /** Deliver each key's state before the event too. */
  readonly prevKv?: boolean | undefined;
  /** Kinds of events to leave out. */
  readonly filters?: readonly ('noPut' | 'noDelete')[] | undefined;
  /**
   * How much may wait for a slow consumer, in bytes; default 8 MiB. Beyond it the watch is taken off the stream, and
   * goes on from where it stands once the consumer has caught up.
   */
  readonly bufferBytes?: number | undefined;
  /**
   * Let `batches()` give batches without events too, as the server says that there are none up to a revision. In answer
   * to `requestProgress` etcd before 3.4.25 and 3.5.8 says so too early.
   */
  readonly progress?: boolean | undefined;
  /** Ends the watch when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

export const WATCH_OPTIONS = {
  startRevision: true,
  prevKv: true,
  filters: true,
  bufferBytes: true,
  progress: true,
  signal: true,
} as const;

/**
 * The events of a key or a range of keys: each once, in revision order, over any number of reconnects. Iterate over the
 * events or over `batches()`, not both. Iteration ends when the watch is closed, and throws an `EtcdError` when it
 * cannot go on; reason `Compacted` carries `compactRevision`.
 */
export class Watch implements AsyncIterable<WatchEvent>, AsyncDisposable {
  readonly #parts: WatchParts;
  readonly #stream: WatchStream;

  constructor(stream: WatchStream, keys: Keys, options: WatchOptions) {
    const request = {
      ...resolveKeys(keys, 'keys'),
      startRevision: checkInt64(options.startRevision ?? 0n, 'startRevision'),
      filters: checkList(options.filters, 'filters').map((name) => checkChoice(FILTERS, name, 'filters')),
      prevKv: options.prevKv,
      // A quiet watch must learn how far it is, or its cursor falls behind the compaction.
      progressNotify: true,
    };
    checkSignal(options.signal);
    const bufferBytes = checkPositive(options.bufferBytes ?? DEFAULT_BUFFER_BYTES, 'bufferBytes', 'bytes');
    this.#stream = stream;
    let offAbort = (): void => {};
    const progress = options.progress ?? false;
    const { signal } = options;
    const trace = signal && (traceOf(signal) ?? traceCalls(signal, undefined));
    const parts = new WatchParts(stream, { request, bufferBytes, progress, trace, ended: () => offAbort() });
    this.#parts = parts;
    if (signal !== undefined)
      offAbort = onAbort(signal, () => parts.discard(canceled(signal, 'rejected', undefined, trace?.failure)));
    if (signal?.aborted) parts.discard(canceled(signal, 'rejected'));
    else parts.start();
  }

  /**
   * Store revision at which the watch was created: every event after it is delivered. While no member can be reached
   * this waits; the watch's `signal` ends both.
   */
  created(): Promise<bigint> {
    return this.#parts.created();
  }

  /** All events of one revision together; see `progress` for batches without. */
  batches(): AsyncIterableIterator<WatchBatch> {
    const batches: AsyncIterableIterator<WatchBatch> = {
      next: () => this.#parts.next(),
      return: async () => {
        await this.close();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => batches,
    };
    return batches;
  }

  /** Event by event; as to when it ends, see `batches`. */
  [Symbol.asyncIterator](): AsyncIterableIterator<WatchEvent> {
    return new BatchItemIterator(this.batches(), ({ events }) => events);
  }

  /** Asks the server to say how far the watch is; a quiet watch then resumes from there. */
  requestProgress(): void {
    this.#stream.requestProgress();
  }

  /** Ends the watch at once; events not yet taken are dropped. */
  async close(): Promise<void> {
    this.#parts.discard();
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
