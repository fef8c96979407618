import { AsyncQueue, EtcdError } from '../../base/index.js';
import type { FilterType, WatchCreateRequest, WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import type { Event as WireEvent } from '../../gen/mvccpb/kv.js';
import type { WaitTrace } from '../../rpc/index.js';
import type { Init } from '../../wire/index.js';
import { type Keys, prefixInterval, resolveKeys } from '../kv/keys.js';
import { Batch, RevisionAssembler, type WatchBatch, weightOf } from './event.js';

/** Records which revisions a watch has delivered, and from which revision the watch continues on the next stream. */
export class RevisionCursor {
  /** The watch has delivered all events below this revision, or they precede the start of the watch. */
  #floor: bigint;
  #resume: bigint;

  /** With `startRevision` 0n, the watch begins with the first event after its creation. */
  constructor(startRevision: bigint) {
    this.#floor = startRevision;
    this.#resume = startRevision;
  }

  /**
   * The start revision for the next stream; 0n means "from now". Stays at the caller's `startRevision` until the watch
   * has passed that revision.
   */
  get resume(): bigint {
    return this.#resume;
  }

  /** Whether the watch has already delivered the events of this revision, or they precede its start. */
  isRepeat(revision: bigint): boolean {
    return revision < this.#floor;
  }

  /**
   * Records that the server created the watch. A watch "from now" promises only the events after the revision in the
   * response header, so the next stream can continue after that revision. `#floor` stays unchanged, because the
   * revision in the header may be higher than the revision of an event that the server is about to send.
   */
  created(headerRevision: bigint): void {
    if (this.#resume === 0n) this.#resume = headerRevision + 1n;
  }

  /**
   * Records that the watch has delivered every event of this revision. `revision` is the revision of the events, not
   * the revision in the response header.
   */
  delivered(revision: bigint): void {
    const next = revision + 1n;
    if (next > this.#floor) this.#floor = next;
    if (next > this.#resume) this.#resume = next;
  }

  /**
   * Records that the server reported no more events up to the revision in its response header. `#floor` stays
   * unchanged, because some servers answer a progress request before they have sent all earlier events, and a higher
   * `#floor` would drop these events.
   */
  progressed(headerRevision: bigint): void {
    if (headerRevision >= this.#resume) this.#resume = headerRevision + 1n;
  }
}

/** The revisions that one response contained, over all its fragments. */
export interface ResponseSpan {
  /** The first revision. 0n if the response contained no revision. */
  first: bigint;
  last: bigint;
  /** The number of revisions with events. */
  revisions: number;
  /** The approximate size of the events in bytes. */
  weight: number;
}

/** The methods of a `WatchParts` that its server watches use. */
export interface ServerWatchOwner {
  /** The server has created the server watch. The revision of the store was `storeRevision`. */
  created(watch: ServerWatch, storeRevision: bigint): void;
  /**
   * A server watch without `until` has received a whole response, or a progress report. The revision of the store was
   * `storeRevision` when the server sent it.
   */
  received(span: Readonly<ResponseSpan>, storeRevision: bigint): void;
  /** The buffer of a server watch is full. The owner stops the server watch. */
  filled(watch: ServerWatch): void;
  /** The consumer has taken half of the buffer after `filled`. */
  drained(watch: ServerWatch): void;
  /** Resolves with the next batch of the first server watch whose batches the consumer has not all taken. */
  next(): Promise<IteratorResult<WatchBatch, undefined>>;
  /** The server watch has ended. Without `error`, it was closed, or has all revisions below its `until`. */
  ended(watch: ServerWatch, error: EtcdError | undefined): void;
  /** Ends all server watches of the owner and drops their batches, because the client was closed. */
  discard(): void;
}

/**
 * The watches of one keyspace: of a client, or of a namespace, whose keys begin with `prefix`. All keyspaces of a client
 * share one stream.
 */
export interface WatchScope {
  readonly prefix: Uint8Array;
  readonly isClosed: boolean;
}

export interface ServerWatchOptions {
  readonly scope: WatchScope;
  /** The keys as the caller gave them, because the bytes of a key take more memory than its text. */
  readonly keys: Keys;
  readonly startRevision: bigint;
  /** The server leaves out these events. */
  readonly filter: FilterType | undefined;
  readonly prevKv: boolean | undefined;
  /**
   * Buffer size in bytes. When the batches in the buffer exceed this size, the client receives no more events of the
   * watch until the consumer has taken half of the buffer.
   */
  readonly bufferBytes: number;
  /** Whether the watch also delivers batches without events. */
  readonly progress: boolean;
  /** Records the latest failure of the watch's streams. If the caller's signal aborts, the error shows this failure. */
  readonly trace: WaitTrace | undefined;
}

/**
 * One watch on the server. The `WatchStream` passes the responses for the watch to this class. The watch's cursor
 * contains the revision from which the watch continues after a stream has broken. A `Watch` has one server watch, or
 * several while the `Watch` catches up. Each of several server watches, except the last, ends at the revision `until`.
 *
 * ```text
 *              add             send                  answer
 *   (new) ───────────▶ queued ──────▶ requested ─────────────────▶ live
 *                        ▲                │                        │  │
 *                        │                │      stream broke      │  │ buffer full
 *                        └── reopening ◀──┴────────────────────────┘  ▼
 *                        └────────── buffer half empty ─────────── suspended
 *   every state ─▶ ended
 * ```
 *
 * - queued: The watch waits until `WatchIds` sends its creation request on the stream.
 * - requested: The client has sent the creation request, and the server has not answered it.
 * - live: The server sends the events of the watch.
 * - catching up: The watch is live, but its cursor is far behind the store. `WatchParts` may then move the watch to a
 *   separate stream, and divide the remaining revisions among several server watches.
 * - suspended: The consumer is slow. The client has canceled the watch on the server, or has paused the stream that
 *   carries only this watch, until the consumer has taken half of the buffer.
 * - reopening: The stream broke, and `WatchStream` opens the next one after a backoff.
 * - ended: The watch was closed or refused, has failed, or has all revisions below `until`. Unless the watch was closed
 *   or canceled, the consumer can still take the batches in the buffer.
 */
export class ServerWatch {
  readonly batches: AsyncQueue<WatchBatch> = new AsyncQueue<WatchBatch>();
  readonly #owner: ServerWatchOwner;
  readonly #options: ServerWatchOptions;
  readonly #cursor: RevisionCursor;
  /** Assembles the events of the current response. Undefined between two responses. */
  #assembler: RevisionAssembler | undefined;
  /** The part of the current response that has arrived. Undefined between two responses. */
  #span: ResponseSpan | undefined;
  /** The watch ID that the latest creation request asked for. */
  requestId = 0n;
  /** The ID that the server gave the watch when it last created the watch. */
  liveId = 0n;
  /** How many times in a row the server has refused the watch because of the stream's token. */
  tokenRefusals = 0;
  /**
   * The first revision of the next server watch of the same `Watch`. An event at or after that revision shows that this
   * server watch has received all its events. Undefined for the last server watch, which has no end.
   */
  until: bigint | undefined;
  /** Whether the server watch has received all revisions below `until`. */
  isComplete = false;
  bufferBytes: number;
  #isSuspended = false;
  /**
   * Resolves with the store revision at which the server first created the watch. The watch delivers all later events.
   */
  readonly whenCreated: Promise<bigint>;
  /** Settles `whenCreated`. Undefined after `whenCreated` has resolved. */
  #settleCreation: ((revision: bigint | Promise<never>) => void) | undefined;

  constructor(owner: ServerWatchOwner, options: ServerWatchOptions) {
    this.#owner = owner;
    this.#options = options;
    this.bufferBytes = options.bufferBytes;
    this.#cursor = new RevisionCursor(options.startRevision);
    this.whenCreated = new Promise((resolve) => {
      this.#settleCreation = resolve;
    });
    // Mark the rejection as handled, because a caller that does not await the creation gets the error from the
    // iteration.
    this.whenCreated.catch(() => {});
  }

  get scope(): WatchScope {
    return this.#options.scope;
  }

  get hasEnded(): boolean {
    return this.batches.hasEnded;
  }

  /** Whether the server has created the watch, on this stream or an earlier one. */
  get wasCreated(): boolean {
    return this.#settleCreation === undefined;
  }

  /** Whether the client receives no events of the watch, because the buffer is full. */
  get isSuspended(): boolean {
    return this.#isSuspended;
  }

  get isOfOneKey(): boolean {
    return resolveKeys(this.#options.keys, 'keys').rangeEnd.length === 0;
  }

  /** Whether some events of a revision are still to come. `position` does not count that revision. */
  get isPartial(): boolean {
    return this.#assembler?.hasPartial === true;
  }

  /**
   * The watch has delivered all its events before this revision. 0n for a watch "from now" that has not been created.
   */
  get position(): bigint {
    return this.#cursor.resume;
  }

  /** Returns a request that creates the watch at the revision in its cursor. */
  createRequest(watchId: bigint, fragment: boolean): Init<WatchCreateRequest> {
    const { scope, keys, filter, prevKv } = this.#options;
    return {
      ...prefixInterval(scope.prefix, resolveKeys(keys, 'keys')),
      startRevision: this.#cursor.resume,
      filters: filter === undefined ? [] : [filter],
      prevKv,
      // Without progress notifications, a watch that has received no events for a long time would, after a reconnect,
      // continue from an old revision, which may be compacted by then.
      progressNotify: true,
      watchId,
      fragment,
    };
  }

  created(headerRevision: bigint): void {
    this.tokenRefusals = 0;
    this.#options.trace?.attached();
    this.#cursor.created(headerRevision);
    this.#settleCreation?.(headerRevision);
    this.#settleCreation = undefined;
    this.#owner.created(this, headerRevision);
  }

  /** Takes the next batch from the buffer. Lets the watch continue when half of a full buffer is free. */
  next(): Promise<IteratorResult<WatchBatch, undefined>> {
    const batch = this.batches.next();
    if (this.#isSuspended && this.batches.size <= this.bufferBytes / 2) {
      this.#isSuspended = false;
      if (!this.hasEnded) this.#owner.drained(this);
    }
    return batch;
  }

  /**
   * Handles the server's report that there are no more events up to this revision. `isCertain` is false if the server
   * may send this report before all earlier events. The cursor then stays unchanged.
   */
  progressed(headerRevision: bigint, isCertain: boolean): void {
    // The cursor must not pass a partial revision, because the rest of that revision is still to come, even if the
    // revision in the header is higher.
    if (this.isPartial || this.#cursor.isRepeat(headerRevision + 1n)) return;
    if (isCertain) this.#cursor.progressed(headerRevision);
    // A slow consumer needs only the latest of several reports in a row.
    if (this.#options.progress)
      this.batches.pushLatest(new Batch(headerRevision, []), ({ events }) => events.length === 0);
    // The server reports progress only to a watch that has received all events.
    if (isCertain && this.until === undefined) this.#owner.received(emptySpan(), headerRevision);
  }

  /** Moves the cursor past this revision, because the server has certainly sent all events up to this revision. */
  resumeAfter(headerRevision: bigint): void {
    if (!this.isPartial) this.#cursor.progressed(headerRevision);
  }

  /** Buffers the events of a response. Ends the watch at `until`, and suspends the watch if the buffer is full. */
  receive(response: WatchResponse): void {
    const { until } = this;
    const isBeyondEnd =
      until !== undefined && response.events.some(({ kv }) => kv !== undefined && kv.modRevision >= until);
    const isWanted = ({ kv }: WireEvent): boolean =>
      kv !== undefined && !this.#cursor.isRepeat(kv.modRevision) && !(isBeyondEnd && kv.modRevision >= until);
    const { events } = response;
    const wanted = events.every(isWanted) ? events : events.filter(isWanted);
    this.#assembler ??= new RevisionAssembler(this.scope.prefix.length);
    const batches = this.#assembler.push(wanted, response.fragment && !isBeyondEnd);
    this.#span ??= emptySpan();
    const span = this.#span;
    for (const batch of batches) {
      this.#cursor.delivered(batch.revision);
      const size = weightOf(batch);
      if (span.revisions === 0) span.first = batch.revision;
      span.last = batch.revision;
      span.revisions += 1;
      span.weight += size;
      this.batches.push(batch, size);
    }
    if (isBeyondEnd) {
      this.isComplete = true;
      const readers = this.batches.takeReaders();
      this.end();
      // The pending calls of `next` continue with the next server watch.
      for (const reader of readers) reader(this.#owner.next());
      return;
    }
    if (!response.fragment) {
      this.dropPartial();
      if (until === undefined) this.#owner.received(span, response.header?.revision ?? 0n);
    }
    if (this.#isSuspended || this.batches.size <= this.bufferBytes) return;
    this.#isSuspended = true;
    this.#owner.filled(this);
  }

  /** The watch is no longer on a stream. On the next stream, it continues from its cursor. */
  detached(error?: EtcdError): void {
    this.#options.trace?.detached(error);
    this.dropPartial();
  }

  /** Drops the part of the current response that has arrived. On the next stream, the server sends its events again. */
  dropPartial(): void {
    this.#assembler = undefined;
    this.#span = undefined;
  }

  /**
   * Ends the watch. The consumer can still take the batches in the buffer, and then gets the error, if there is one.
   */
  end(error?: EtcdError): void {
    if (this.hasEnded) return;
    this.batches.end(error);
    this.#owner.ended(this, error);
    this.#settleCreation?.(Promise.reject(error ?? watchClosed()));
  }

  /**
   * Ends the watch because the client was closed. `Watch.created()` rejects with the error, but an iteration ends
   * without an error, as it does when the watch itself is closed.
   */
  close(error: EtcdError): void {
    if (this.hasEnded) return;
    this.batches.discard();
    this.#owner.discard();
    this.#settleCreation?.(Promise.reject(error));
  }
}

function emptySpan(): ResponseSpan {
  return { first: 0n, last: 0n, revisions: 0, weight: 0 };
}

function watchClosed(): EtcdError {
  return new EtcdError('the watch was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'unknown' });
}
