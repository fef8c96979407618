import { invalidInput, timedOut } from '../errors/etcd-error.js';
import { modifyKey } from '../keys/compare-and-set.js';
import { type CoreKeyspace, checkClient } from '../keyspace.js';
import {
  checkGivenOptions,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  type SignalOption,
  show,
} from '../runtime/arguments.js';
import { environment } from '../runtime/environment.js';
import { pause } from '../runtime/timers.js';
import { checkName } from './lock-queue.js';
import { untilAnswered, WAIT_OPTIONS, type WaitOptions, withinLimit } from './waiting.js';

/** Options of a `RateLimiter`. All processes must have the same. */
export interface RateLimiterOptions {
  /** How many tokens the fleet gets in each second. It may be a fraction, such as 0.1. */
  readonly perSecond: number;
  /** How many tokens the fleet can take at once after a pause. Default 1. */
  readonly burst?: number | undefined;
}

const RATE_LIMITER_OPTIONS = { perSecond: checkRate, burst: checkPositiveCount } as const;
const TRY_OPTIONS = { signal: WAIT_OPTIONS.signal } as const;
const US_PER_MS = 1_000;
const US_PER_S = 1_000_000;
const MAX_BURST_US = 365 * 86_400 * US_PER_S;

/**
 * Limits how often a fleet of processes does something, with one key. The key stores the time at which all tokens that
 * were taken so far will be due: the time of the last token, plus one interval for each token that was taken since. A
 * process takes tokens by moving this time, in a transaction that fails if another process has moved it in the meantime,
 * and then waits for its turn.
 *
 * etcd has no clock that clients can read, so the processes use their own. In any time span, the fleet gets at most
 * `burst` tokens and `perSecond` for each second, both by the clock that is ahead. A process whose clock is behind, or is
 * set back, waits longer, by the difference. If a clock was far ahead for a while, delete the key to end the wait. A
 * process that was suspended gets the tokens that became due in the meantime at once. If the key is deleted, or the
 * cluster is restored from a backup, the fleet gets `burst` tokens at once. Each call costs at least two round trips, and
 * the calls of all processes compete for the key, so use it for up to some hundred calls in a second.
 *
 * @example
 * const limiter = new RateLimiter(etcd, 'limits/mail', { perSecond: 50, burst: 10 });
 * await limiter.take();
 */
export class RateLimiter {
  readonly key: string;
  readonly #client: CoreKeyspace;
  readonly #intervalUs: number;
  readonly #burst: number;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, key: string, options: RateLimiterOptions) {
    this.#client = checkClient(client);
    checkName(key, 'key');
    checkGivenOptions(options, RATE_LIMITER_OPTIONS, 'RateLimiter');
    const { perSecond, burst = 1 } = options;
    this.key = key;
    this.#intervalUs = US_PER_S / checkRate(perSecond, 'perSecond');
    this.#burst = burst;
    // The key stores a time in microseconds, which must be exact.
    if (this.#intervalUs * this.#burst > MAX_BURST_US)
      throw invalidInput('perSecond', show(perSecond), 'a rate at which the burst is due within a year');
  }

  /**
   * Takes tokens, 1 to `burst` of them, and waits until they are due. Calls get their tokens in the order in which they take them. If
   * `maxWaitMs` is too short for the tokens, the call rejects at once and takes none. If `signal` aborts during the wait,
   * the tokens are lost, and if the outcome of a write is unknown, they may be taken twice.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  async take(tokens = 1, options: WaitOptions = {}): Promise<void> {
    this.#check(tokens);
    await withinLimit('RateLimiter.take', options, undefined, async ({ signal }) => {
      const { maxWaitMs = Number.POSITIVE_INFINITY } = options;
      const waitMs = await untilAnswered(signal, () => this.#reserve(tokens, maxWaitMs, signal));
      if (waitMs > maxWaitMs)
        throw timedOut('RateLimiter.take', maxWaitMs, 'rejected', undefined, undefined, undefined, 'maxWaitMs');
      await pause(waitMs, signal);
      signal.throwIfAborted();
    });
  }

  /**
   * Takes tokens if they are due now. Returns whether it took them.
   *
   * @throws EtcdError as `txn` does. If its outcome is `unknown`, the tokens may be taken.
   */
  async tryTake(tokens = 1, options: Pick<WaitOptions, 'signal'> = {}): Promise<boolean> {
    this.#check(tokens);
    checkOptions(options, TRY_OPTIONS, 'RateLimiter.tryTake');
    return (await this.#reserve(tokens, 0, options.signal)) <= 0;
  }

  #check(tokens: number): void {
    if (!Number.isSafeInteger(tokens) || tokens < 1 || tokens > this.#burst)
      throw invalidInput('tokens', show(tokens), `a whole number from 1 to ${this.#burst}, the burst`);
  }

  /** Takes tokens unless they are due later than in `maxWaitMs`. Returns the milliseconds until they are due. */
  async #reserve(tokens: number, maxWaitMs: number, signal: SignalOption): Promise<number> {
    let waitMs = 0;
    await modifyKey(
      this.#client,
      this.key,
      (kv) => {
        const nowUs = environment.Date.now() * US_PER_MS;
        const storedUs = Number(kv?.text());
        const sinceUs = Math.max(Number.isSafeInteger(storedUs) ? storedUs : 0, nowUs);
        const dueUs = sinceUs + tokens * this.#intervalUs;
        waitMs = Math.max(0, (dueUs - this.#burst * this.#intervalUs - nowUs) / US_PER_MS);
        return waitMs > maxWaitMs ? undefined : String(Math.ceil(dueUs));
      },
      { signal, maxAttempts: Number.MAX_SAFE_INTEGER },
    );
    return waitMs;
  }
}

function checkRate(value: number, argument: string): number {
  return checkPositive(value, argument, 'tokens');
}
