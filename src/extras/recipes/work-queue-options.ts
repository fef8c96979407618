import { checkDelay, checkFunction, checkPositiveCount, checkSignal, type SignalOption } from '../../base/index.js';
import { LEASE_OPTIONS, type SessionOptions } from '../../locks/index.js';
import { type CallOptions, TIME_LIMITS } from '../../rpc/index.js';
import { checkCodec, type ValueCodec } from '../keys/index.js';
import { checkId, type Job } from './job.js';
import { checkPriority } from './queue.js';

/** Options of a `WorkQueue`. All workers of a queue should use the same options. */
export interface WorkQueueOptions<T = Uint8Array> {
  /**
   * Converts values to the bytes of jobs, and back; see `json`. Default: `enqueue` takes bytes or text, and the value of
   * a job is bytes.
   */
  readonly codec?: ValueCodec<T> | undefined;
  /** Number of tries before a job becomes a dead job. A try whose worker dies counts, too. Default 5. */
  readonly maxAttempts?: number | undefined;
  /**
   * Returns the milliseconds before a job that has failed `attempt` times is tried again. Default: 1 s after the first
   * failure, and twice as long after each further failure, up to 60 s.
   */
  readonly retryDelayMs?: ((attempt: number) => number) | undefined;
  /**
   * Minimum number of seconds for which the queue remembers the ID of a completed or discarded job, if the caller of
   * `enqueue` chose the ID: up to 4,500,000,000. Default 3,600.
   */
  readonly idTtl?: number | undefined;
}

/** Options of `WorkQueue.enqueue`. */
export interface EnqueueOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /**
   * An ID that the caller chooses, without `/`: an idempotency token. If the queue contains a job with this ID, or such
   * a job was completed or discarded within `idTtl`, nothing is added. Default: a random ID.
   */
  readonly id?: string | undefined;
  /** A whole number from 0 to 65,535. Jobs with smaller numbers come first. Default 100. */
  readonly priority?: number | undefined;
  /**
   * Milliseconds before the job may be taken, up to 3.2 * 10^12. This process computes the time with its clock, and
   * each worker compares the time with its own clock, so a worker whose clock is ahead takes the job earlier. Default
   * 0.
   */
  readonly delayMs?: number | undefined;
}

/** Options of `WorkQueue.work`. */
export interface WorkOptions<T = Uint8Array> extends Pick<SessionOptions, 'allowLongTtl'> {
  /**
   * Maximum number of jobs that this process works on at the same time. The worker takes up to 128 ready jobs with one
   * look at the queue, but not more than it may start. Default 1.
   */
  readonly concurrency?: number | undefined;
  /** TTL of the lease in seconds. If the process dies, its jobs return to the queue after this time. Default 10. */
  readonly ttl?: number | undefined;
  /** Ends the work when this signal aborts: the worker takes no more jobs, and waits for the running handlers. */
  readonly signal?: SignalOption;
  /**
   * Called when the handler of a job has thrown, or the server has refused to complete the job, before the job is tried
   * again. Not called after `signal` has aborted, if the job was lost, or if the handler has called `complete`, `retry`
   * or `bury` itself. If this function throws, `work` rejects with its error.
   */
  readonly onFailure?: ((error: unknown, job: Job<T>) => void) | undefined;
}

/** The number of jobs in each state. */
export interface WorkQueueCounts {
  /** Jobs that a worker may take now. */
  readonly ready: number;
  /** Jobs that wait for their time: delayed jobs, and jobs that have failed and will be tried again. */
  readonly delayed: number;
  /** Jobs that a worker has taken. */
  readonly running: number;
  /** Jobs that have failed `maxAttempts` times, or that a worker has buried. */
  readonly dead: number;
}

/** A job that has failed `maxAttempts` times, or that its worker has buried. */
export interface DeadJob<T = Uint8Array> {
  readonly id: string;
  /** Reading this property throws an EtcdError with reason `InvalidValue` if the codec cannot decode `bytes`. */
  readonly value: T;
  /** The value as it is stored. */
  readonly bytes: Uint8Array;
  /** Number of tries of the job. */
  readonly attempts: number;
  /** The message of the last error. Undefined if no worker gave one, for example because the workers died. */
  readonly error: string | undefined;
}

export const WORK_QUEUE_OPTIONS = {
  codec: checkCodec,
  maxAttempts: checkPositiveCount,
  retryDelayMs: checkFunction,
  idTtl: checkPositiveCount,
} as const;
export const ENQUEUE_OPTIONS = { id: checkId, priority: checkPriority, delayMs: checkDelay, ...TIME_LIMITS } as const;
export const WORK_OPTIONS = {
  concurrency: checkPositiveCount,
  ...LEASE_OPTIONS,
  signal: checkSignal,
  onFailure: checkFunction,
} as const;
