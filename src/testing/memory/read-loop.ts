import type { Raft } from '../raft/raft.js';
import type { Clock } from './clock.js';
import { REQUEST_TIMEOUT_MS } from './consensus.js';
import { type StatusError, serverError } from './service.js';

/** How long a member waits for the answer of its leader before it asks again: `readIndexRetryTime` in etcd. */
const RETRY_MS = 500;

/** The reads that wait for the same answer of the leader. */
interface Batch {
  readonly done: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: StatusError) => void;
  /** The index that the member must apply first. Undefined until the leader has answered. */
  index: number | undefined;
}

/**
 * The linearizable reads of a member: `linearizableReadLoop` in etcd's `etcdserver/v3_server.go`. As in etcd, the member
 * asks the leader about one batch of reads at a time. The reads that arrive meanwhile wait for the next batch. Without
 * a leader, a read therefore waits for up to two time limits.
 */
export class ReadLoop {
  readonly #clock: Clock;
  readonly #raft: Pick<Raft<unknown>, 'lastApplied' | 'readIndex'>;
  #current: Batch | undefined;
  #next: Batch | undefined;
  /** The number of the latest request to the leader about the current batch. */
  #request = 0;
  #stopTimer: (() => void) | undefined;

  constructor(clock: Clock, raft: Pick<Raft<unknown>, 'lastApplied' | 'readIndex'>) {
    this.#clock = clock;
    this.#raft = raft;
  }

  /** Resolves when the member has applied everything that was committed before the call. */
  wait(): Promise<void> {
    this.#next ??= newBatch();
    const { done } = this.#next;
    this.#startNext();
    return done;
  }

  /** The leader has answered a request. */
  answered(request: number, index: number): void {
    if (this.#current === undefined || this.#current.index !== undefined || request !== this.#request) return;
    this.#stopTimer?.();
    this.#current.index = index;
    this.applied();
  }

  /** The member has applied an entry. */
  applied(): void {
    const { index } = this.#current ?? {};
    if (index !== undefined && index <= this.#raft.lastApplied) this.#end((batch) => batch.resolve());
  }

  /** The cluster has a new leader, which knows nothing of the request to the old one. */
  leaderChanged(): void {
    if (this.#current?.index === undefined) this.#end((batch) => batch.reject(serverError('LeaderChanged')));
  }

  /** Ends all reads. */
  stop(error: StatusError): void {
    for (const batch of [this.#current, this.#next]) batch?.reject(error);
    this.#stopTimer?.();
    this.#current = undefined;
    this.#next = undefined;
  }

  #startNext(): void {
    if (this.#current !== undefined || this.#next === undefined) return;
    this.#current = this.#next;
    this.#next = undefined;
    this.#ask(this.#clock.now() + REQUEST_TIMEOUT_MS);
  }

  #ask(untilMs: number): void {
    const delayMs = Math.min(RETRY_MS, untilMs - this.#clock.now());
    if (delayMs <= 0) return this.#end((batch) => batch.reject(serverError('Timeout')));
    this.#request += 1;
    this.#stopTimer = this.#clock.after(delayMs, () => this.#ask(untilMs));
    this.#raft.readIndex(this.#request);
  }

  #end(settle: (batch: Batch) => void): void {
    const batch = this.#current;
    if (batch === undefined) return;
    this.#stopTimer?.();
    this.#current = undefined;
    settle(batch);
    this.#startNext();
  }
}

function newBatch(): Batch {
  let resolve = (): void => {};
  let reject = (_: StatusError): void => {};
  const done = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { done, resolve, reject, index: undefined };
}
