import type { CallTrace } from '../channel/attempts.js';
import { EtcdError } from '../errors/etcd-error.js';
import type { WatchCreateRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import type { Event as WireEvent } from '../gen/mvccpb/kv.js';
import type { Init } from '../protobuf/codec.js';
import { AsyncQueue } from '../runtime/queues.js';
import { RevisionAssembler, type WatchBatch, weightOf } from './event.js';

/** Which revisions a watch has delivered, and from which revision the next stream continues. */
export class RevisionCursor {
  /** Events below this revision were delivered, or precede the start of the watch. */
  #floor: bigint;
  #resume: bigint;

  /** With `startRevision` 0n, the watch begins with the first event after its creation. */
  constructor(startRevision: bigint) {
    this.#floor = startRevision;
    this.#resume = startRevision;
  }

  /**
   * The start revision for the next stream; 0n means "from now". The caller's `startRevision` stays until events pass
   * it.
   */
  get resume(): bigint {
    return this.#resume;
  }

  isRepeat(revision: bigint): boolean {
    return revision < this.#floor;
  }

  /**
   * Records that the server created the watch. A watch "from now" misses nothing if the next stream continues after the
   * header's revision. `#floor` stays unchanged, because the header may be ahead of an event that the server is about
   * to send.
   */
  created(headerRevision: bigint): void {
    if (this.#resume === 0n) this.#resume = headerRevision + 1n;
  }

  /** Records that every event of this revision was delivered. The header's revision is ignored: it may be far ahead. */
  delivered(revision: bigint): void {
    const next = revision + 1n;
    if (next > this.#floor) this.#floor = next;
    if (next > this.#resume) this.#resume = next;
  }

  /**
   * Records that the server reported no more events up to its header's revision. `#floor` stays unchanged, because some
   * servers answer a request for progress ahead of earlier events.
   */
  progressed(headerRevision: bigint): void {
    if (headerRevision >= this.#resume) this.#resume = headerRevision + 1n;
  }
}

/** The owner of a server watch. */
export interface ServerWatchOwner {
  readonly stream: { add(watch: ServerWatch): void; remove(watch: ServerWatch): void };
  /** Called when a watch without `until` received these revisions in one response. The store was at `storeRevision`. */
  received(batches: readonly WatchBatch[], weight: number, storeRevision: bigint): void;
  /** Called when the watch has ended: with this error, or because it has all revisions below `until`. */
  ended(watch: ServerWatch, error: EtcdError | undefined): void;
  /** Ends all server watches of the owner and drops their batches, because the client was closed. */
  discard(): void;
}

export interface ServerWatchOptions {
  readonly request: Init<WatchCreateRequest>;
  /** When the batches in the buffer exceed this size, the watch is suspended. */
  readonly bufferBytes: number;
  /** Whether the buffer also gets batches without events. */
  readonly progress: boolean;
  /** Records the latest failure of the watch's streams, for the error that a caller's signal ends the watch with. */
  readonly trace: CallTrace | undefined;
}

/**
 * One watch on the server. The stream passes responses to it, and its cursor holds the revision from which it continues
 * after a break. A `Watch` has one server watch, or several while it catches up. Each of these except the last ends at
 * `until`.
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
 * - queued: The watch waits until `WatchIds` allows its creation request on the stream.
 * - requested: The client has sent the creation request, and the server has not answered it.
 * - live: The server sends the events of the watch.
 * - catching up: The watch is live, but its cursor is far behind the store; `WatchParts` then divides the distance.
 * - suspended: The consumer is slow, so the client has canceled the watch on the server until it takes more batches.
 * - reopening: The stream broke, and `WatchStream` opens the next one after a backoff.
 * - ended: The watch was closed or refused, has failed, or has all revisions below `until`. The consumer can still take
 *   the batches in the buffer.
 */
export class ServerWatch {
  readonly batches: AsyncQueue<WatchBatch>;
  readonly #owner: ServerWatchOwner;
  readonly #options: ServerWatchOptions;
  readonly #cursor: RevisionCursor;
  readonly #assembler = new RevisionAssembler();
  /** The id that the latest creation request asked for. */
  requestId = 0n;
  /** How often in a row the server refused the watch because of the stream's token. */
  tokenRefusals = 0;
  /**
   * The first revision of the next server watch. An event at or after it shows that this watch has all of its own
   * events. Undefined for the last server watch, which has no end.
   */
  until: bigint | undefined;
  bufferBytes: number;
  #isSuspended = false;
  /** Resolves with the store revision when the watch was first created. Every later event is delivered. */
  readonly whenCreated: Promise<bigint>;
  /** Settles `whenCreated`. Undefined once it has resolved. */
  #creation: { resolve(revision: bigint): void; reject(error: EtcdError): void } | undefined;

  constructor(owner: ServerWatchOwner, options: ServerWatchOptions) {
    this.#owner = owner;
    this.#options = options;
    this.bufferBytes = options.bufferBytes;
    this.#cursor = new RevisionCursor(options.request.startRevision ?? 0n);
    this.batches = new AsyncQueue(() => this.#taken());
    this.whenCreated = new Promise((resolve, reject) => {
      this.#creation = { resolve, reject };
    });
    // A caller that does not await the creation gets the error from the iteration, so the rejection is not unhandled.
    this.whenCreated.catch(() => {});
  }

  get ended(): boolean {
    return this.batches.ended;
  }

  /** Every event before this revision was delivered; 0n for a watch "from now" that has not been created. */
  get position(): bigint {
    return this.#cursor.resume;
  }

  /** The request that creates the watch on a stream, from its cursor. */
  createRequest(watchId: bigint, fragment: boolean): Init<WatchCreateRequest> {
    return { ...this.#options.request, startRevision: this.#cursor.resume, watchId, fragment };
  }

  created(headerRevision: bigint): void {
    this.tokenRefusals = 0;
    const { trace } = this.#options;
    if (trace !== undefined) trace.failure = undefined;
    this.#cursor.created(headerRevision);
    this.#creation?.resolve(headerRevision);
    this.#creation = undefined;
  }

  /**
   * Records that the server reported no more events up to this revision. `isCertain` is false if the server may report
   * this before it has sent all earlier events. The cursor then stays unchanged.
   */
  progressed(headerRevision: bigint, isCertain: boolean): void {
    // The rest of a partial revision is still to come, even if the revision in the header is higher.
    if (this.#assembler.partial || this.#cursor.isRepeat(headerRevision + 1n)) return;
    if (isCertain) this.#cursor.progressed(headerRevision);
    if (this.#options.progress) this.batches.push({ revision: headerRevision, events: [] }, 0);
  }

  /** Moves the cursor past this revision, because there are certainly no more events up to it. */
  resumeAfter(headerRevision: bigint): void {
    if (!this.#assembler.partial) this.#cursor.progressed(headerRevision);
  }

  receive(response: WatchResponse): void {
    const { until } = this;
    const isOver = until !== undefined && response.events.some(({ kv }) => kv !== undefined && kv.modRevision >= until);
    const isWanted = ({ kv }: WireEvent): boolean =>
      kv !== undefined && !this.#cursor.isRepeat(kv.modRevision) && !(isOver && kv.modRevision >= until);
    const { events } = response;
    const wanted = events.every(isWanted) ? events : events.filter(isWanted);
    const batches = this.#assembler.push(wanted, response.fragment && !isOver);
    let weight = 0;
    for (const batch of batches) {
      this.#cursor.delivered(batch.revision);
      const size = weightOf(batch);
      weight += size;
      this.batches.push(batch, size);
    }
    if (isOver) return this.end();
    if (until === undefined) this.#owner.received(batches, weight, response.header?.revision ?? 0n);
    if (this.#isSuspended || this.batches.size <= this.bufferBytes) return;
    this.#isSuspended = true;
    this.#assembler.reset();
    this.#owner.stream.remove(this);
  }

  /** Called when the watch is no longer on a stream. On the next stream it continues from the cursor. */
  detached(error?: EtcdError): void {
    const { trace } = this.#options;
    if (trace !== undefined && error !== undefined) trace.failure = error;
    this.#assembler.reset();
  }

  /**
   * Ends the watch. The consumer can still take the batches in the buffer, and then gets the error, if there is one.
   */
  end(error?: EtcdError): void {
    if (this.ended) return;
    this.batches.end(error);
    this.#owner.ended(this, error);
    this.#creation?.reject(error ?? watchClosed());
  }

  /**
   * Ends the watch because the client was closed. `created()` rejects with the error, but an iteration ends without an
   * error, as it does when the watch itself is closed.
   */
  close(error: EtcdError): void {
    if (this.ended) return;
    this.batches.discard();
    this.#owner.discard();
    this.#creation?.reject(error);
  }

  #taken(): void {
    if (!this.#isSuspended || this.batches.size > this.bufferBytes / 2) return;
    this.#isSuspended = false;
    if (!this.ended) this.#owner.stream.add(this);
  }
}

function watchClosed(): EtcdError {
  return new EtcdError('the watch was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'unknown' });
}
