import type { EtcdError } from '../errors/etcd-error.js';
import { SerialRunner } from '../runtime/async.js';
import type { WatchBatch } from './event.js';
import { ServerWatch, type ServerWatchOptions, type ServerWatchOwner } from './server-watch.js';
import type { WatchStream } from './watch-stream.js';

/**
 * The most revisions in one response to a watch that catches up (`watchBatchMaxRevs` in etcd's `mvcc/watcher_group.go`).
 * The server sends one such response per watch every 100 ms, so 100,000 revisions take a single watch ten seconds.
 */
const REVISIONS_PER_RESPONSE = 1_000;
/** The most server watches that one watch uses at a time, because each makes the others slower. */
const MAX_PARTS = 32;
/** A part is a little shorter than a full response, so that one response has all of it and an event beyond it. */
const PART_PER_RESPONSE = 0.95;

export interface WatchPartsOptions extends ServerWatchOptions {
  /** Called once, when the watch ends. Batches may still be in the buffer. */
  readonly onEnd: () => void;
}

/**
 * The server watches of one watch: a single one, or several while the watch is far behind the store. Each covers the
 * revisions from its start to the start of the next, and the last has no end. The consumer takes their batches in this
 * order. A part ends when it sees an event beyond its own revisions. If the store has no such event, the part stays, and
 * no later part has an event either.
 */
export class WatchParts implements ServerWatchOwner {
  readonly stream: WatchStream;
  readonly #options: WatchPartsOptions;
  readonly #first: ServerWatch;
  /** In order of their revisions. The consumer takes the batches of the first. */
  #parts: ServerWatch[];
  /** How many revisions a part covers. */
  #partRevisions = 0n;
  /** Limited so that all parts together hold half of the watch's buffer. 0 until the watch is known to be far behind. */
  #maxParts = 0;
  /** The store's revision when the watch was found to be far behind. No part begins after it. */
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

  /** The first part covers the revision of the creation, so the watch misses no event after it. */
  async created(): Promise<bigint> {
    return this.#first.whenCreated;
  }

  /** Calls take batches one after the other, so that a call that waits at the end of a part gets the first of the next. */
  next(): Promise<IteratorResult<WatchBatch, undefined>> {
    if (this.#turns.isIdle && !this.#head.batches.isEmpty) return this.#head.batches.next();
    return this.#turns.run(() => this.#take());
  }

  /** Ends the watch and drops the batches that the consumer has not taken. */
  discard(error?: EtcdError): void {
    this.#end(error);
    for (const part of this.#parts) part.batches.discard();
  }

  /** A full response shows that the watch is far behind, and how many revisions one response covers. */
  received(batches: readonly WatchBatch[], weight: number, storeRevision: bigint): void {
    const { bufferBytes, progress } = this.#options;
    const [first, last] = [batches[0], batches.at(-1)];
    // A consumer that wants to know the progress wants to know that of the whole watch.
    if (progress || first === undefined || last === undefined || batches.length < REVISIONS_PER_RESPONSE) return;
    const covered = Number(last.revision - first.revision) + 1;
    this.#partRevisions = BigInt(Math.max(1, Math.floor(covered * PART_PER_RESPONSE)));
    this.#maxParts = Math.min(MAX_PARTS, Math.floor(bufferBytes / 2 / Math.max(1, weight)));
    this.#storeRevision = storeRevision;
    this.#addParts();
  }

  /** The end of a part with an error is the end of the watch, because the events after it would leave a gap. */
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
      // All parts ended with this error, and the consumer gets it once.
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
