import type { EtcdError } from '../errors/etcd-error.js';
import { SerialRunner } from '../runtime/async.js';
import type { WatchBatch } from './event.js';
import { ServerWatch, type ServerWatchOptions, type ServerWatchOwner } from './server-watch.js';
import type { WatchStream } from './watch-stream.js';

/**
 * The most revisions in one response to a watch that catches up (`watchBatchMaxRevs` in etcd's
 * `mvcc/watcher_group.go`). The server sends one such response per watch every 100 ms, so 100,000 revisions take a
 * single watch ten seconds.
 */
const REVISIONS_PER_RESPONSE = 1_000;
/** The most server watches that one watch uses at a time. Limited, because each one slows the others down. */
const MAX_PARTS = 32;
/**
 * The length of a part (see `WatchParts`) as a fraction of a full response. Below 1, so that a full response contains
 * the whole part and an event beyond it, which ends the part.
 */
const PART_PER_RESPONSE = 0.95;

export interface WatchPartsOptions extends ServerWatchOptions {
  /** Called once, when the watch ends. Batches may still be in the buffer. */
  readonly onEnd: () => void;
}

/**
 * The server watches of one watch: a single one, or several while the watch is far behind the store. Each
 * of them is called a part. A part receives the revisions from its start to the start of the next part. The last part
 * has no end. The consumer takes the batches of the parts in this order. A part ends when it receives an event beyond
 * its own revisions. If the store has no such event, the part stays, and no later part has an event either.
 */
export class WatchParts implements ServerWatchOwner {
  readonly stream: WatchStream;
  readonly #options: WatchPartsOptions;
  readonly #first: ServerWatch;
  /** In order of their revisions. The consumer takes the batches of the first. */
  #parts: ServerWatch[];
  /** The number of revisions in a part. */
  #partRevisions = 0n;
  /**
   * The most parts at a time. Together they fill at most half of the watch's buffer. 0 until the watch is far behind.
   */
  #maxParts = 0;
  /** The store's revision when the watch was found to be far behind. No part begins after this revision. */
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

  /** Resolves with the store revision at which the first part was created. The watch misses no event after it. */
  async created(): Promise<bigint> {
    return this.#first.whenCreated;
  }

  /**
   * Runs concurrent calls one after the other, so that a call that waits when a part ends goes on with the next part.
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

  /** A full response shows that the watch is far behind, and how many revisions one response spans. */
  received(batches: readonly WatchBatch[], weight: number, storeRevision: bigint): void {
    const { bufferBytes, progress } = this.#options;
    const [first, last] = [batches[0], batches.at(-1)];
    // With `progress`, the consumer needs the progress of the whole watch, so the watch is not divided.
    if (progress || first === undefined || last === undefined || batches.length < REVISIONS_PER_RESPONSE) return;
    const covered = Number(last.revision - first.revision) + 1;
    this.#partRevisions = BigInt(Math.max(1, Math.floor(covered * PART_PER_RESPONSE)));
    this.#maxParts = Math.min(MAX_PARTS, Math.floor(bufferBytes / 2 / Math.max(1, weight)));
    this.#storeRevision = storeRevision;
    this.#addParts();
  }

  /** A part that ends with an error ends the watch, because the later parts would leave a gap. */
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
      // All parts have ended with this error. Keep only this part, so that the consumer gets the error once.
      this.#parts = [head];
      throw error;
    });
    if (!result.done || this.#parts.length === 1) return result;
    this.#parts.shift();
    this.#head.bufferBytes = this.#options.bufferBytes;
    this.#addParts();
    return this.#take();
  }

  /** Adds parts up to the store's revision, as many as the buffer allows. */
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
