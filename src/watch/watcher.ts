import type { CallTrace } from '../channel/attempts.js';
import { EtcdError } from '../errors/etcd-error.js';
import type { WatchCreateRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import type { Event as WireEvent } from '../gen/mvccpb/kv.js';
import type { Init } from '../protobuf/codec.js';
import { AsyncQueue } from '../runtime/queues.js';
import { type Division, divisionAfter } from './catch-up.js';
import { type WatchBatch, weightOf } from './event.js';
import { RevisionAssembler } from './revision-assembler.js';
import { RevisionCursor } from './revision-cursor.js';

export interface WatcherOptions {
  readonly request: Init<WatchCreateRequest>;
  /** What may lie here before the watch is taken off its stream. */
  readonly bufferBytes: number;
  /** Hand on how far the watch is where there are no events, too. */
  readonly progress: boolean;
  /** The buffer is full: take the watch off the stream until `resume`. */
  readonly suspend: () => void;
  /** There is a long way to go, which may be divided so. */
  readonly behind: (division: Division) => void;
  /** The consumer has caught up: put the watch back, from where it stands. */
  readonly resume: () => void;
  /** What became of the watch's streams, so that the error of whoever ends it can say what failed last. */
  readonly trace: CallTrace | undefined;
  /** The watch is over: refused, or it has all that is its own. */
  readonly ended: (error: EtcdError | undefined) => void;
  /** The owner of the client has closed it: the watch and all its parts are over. */
  readonly closed: () => void;
}

/**
 * One watch of the server as its stream sees it: fed with responses, it knows where to go on after a break. Where the
 * way to the present is long, several of them share it, and each goes `until` where the next one began.
 */
export class Watcher {
  readonly batches: AsyncQueue<WatchBatch>;
  readonly #options: WatcherOptions;
  readonly #cursor: RevisionCursor;
  readonly #assembler = new RevisionAssembler();
  /** How often in a row the server refused it for the stream's token. */
  renewals = 0;
  /** The first revision that is not its own any more; an event from there on shows that it has all of its own. */
  until: bigint | undefined;
  bufferBytes: number;
  #suspended = false;
  #createdAt: bigint | undefined;
  #endedWith: EtcdError | undefined;
  #awaitingCreation: { resolve(revision: bigint): void; reject(error: EtcdError): void }[] = [];

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.bufferBytes = options.bufferBytes;
    this.#cursor = new RevisionCursor(options.request.startRevision ?? 0n);
    this.batches = new AsyncQueue(() => this.#taken());
  }

  /** Over: closed by its owner, or ended by the server. */
  get ended(): boolean {
    return this.batches.ended;
  }

  /** All before this revision has been delivered; 0n for a watch from now on that has not been created. */
  get position(): bigint {
    return this.#cursor.resume;
  }

  /** What to create the watch with, on this stream or the next. */
  createRequest(watchId: bigint, fragment: boolean): Init<WatchCreateRequest> {
    return { ...this.#options.request, startRevision: this.#cursor.resume, watchId, fragment };
  }

  /** Store revision when the watch was first created: every later event is delivered. */
  whenCreated(): Promise<bigint> {
    if (this.#createdAt !== undefined) return Promise.resolve(this.#createdAt);
    if (this.ended) return Promise.reject(this.#endedWith ?? closed());
    return new Promise((resolve, reject) => this.#awaitingCreation.push({ resolve, reject }));
  }

  created(headerRevision: bigint): void {
    this.renewals = 0;
    const { trace } = this.#options;
    if (trace !== undefined) trace.failure = undefined;
    this.#cursor.created(headerRevision);
    this.#createdAt ??= headerRevision;
    for (const { resolve } of this.#awaitingCreation.splice(0)) resolve(this.#createdAt);
  }

  /**
   * The server says that there are no more events up to this revision. `isCertain` is false where the server may have
   * said so ahead of events that are on their way: then the watch does not resume from there.
   */
  progressed(headerRevision: bigint, isCertain: boolean): void {
    // The rest of a torn revision is still to come, whatever the header says.
    if (this.#assembler.partial || this.#cursor.isRepeat(headerRevision + 1n)) return;
    if (isCertain) this.#cursor.progressed(headerRevision);
    if (this.#options.progress) this.batches.push({ revision: headerRevision, events: [] }, 0);
  }

  /** It is certain that there are no more events up to this revision. */
  resumeAfter(headerRevision: bigint): void {
    if (!this.#assembler.partial) this.#cursor.progressed(headerRevision);
  }

  receive(response: WatchResponse): void {
    const { until } = this;
    const over = until !== undefined && response.events.some(({ kv }) => kv !== undefined && kv.modRevision >= until);
    const isFresh = ({ kv }: WireEvent): boolean =>
      kv !== undefined && !this.#cursor.isRepeat(kv.modRevision) && !(over && kv.modRevision >= until);
    const { events } = response;
    const fresh = events.every(isFresh) ? events : events.filter(isFresh);
    const batches = this.#assembler.push(fresh, response.fragment && !over);
    let weight = 0;
    for (const batch of batches) {
      this.#cursor.delivered(batch.revision);
      const size = weightOf(batch);
      weight += size;
      this.batches.push(batch, size);
    }
    if (over) return this.end();
    const division = divisionAfter(batches, weight, response.header?.revision ?? 0n, this.bufferBytes);
    if (division !== undefined && until === undefined) this.#options.behind(division);
    if (this.#suspended || this.batches.size <= this.bufferBytes) return;
    this.#suspended = true;
    this.#assembler.reset();
    this.#options.suspend();
  }

  /** The stream is gone; the next one starts at the cursor. */
  detached(error?: EtcdError): void {
    const { trace } = this.#options;
    if (trace !== undefined && error !== undefined) trace.failure = error;
    this.#assembler.reset();
  }

  /** Batches that lie here can still be taken; then comes the error, if there is one. */
  end(error?: EtcdError): void {
    if (this.ended) return;
    this.#endedWith = error;
    this.batches.end(error);
    this.#options.ended(error);
    this.#rejectCreation(error);
  }

  /**
   * The owner of the client has closed it, which says why to those who wait for the creation. An iteration ends without
   * an error, as it does when the watch itself is closed.
   */
  close(why: EtcdError): void {
    if (this.ended) return;
    this.#endedWith = why;
    this.batches.discard();
    this.#options.closed();
    this.#rejectCreation(why);
  }

  #rejectCreation(why: EtcdError = closed()): void {
    for (const { reject } of this.#awaitingCreation.splice(0)) reject(why);
  }

  #taken(): void {
    if (!this.#suspended || this.batches.size > this.bufferBytes / 2) return;
    this.#suspended = false;
    if (!this.ended) this.#options.resume();
  }
}

function closed(): EtcdError {
  return new EtcdError('the watch was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'unknown' });
}
