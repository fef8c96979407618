import { type EtcdError, monotonicMs, noteFailure, type Outcome } from '../base/index.js';
import type { AttemptObserver } from '../wire/index.js';

/**
 * Records what happened to the calls and watches of one wait, such as the wait of `lock`. If the wait fails, its error
 * tells what these records contain.
 */
export class WaitTrace implements AttemptObserver {
  /** URL of the endpoint that has not answered the current attempt yet. */
  endpoint: string | undefined;
  /**
   * The latest failure at each endpoint, by URL. A response, or a stream that carries the watch again, removes all
   * failures.
   */
  readonly failures: Map<string, EtcdError> = new Map<string, EtcdError>();
  /** Whether a server may have received one of the calls. */
  reached = false;
  /** Outcome of the writes of the wait. Undefined until the wait records an outcome. */
  outcome: Outcome | undefined;
  /**
   * When the watch of the wait lost its stream, on the monotonic clock. Undefined if the watch has not lost its stream,
   * or has a new stream.
   */
  detachedAt: number | undefined;
  /** Whether another contender has the lock that this wait is for, or is in front of this contender in the queue. */
  isTaken: boolean | undefined;

  attempt(endpoint: string): void {
    this.endpoint = endpoint;
  }

  answered(): void {
    this.endpoint = undefined;
    this.reached = true;
    this.failures.clear();
  }

  failed(error: EtcdError): void {
    this.reached ||= error.outcome !== 'not-sent';
    // The wait has ended and has canceled this call. The endpoint has not failed: its answer is still outstanding.
    if (error.reason === 'Canceled') return;
    this.endpoint = undefined;
    noteFailure(this.failures, error);
  }

  /** A stream carries the watch of the wait. */
  attached(): void {
    this.detachedAt = undefined;
    this.failures.clear();
  }

  /** No stream carries the watch of the wait. */
  detached(error: EtcdError | undefined): void {
    this.detachedAt ??= monotonicMs();
    if (error !== undefined) noteFailure(this.failures, error);
  }
}
