import { after, type Batches, type EtcdError } from '../../base/index.js';
import type { WatchBatch } from './event.js';
import { type ResponseSpan, ServerWatch, type ServerWatchOptions, type ServerWatchOwner } from './server-watch.js';
import type { WatchStream } from './watch-stream.js';

/**
 * Maximum number of revisions in one response to a watch that is catching up with the store (`watchBatchMaxRevs` in
 * etcd's `mvcc/watcher_group.go`). The server sends one such response per watch every 100 ms, so a single watch needs
 * ten seconds for 100,000 revisions.
 */
const REVISIONS_PER_RESPONSE = 1_000;
/** Maximum number of parts (see `WatchParts`) of one watch at a time. Each part slows the other parts down. */
const MAX_PARTS = 32;
/**
 * Number of revisions of a part, as a fraction of the revisions that a full response covers. So one response usually
 * contains the whole part, and the event after the part that shows its end.
 */
const PART_PER_RESPONSE = 0.95;

/**
 * A watch of a range that begins at least this many revisions behind the store gets a separate stream at once, unless
 * too many watches have one. So many revisions may contain many megabytes of events, which would delay the events of
 * the other watches on a shared stream.
 */
const FAR_BEHIND_REVISIONS = 32n;
/**
 * Maximum time, in milliseconds, for which the client pauses a stream whose watch has a full buffer. The client then
 * cancels the watch on the server, because the server keeps up to 128 responses for a paused stream (`chanBufLen` in
 * etcd's `mvcc/watchable_store.go`).
 */
const MAX_PAUSE_MS = 5_000;

/** Where the server watches are. */
interface Place {
  /** The stream that all watches share, or a separate stream. */
  readonly stream: WatchStream;
  /** Stops the timer that ends the pause of the separate stream. Undefined unless that stream is paused. */
  readonly stopTimer?: () => void;
}

/**
 * How far the last part is behind the store:
 *
 * - unknown: The server has not created the part since it was added or canceled, so the part may be far behind.
 * - near: The server has created the part. Only a full response shows whether the part is far behind.
 * - level: The last response ended near the store's revision, and nothing has stopped the delivery since.
 */
type Distance = 'unknown' | 'near' | 'level';

/** How to divide a watch that is far behind into parts. */
interface Division {
  /** Number of revisions of a part. */
  readonly revisions: bigint;
  /** Maximum number of parts, which together fill at most half of the buffer. */
  readonly maxParts: number;
  /** The store's revision when `received` last found the watch far behind. No part begins after this revision. */
  readonly storeRevision: bigint;
}

/**
 * The server watches of one `Watch`: usually one, but several while the watch is far behind the store, because they
 * catch up faster together. Each of these server watches is called a part. A part receives the revisions from its start
 * to the start of the next part. The last part has no end. The consumer takes the batches of the first part, then those
 * of the second part, and so on. A part ends when it receives an event beyond its own revisions. If the store has no
 * such event, the part does not end, and no later part has an event either.
 *
 * The server watches are on the stream that all watches share, or on a separate stream while the watch is far behind
 * the store. etcd sends the responses of one stream one after another, so the large responses of a watch that catches
 * up would delay the events of the other watches on its stream.
 *
 *              far behind at the start or after a response
 *      shared ───────────────────────────────────────────► separate ──── buffer full ───► paused
 *        ▲ ▲       near the store, or progress                │  ▲ ◄── half empty ──────────┘ │
 *        │ └──────────────────────────────────────────────────┘                               │
 *        └─────────────────────────────────── after 5 s ──────────────────────────────────────┘
 */
export class WatchParts implements ServerWatchOwner, Batches<WatchBatch> {
  readonly #shared: WatchStream;
  #place: Place;
  readonly #options: ServerWatchOptions;
  readonly #first: ServerWatch;
  /** The parts in order of their revisions. The consumer takes the batches of the first part. */
  #parts: ServerWatch[];
  /** How to divide the watch. Undefined until `received` finds the watch far behind. */
  #division: Division | undefined;
  #distance: Distance = 'unknown';
  /** Called once, when the watch has ended. The buffer may then still contain batches that the consumer has not taken. */
  onEnd: (() => void) | undefined;
  #ended = false;
  /** Whether the consumer gets no more events. */
  isOver = false;

  constructor(stream: WatchStream, options: ServerWatchOptions) {
    this.#shared = stream;
    this.#place = { stream };
    this.#options = options;
    this.#first = new ServerWatch(this, options);
    this.#parts = [this.#first];
  }

  start(): void {
    this.#add(this.#first);
  }

  /** Resolves with the store revision at which the first part was created. The watch delivers every later event. */
  async whenCreated(): Promise<bigint> {
    return this.#first.whenCreated;
  }

  next(): Promise<IteratorResult<WatchBatch, undefined>> {
    this.#dropTakenParts();
    return this.#head.next();
  }

  async return(): Promise<IteratorResult<WatchBatch, undefined>> {
    this.discard();
    return { done: true, value: undefined };
  }

  requestProgress(): void {
    this.#place.stream.requestProgress();
  }

  /** Ends the watch and drops the batches that the consumer has not taken. */
  discard(error?: EtcdError): void {
    this.isOver = true;
    this.#end(error);
    for (const part of this.#parts) part.batches.discard();
  }

  created(part: ServerWatch, storeRevision: bigint): void {
    if (this.#isFar(part, storeRevision)) this.#moveToOwnStream();
    if (this.#distance === 'unknown') this.#distance = 'near';
  }

  /**
   * Handles a whole response to the last part, or a progress report. If the response is full and its last event is far
   * behind the store, this method moves the watch to a separate stream and adds parts. A full response also shows how
   * many revisions one response spans. After a response that is not full, more responses may follow, for example
   * because a filter has left out events. So only its last event shows that the watch is near the store's revision.
   */
  received({ first, last, revisions, weight }: ResponseSpan, storeRevision: bigint): void {
    const { bufferBytes, progress } = this.#options;
    const isLevel = revisions === 0 || storeRevision - last < FAR_BEHIND_REVISIONS;
    this.#distance = isLevel ? 'level' : 'near';
    if (isLevel || revisions < REVISIONS_PER_RESPONSE) return this.#returnIfLevel();
    if (this.#parts.length === 1) this.#moveToOwnStream();
    // With `progress`, do not divide the watch, because a report for one part says nothing about the other parts.
    if (progress) return;
    const covered = Number(last - first) + 1;
    this.#division = {
      revisions: BigInt(Math.max(1, Math.floor(covered * PART_PER_RESPONSE))),
      maxParts: Math.min(MAX_PARTS, Math.floor(bufferBytes / 2 / Math.max(1, weight))),
      storeRevision,
    };
    this.#addParts();
  }

  /**
   * Pauses the stream if it carries only this part. Otherwise, cancels the part on the server, because flow control
   * would also stop the other watches of the stream.
   */
  filled(part: ServerWatch): void {
    const { stream } = this.#place;
    if (this.#isShared || this.#parts.length > 1) return this.#cancel(part);
    const stopTimer = after(
      MAX_PAUSE_MS,
      () => {
        this.#place = { stream };
        this.#cancel(part);
        this.#moveTo(this.#shared);
      },
      'background',
    );
    this.#place = { stream, stopTimer };
    stream.pause();
  }

  drained(part: ServerWatch): void {
    const { stream, stopTimer } = this.#place;
    if (stopTimer !== undefined) {
      stopTimer();
      this.#place = { stream };
      stream.resume();
      // The store may have moved on during the pause.
      if (this.#distance === 'level' && isFarBehind(part, this.#knownRevision)) this.#distance = 'near';
    }
    this.#add(part);
    this.#returnIfLevel();
  }

  /**
   * Removes a part that has ended. Ends the whole watch if this part was the last part. Also ends the whole watch if
   * this part ended with an error, because the consumer would otherwise miss the rest of this part's events.
   */
  ended(part: ServerWatch, error: EtcdError | undefined): void {
    this.#place.stream.remove(part);
    if (error !== undefined || part.until === undefined) this.#end(error);
    else this.#dropTakenParts();
  }

  get #isShared(): boolean {
    return this.#place.stream === this.#shared;
  }

  get #head(): ServerWatch {
    return this.#parts[0] as ServerWatch;
  }

  /** Removes the first parts that have all their events, and whose events the consumer has taken. */
  #dropTakenParts(): void {
    while (this.#head.isComplete && this.#head.batches.isEmpty) {
      this.#parts.shift();
      this.#head.bufferBytes = this.#options.bufferBytes;
      this.#addParts();
      this.#returnIfLevel();
    }
  }

  /** Adds parts until there are `maxParts`, but no part that would start after the store's revision. */
  #addParts(): void {
    if (this.#ended || this.#division === undefined) return;
    const { revisions, maxParts, storeRevision } = this.#division;
    const options = { ...this.#options, bufferBytes: this.#options.bufferBytes / 2 / maxParts };
    while (this.#parts.length < maxParts) {
      const last = this.#parts.at(-1) as ServerWatch;
      // The next part must not begin at a revision of which `last` has received only some events.
      if (last.isPartial) return;
      const startRevision = last.position + revisions;
      if (startRevision > storeRevision) return;
      const part = new ServerWatch(this, { ...options, startRevision });
      last.until = startRevision;
      this.#distance = 'near';
      this.#parts.push(part);
      this.#place.stream.add(part);
    }
  }

  #add(part: ServerWatch): void {
    if (this.#isFar(part, this.#knownRevision)) this.#moveToOwnStream();
    this.#place.stream.add(part);
  }

  /** The store's revision, as far as the client knows it. 0n if the client does not know it. */
  get #knownRevision(): bigint {
    return this.#shared.cluster?.revision ?? 0n;
  }

  #cancel(part: ServerWatch): void {
    this.#place.stream.suspend(part);
    part.dropPartial();
    if (part === this.#parts.at(-1)) this.#distance = 'unknown';
  }

  /** Whether the part is on the shared stream, but so far behind the store that it needs a separate stream. */
  #isFar(part: ServerWatch, storeRevision: bigint): boolean {
    const isAlone = this.#isShared && this.#parts.length === 1;
    // A single key usually has few events, so a watch of one key moves only after a full response.
    if (!isAlone || this.#distance !== 'unknown' || part.position === 0n || part.isOfOneKey) return false;
    return isFarBehind(part, storeRevision);
  }

  /** Moves the watch to a separate stream, unless it has one or too many watches have one. */
  #moveToOwnStream(): void {
    const own = this.#isShared ? this.#shared.takeOwnStream() : undefined;
    if (own !== undefined) this.#moveTo(own);
  }

  /** Returns to the shared stream if the watch is no longer far behind, unless its buffer is full. */
  #returnIfLevel(): void {
    const { batches, bufferBytes } = this.#head;
    if (this.#distance === 'level' && this.#parts.length === 1 && batches.size <= bufferBytes)
      this.#moveTo(this.#shared);
  }

  /** Moves the parts to another stream. Each of them continues there from the revision in its cursor. */
  #moveTo(stream: WatchStream): void {
    const { stream: from, stopTimer } = this.#place;
    if (from === stream) return;
    stopTimer?.();
    this.#place = { stream };
    for (const part of this.#parts) {
      if (!from.remove(part)) continue;
      part.dropPartial();
      stream.add(part);
    }
    if (from !== this.#shared) this.#shared.returnOwnStream(from);
  }

  #end(error: EtcdError | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#place.stopTimer?.();
    for (const part of this.#parts) {
      this.#place.stream.remove(part);
      part.end(error);
    }
    this.#moveTo(this.#shared);
    this.onEnd?.();
  }
}

function isFarBehind({ position }: ServerWatch, storeRevision: bigint): boolean {
  return storeRevision - position >= FAR_BEHIND_REVISIONS;
}
