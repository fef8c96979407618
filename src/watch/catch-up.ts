import type { EtcdError } from '../errors/etcd-error.js';
import { SerialRunner } from '../runtime/async.js';
import type { WatchBatch } from './event.js';
import { ServerWatch, type ServerWatchOptions, type ServerWatchOwner } from './server-watch.js';
import type { WatchStream } from './watch-stream.js';

/**
 * Maximum number of revisions in one response to a watch that is catching up with the store (`watchBatchMaxRevs` in
 * etcd's `mvcc/watcher_group.go`). The server sends one such response per watch every 100 ms, so a single watch needs
 * ten seconds for 100,000 revisions.
 */
const REVISIONS_PER_RESPONSE = 1_000;
/**
 * Maximum number of parts (server watches; see `WatchParts`) that one watch has at a time. Each server watch slows the
 * others down.
 */
const MAX_PARTS = 32;
/**
 * The length of a part (see `WatchParts`) as a fraction of the revisions that a full response spans. Because it is less
 * than 1, one full response contains the whole part and at least one event beyond it. Receiving that event is what ends
 * the part.
 */
const PART_PER_RESPONSE = 0.95;

export interface WatchPartsOptions extends ServerWatchOptions {
  /** Called once, when the watch ends. The buffer may then still contain batches that the consumer has not taken. */
  readonly onEnd: () => void;
}

/**
 * The server watches of one `Watch`: usually one, but several while the watch is far behind the store, because they
 * catch up faster together. Each of these server watches is called a part. A part receives the revisions from its start
 * to the start of the next part. The last part has no end. The consumer takes the batches of the first part, then those
 * of the second part, and so on. A part ends when it receives an event beyond its own revisions. If the store has no
 * such event, the part does not end, and no later part has an event either.
 */
export class WatchParts implements ServerWatchOwner {
  readonly stream: WatchStream;
  readonly #options: WatchPartsOptions;
  readonly #first: ServerWatch;
  /** The parts in order of their revisions. The consumer takes the batches of the first part. */
  #parts: ServerWatch[];
  /** The number of revisions in a part. */
  #partRevisions = 0n;
  /**
   * Maximum number of parts at a time, chosen so that together they fill at most half of the watch's buffer. 0 until
   * `received` finds that the watch is far behind the store.
   */
  #maxParts = 0;
  /** The store's revision when `received` last found the watch far behind. No part begins after this revision. */
  #storeRevision = 0n;
  readonly #turns = new SerialRunner();
  #ended = false;

  constructor(stream: WatchStream, options: WatchPartsOptions) {
    this.stream = stream;
    this.#options = options;
    this.#first = new ServerWatch(this, options);
    this.#parts = [this.#first];
  }

  start(): void {
    this.stream.add(this.#first);
  }

  /** Resolves with the store revision at which the first part was created. The watch delivers every later event. */
  async created(): Promise<bigint> {
    return this.#first.whenCreated;
  }

  /**
   * Resolves with the next batch. Runs concurrent calls one after another, so that a call that is waiting when a part
   * ends continues with the next part.
   */
  next(): Promise<IteratorResult<WatchBatch, undefined>> {
    if (this.#turns.isIdle && !this.#head.batches.isEmpty) return this.#head.batches.next();
    return this.#turns.run(() => this.#take());
  }

  /** Ends the watch and drops the batches that the consumer has not taken. */
  discard(error?: EtcdError): void {
    this.#end(error);
    for (const part of this.#parts) part.batches.discard();
  }

  /**
   * Handles a response that consists of `batches` and takes about `weight` bytes of memory. If the response is full,
   * the watch is far behind the store, so this method adds parts. A full response also shows how many revisions one
   * response spans.
   */
  received(batches: readonly WatchBatch[], weight: number, storeRevision: bigint): void {
    const { bufferBytes, progress } = this.#options;
    const [first, last] = [batches[0], batches.at(-1)];
    // With `progress`, the watch is not divided into parts, because a progress report for one part says nothing about
    // the other parts, and the consumer needs the progress of the whole watch.
    if (progress || first === undefined || last === undefined || batches.length < REVISIONS_PER_RESPONSE) return;
    const covered = Number(last.revision - first.revision) + 1;
    this.#partRevisions = BigInt(Math.max(1, Math.floor(covered * PART_PER_RESPONSE)));
    this.#maxParts = Math.min(MAX_PARTS, Math.floor(bufferBytes / 2 / Math.max(1, weight)));
    this.#storeRevision = storeRevision;
    this.#addParts();
  }

  /**
   * Removes a part that has ended. Ends the whole watch if this part was the last part. Also ends the whole watch if
   * this part ended with an error, because the consumer would otherwise miss the rest of this part's events.
   */
  ended(part: ServerWatch, error: EtcdError | undefined): void {
    this.stream.remove(part);
    if (error !== undefined || part.until === undefined) this.#end(error);
  }

  get #head(): ServerWatch {
    return this.#parts[0] as ServerWatch;
  }

  async #take(): Promise<IteratorResult<WatchBatch, undefined>> {
    const head = this.#head;
    const result = await head.batches.next().catch((error: unknown) => {
      // All parts have ended with this error. Keep only the first part, so that the consumer gets the error only once.
      this.#parts = [head];
      throw error;
    });
    if (!result.done || this.#parts.length === 1) return result;
    this.#parts.shift();
    this.#head.bufferBytes = this.#options.bufferBytes;
    this.#addParts();
    return this.#take();
  }

  /** Adds as many parts as the buffer allows, but none that would start after the store's revision. */
  #addParts(): void {
    if (this.#ended) return;
    const options = { ...this.#options, bufferBytes: this.#options.bufferBytes / 2 / this.#maxParts };
    while (this.#parts.length < this.#maxParts) {
      const last = this.#parts.at(-1) as ServerWatch;
      const startRevision = last.position + this.#partRevisions;
      if (startRevision > this.#storeRevision) return;
      const part = new ServerWatch(this, { ...options, request: { ...options.request, startRevision } });
      last.until = startRevision;
      this.#parts.push(part);
      this.stream.add(part);
    }
  }

  #end(error: EtcdError | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const part of this.#parts) {
      this.stream.remove(part);
      part.end(error);
    }
    this.#options.onEnd();
  }
}
