import {
  checkFunction,
  checkGivenOptions,
  checkMs,
  checkPositiveCount,
  doublingMs,
  type EtcdError,
  environment,
  invalidInput,
} from '../../base/index.js';
import { type Interceptor, isEndedByClient, isTokenRefused } from '../../rpc/index.js';

/** Options of `retryPolicy`. */
export interface RetryPolicy {
  /** Maximum number of attempts of a call, including the first one. 1: no call is repeated. Default: no limit. */
  readonly maxAttempts?: number | undefined;
  /**
   * Bounds of the delay before an attempt, in milliseconds. The delay is a random time up to a limit, which begins at
   * `minBackoffMs` and doubles with each failure until it reaches `maxBackoffMs`. If only one of the two is given, the
   * default of `minBackoffMs` is 50, or `maxBackoffMs` if that is less, and the default of `maxBackoffMs` is 2,000, or
   * `minBackoffMs` if that is more. If neither is given, the client uses its own delays, which are usually 0 if another
   * endpoint is available. A read that only `retryRead` repeats always has a delay.
   */
  readonly minBackoffMs?: number | undefined;
  readonly maxBackoffMs?: number | undefined;
  /**
   * Decides whether a failed read is repeated. `failures` counts its failed attempts, from 1. `isSafe` says whether the
   * client would repeat the read without this function. The client also calls the function for calls that are as safe
   * to repeat as reads: writes with guards (see `retryWrites`), and grants of leases whose ID the server chooses. It
   * does not call the function for other writes, which it repeats only if the server provably did not process them. Nor
   * does it call the function after `maxAttempts` attempts, after the deadline, after the caller has canceled the call
   * or closed the client, or if the server refused the token. In the last case, the client repeats the read with a new
   * token.
   */
  readonly retryRead?: ((error: EtcdError, failures: number, isSafe: boolean) => boolean) | undefined;
}

const RETRY_POLICY = {
  maxAttempts: checkPositiveCount,
  minBackoffMs: checkMs,
  maxBackoffMs: checkMs,
  retryRead: checkFunction,
} as const;
const DEFAULT_MIN_BACKOFF_MS = 50;
const DEFAULT_MAX_BACKOFF_MS = 2_000;

/**
 * Returns an interceptor that limits and delays the attempts of each unary call. It never makes the client repeat a write
 * that is unsafe to repeat. The deadline of a call still ends the call. Locks and other
 * functions of `etcdwire/locks` and `etcdwire/recipes` repeat their calls until they know the outcome, whatever the
 * policy is, because their safety depends on it.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is invalid, or if `minBackoffMs` is above `maxBackoffMs`.
 *
 * @example
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], interceptors: [retryPolicy({ maxAttempts: 1 })] });
 */
export function retryPolicy(options: RetryPolicy): Interceptor {
  checkGivenOptions(options, RETRY_POLICY, 'retryPolicy');
  const { maxAttempts = Number.MAX_SAFE_INTEGER, minBackoffMs, maxBackoffMs, retryRead } = options;
  const hasBackoff = minBackoffMs !== undefined || maxBackoffMs !== undefined;
  const maxMs = maxBackoffMs ?? Math.max(DEFAULT_MAX_BACKOFF_MS, minBackoffMs ?? 0);
  if (minBackoffMs !== undefined && minBackoffMs > maxMs)
    throw invalidInput('minBackoffMs', `${minBackoffMs}`, `at most maxBackoffMs, which is ${maxMs}`);
  const minMs = minBackoffMs ?? Math.min(DEFAULT_MIN_BACKOFF_MS, maxMs);
  const delayMs = (failures: number): number => environment.Math.random() * doublingMs(minMs, maxMs, failures - 1);
  return {
    unary: (call, next) => {
      const outer = call.retryAfter;
      const retryAfter = (error: EtcdError, failures: number, isSafe: boolean): number | false | undefined => {
        const outerMs = outer?.(error, failures, isSafe);
        if (failures >= maxAttempts || outerMs === false) return false;
        const isRead = call.method.repeatable;
        const asks = isRead && retryRead !== undefined && !isEndedByClient(error) && !isTokenRefused(error);
        const wanted = asks ? retryRead(error, failures, isSafe) : isSafe;
        if (!wanted) return false;
        // A read that only `retryRead` repeats needs a delay, because the client has none for such an error.
        if (hasBackoff || !isSafe) return delayMs(failures);
        return outerMs;
      };
      return next({ ...call, retryAfter });
    },
  };
}
