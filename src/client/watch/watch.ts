import {
  BatchItemIterator,
  canceled,
  checkBoolean,
  checkInt64,
  checkPositive,
  checkSignal,
  type Int64Like,
  int64Of,
  invalidInput,
  NO_BYTES,
  onAbort,
  oneOf,
  type SignalOption,
} from '../../base/index.js';
import { FilterType } from '../../gen/etcdserverpb/rpc.js';
import { traceIn, WaitTrace } from '../../rpc/index.js';
import { type Keys, ownKeys } from '../kv/keys.js';
import { WatchParts } from './catch-up.js';
import type { WatchBatch, WatchEvent } from './event.js';
import type { WatchScope } from './server-watch.js';
import type { WatchStream } from './watch-stream.js';

const DEFAULT_BUFFER_BYTES = 8 * 1024 * 1024;
/** The server's filter for each value of the option `only`. The filter leaves out events of the other kind. */
const FILTERS = { put: FilterType.NODELETE, delete: FilterType.NOPUT } as const;

/** Options of a watch: where the watch begins, and which events it delivers. */
export interface WatchOptions {
  /** The first revision whose events the watch delivers. Default: 0n, for every event after the watch is created. */
  readonly startRevision?: Int64Like | undefined;
  /** Also delivers each key as it was before the event. Default: false. */
  readonly prevKv?: boolean | undefined;
  /** Delivers only puts, or only deletions. Default: both. */
  readonly only?: 'put' | 'delete' | undefined;
  /**
   * Size in bytes of the buffer for events that the consumer has not taken yet. Default: 8 MiB. When the buffer is
   * full, the client receives no more events of the watch. Once the consumer has taken half of the buffer, the watch
   * continues without missing an event, or ends with reason `Compacted` if etcd has compacted the next events. Other
   * watches of the client are not delayed.
   */
  readonly bufferBytes?: number | undefined;
  /**
   * Lets `batches()` also return batches without events. Such a batch means that there are no more events up to its
   * revision. Default: false. In answer to `requestProgress`, etcd before 3.4.25 and 3.5.8 may report a revision before
   * it has sent all events up to that revision.
   */
  readonly progress?: boolean | undefined;
  /** Ends the watch when this signal aborts. */
  readonly signal?: SignalOption;
}

export const WATCH_OPTIONS = {
  startRevision: checkInt64,
  prevKv: checkBoolean,
  only: oneOf(FILTERS),
  bufferBytes: (value: number, argument: string) => checkPositive(value, argument, 'bytes'),
  progress: checkBoolean,
  signal: checkSignal,
} as const;

const WHOLE_STORE: WatchScope = { prefix: NO_BYTES, isClosed: false };

/** The watches of one keyspace, on the stream that all keyspaces of the client share. */
export class Watches implements WatchScope {
  readonly stream: WatchStream;
  readonly prefix: Uint8Array;
  isClosed = false;

  constructor(stream: WatchStream, prefix: Uint8Array) {
    this.stream = stream;
    this.prefix = prefix;
  }

  open(keys: Keys, options: WatchOptions): KeyWatch {
    return new KeyWatch(this.stream, keys, options, this);
  }

  /** Opens a watch on a stream that no other watch uses. */
  openAlone(keys: Keys, options: WatchOptions): KeyWatch {
    return new KeyWatch(this.stream.separate(), keys, options, this);
  }

  /** Ends the watches. Iterations end without an error. */
  close(): void {
    this.isClosed = true;
    this.stream.closeScope(this);
  }
}

/**
 * The events of a key or a range of keys. The watch delivers each event once and in the order of revisions, over any
 * number of reconnects. Iterate once, either over the events or over `batches()`: a second iteration throws.
 *
 * The iteration ends when the watch or the client is closed. It throws an `EtcdError` when the watch cannot continue,
 * for example with reason `Compacted` and `compactRevision` if events that it needs were compacted, with
 * `ClusterChanged` if the cluster was restored from a backup, with `PermissionDenied` if the user may not read the
 * keys, and with `Canceled` when `signal` aborts.
 *
 * @example
 * const watch = etcd.watch(prefix('jobs/'));
 * await watch.created();
 * await etcd.put('jobs/1', 'todo');
 * for await (const event of watch) {
 *   if (event.type === 'put') console.log(event.key, event.kv.text()); // jobs/1 todo
 *   break; // Closes the watch.
 * }
 */
export interface Watch extends Pick<KeyWatch, keyof KeyWatch> {}

/** Implements `Watch`, which is an interface, because a test double cannot have the private fields of a class. */
export class KeyWatch implements AsyncIterable<WatchEvent>, AsyncDisposable {
  /** @internal The class name that `console.log` shows. */
  static readonly name = 'Watch';
  readonly #parts: WatchParts;
  #isIterated = false;

  /** @internal */
  constructor(stream: WatchStream, keys: Keys, options: WatchOptions, scope: WatchScope = WHOLE_STORE) {
    const { only, signal, progress = false, bufferBytes = DEFAULT_BUFFER_BYTES } = options;
    const trace = traceIn(options) ?? ((signal ?? undefined) === undefined ? undefined : new WaitTrace());
    const parts = new WatchParts(stream, {
      scope,
      keys: ownKeys(keys),
      startRevision: int64Of(options.startRevision) ?? 0n,
      filter: only && FILTERS[only],
      prevKv: options.prevKv,
      bufferBytes,
      progress,
      trace,
    });
    this.#parts = parts;
    if (signal !== undefined && signal !== null)
      parts.onEnd = onAbort(signal, () => parts.discard(canceled(signal, 'rejected', undefined, trace?.failures)));
    if (signal?.aborted) parts.discard(canceled(signal, 'rejected'));
    else parts.start();
  }

  /**
   * Resolves with the store revision at which the server created the watch. The watch delivers every event after that
   * revision. Waits while the client can reach no server, until `signal` aborts or the watch is closed.
   *
   * @throws EtcdError if the watch ends first. The reason of the error says why.
   *
   * @example
   * await using watch = etcd.watch('config');
   * await watch.created();
   * console.log((await etcd.get('config'))?.text());
   * // The watch delivers every later change.
   */
  created(): Promise<bigint> {
    return this.#parts.whenCreated();
  }

  /**
   * Returns the events in batches: all events of one revision together. With the option `progress`, a batch without
   * events means that there are no more events up to its revision.
   *
   * @example
   * const watch = etcd.watch(prefix('jobs/'));
   * await watch.created();
   * await etcd.txn({ then: [op.put('jobs/1', 'todo'), op.put('jobs/2', 'todo')] });
   * for await (const { revision, events } of watch.batches()) {
   *   console.log(`revision ${revision}: ${events.length} events`); // revision …: 2 events
   *   break;
   * }
   */
  batches(): AsyncIterableIterator<WatchBatch> {
    return this.#iterate((batch) => [batch]);
  }

  /** Returns the events one by one. Breaking out of the loop closes the watch. */
  [Symbol.asyncIterator](): AsyncIterableIterator<WatchEvent> {
    return this.#iterate(({ events }) => events);
  }

  /** Each event goes to one consumer, so two iterations would get a part of the events each. */
  #iterate<Item>(items: (batch: WatchBatch) => readonly Item[]): AsyncIterableIterator<Item> {
    if (this.#isIterated) throw invalidInput('watch', 'a second iteration', 'one iteration; open another watch');
    this.#isIterated = true;
    return new BatchItemIterator(this.#parts, items);
  }

  /**
   * Asks the server for the revision up to which the watch is complete. A watch with the option `progress` then
   * delivers the answer as a batch without events. If the consumer has not taken this batch when the next batch without
   * events arrives, the consumer gets only the later batch. If the connection breaks later, and the watch has received
   * no events since the answer, the watch continues after the revision of the answer. This does not apply to etcd
   * before 3.4.25 and 3.5.8, which may send the answer before earlier events.
   *
   * There may be no answer. etcd drops a request while one of the client's watches is catching up, or begins at a
   * revision that the store has not reached yet (`progressIfSync` in etcd's `watchable_store.go`). A broken connection
   * loses a request, too. Ask again if no batch arrives.
   *
   * @throws EtcdError with reason `NotInGateway` if the client uses the transport of `etcdwire/gateway`.
   *
   * @example
   * const watch = etcd.watch(prefix('jobs/'), { progress: true });
   * await watch.created();
   * await etcd.put('jobs/1', 'todo');
   * const asking = setInterval(() => watch.requestProgress(), 100);
   * for await (const { revision, events } of watch.batches()) {
   *   if (events.length > 0) continue;
   *   console.log(`the watch is complete up to revision ${revision}`);
   *   break;
   * }
   * clearInterval(asking);
   */
  requestProgress(): void {
    this.#parts.requestProgress();
  }

  /** Ends the watch at once, and drops the events that the consumer has not taken. */
  async close(): Promise<void> {
    this.#parts.discard();
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
