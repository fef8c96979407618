import { AsyncQueue } from '../async-queue.js';
import { EtcdError } from '../errors.js';
import type { WatchCreateRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import type { Event as WireEvent } from '../gen/mvccpb/kv.js';
import type { Init } from '../protobuf/codec.js';
import { type WatchBatch, weightOf } from './event.js';
import { RevisionAssembler } from './revision-assembler.js';
import { RevisionCursor } from './revision-cursor.js';

export interface WatcherOptions {
  readonly request: Init<WatchCreateRequest>;
  readonly bufferBytes: number;
  /** Hand on how far the watch is where there are no events, too. */
  readonly progress: boolean;
  /** The buffer is full: take the watch off the stream until `resume`. */
  readonly suspend: () => void;
  /** The consumer has caught up: put the watch back, from where it stands. */
  readonly resume: () => void;
  /** The watch is over, for whatever reason. */
  readonly ended: () => void;
}

/** One watch as its stream sees it: fed with responses, it knows where to go on after a break. */
export class Watcher {
  readonly batches: AsyncQueue<WatchBatch>;
  readonly #options: WatcherOptions;
  readonly #cursor: RevisionCursor;
  readonly #assembler = new RevisionAssembler();
  /** How often in a row the server refused it for the stream's token. */
  renewals = 0;
  #suspended = false;
  #createdAt: bigint | undefined;
  #endedWith: EtcdError | undefined;
  #awaitingCreation: { resolve(revision: bigint): void; reject(error: EtcdError): void }[] = [];

  constructor(options: WatcherOptions) {
    this.#options = options;
    this.#cursor = new RevisionCursor(options.request.startRevision ?? 0n);
    this.batches = new AsyncQueue(() => this.#taken());
  }

  /** Over: closed by its owner, or ended by the server. */
  get ended(): boolean {
    return this.batches.ended;
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
    this.#cursor.created(headerRevision);
    this.#createdAt ??= headerRevision;
    for (const { resolve } of this.#awaitingCreation.splice(0)) resolve(this.#createdAt);
  }

  progressed(headerRevision: bigint): void {
    // The rest of a torn revision is still to come, whatever the header says.
    if (this.#assembler.partial || this.#cursor.isRepeat(headerRevision + 1n)) return;
    this.#cursor.progressed(headerRevision);
    if (this.#options.progress) this.batches.push({ revision: headerRevision, events: [] }, 0);
  }

  receive(response: WatchResponse): void {
    const isFresh = ({ kv }: WireEvent): boolean => kv !== undefined && !this.#cursor.isRepeat(kv.modRevision);
    const { events } = response;
    const fresh = events.every(isFresh) ? events : events.filter(isFresh);
    for (const batch of this.#assembler.push(fresh, response.fragment)) {
      this.#cursor.delivered(batch.revision);
      this.batches.push(batch, weightOf(batch));
    }
    if (this.#suspended || this.batches.size <= this.#options.bufferBytes) return;
    this.#suspended = true;
    this.#assembler.reset();
    this.#options.suspend();
  }

  /** The stream is gone; the next one starts at the cursor. */
  detached(): void {
    this.#assembler.reset();
  }

  /** Batches that lie here can still be taken; then comes the error, if there is one. */
  end(error?: EtcdError): void {
    if (this.ended) return;
    this.#endedWith = error;
    this.#options.ended();
    this.batches.end(error);
    for (const { reject } of this.#awaitingCreation.splice(0)) reject(error ?? closed());
  }

  #taken(): void {
    if (!this.#suspended || this.batches.size > this.#options.bufferBytes / 2) return;
    this.#suspended = false;
    if (!this.ended) this.#options.resume();
  }
}

function closed(): EtcdError {
  return new EtcdError('the watch was closed', { code: 'Canceled', reason: 'WatchClosed', outcome: 'unknown' });
}
