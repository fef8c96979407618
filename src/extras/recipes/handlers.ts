import { doublingMs, EtcdError } from '../../base/index.js';

// What the recipes that call handlers of the program have in common.

/** Maximum delay between two runs of a handler that fails, in milliseconds. */
export const RETRY_MAX_MS = 60_000;

/**
 * Returns a function that returns the delay before the next run of a handler that has failed `attempt` times, in
 * milliseconds. The delay begins with `baseMs`, and doubles with each further failure, up to `RETRY_MAX_MS`.
 */
export function retryDelay(baseMs: number): (attempt: number) => number {
  return (attempt) => doublingMs(baseMs, RETRY_MAX_MS, attempt - 1);
}

/** @throws the error, unless it means that this process has lost or released the lock or the job. */
export function ignoreLoss(error: unknown): undefined {
  if (!(error instanceof EtcdError) || !['LockLost', 'LockReleased'].includes(error.reason)) throw error;
}
