import {
  backoffMs,
  checkGivenOptions,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  clientClosed,
  EtcdError,
  environment,
  invalidInput,
  monotonicMs,
  pause,
  show,
  timedOut,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  type KeyspaceClient,
  type KeyValue,
  op,
  type PutOp,
} from '../../client/index.js';
import {
  checkName,
  setOutcome,
  untilAnswered,
  WAIT_OPTIONS,
  type Waiting,
  type WaitOptions,
  withinLimit,
} from '../../locks/index.js';
import { traceIn } from '../../rpc/index.js';
import { swapKey } from '../keys/index.js';
import { LeasePool, type SharedLease } from './lease-pool.js';

/** Options of a `RateLimiter`. All processes must use the same options. */
export interface RateLimiterOptions {
  /**
   * Number of tokens that the fleet (all processes that use the key) gets each second. May be a fraction, such as 0.1.
   */
  readonly perSecond: number;
  /** Number of tokens that the fleet can take at once after a pause. Default 1. */
  readonly burst?: number | undefined;
}

const RATE_LIMITER_OPTIONS = { perSecond: checkRate, burst: checkPositiveCount } as const;
const TRY_OPTIONS = { signal: WAIT_OPTIONS.signal } as const;
const US_PER_MS = 1_000;
const US_PER_S = 1_000_000;
const MAX_BURST_US = 365 * 86_400 * US_PER_S;

/**
 * The grace is how late a timer may fire before the process gives up its tokens. The minimum of the grace is this
 * fraction of the interval between two tokens, but at least `MIN_GRACE_MS`. If a timer is late by more than about half
 * of the grace, the grace grows to twice this delay. The grace never exceeds `MAX_GRACE_MS`.
 */
const GRACE_OF_INTERVAL = 0.1;
const MIN_GRACE_MS = 3;
const MAX_GRACE_MS = 1_000;
/** The factor by which the grace shrinks, down to its minimum, after each timer that does not make it grow. */
const GRACE_DECAY = 0.95;
/** An answer may be late by this many minimum graces, plus twice the duration of the previous call. */
const ANSWER_GRACES = 3;
/** The resolution of the wall clock: it shows whole milliseconds. */
const CLOCK_STEP_MS = 1;
/**
 * The minimum TTL of a key in seconds. Each process grants a lease about once in this time, because a lease lives for up
 * to twice the TTL that a key needs.
 */
const MIN_TTL_S = 60;
const GRANULARITY = 1;
/** The maximum number of writes with one lease, because etcd deletes all keys of a lease in one revision. */
const WRITES_PER_LEASE = 1_000;
/** Time limit in milliseconds for the grant of a lease, if the client is a test double without a time limit. */
const GRANT_TIMEOUT_MS = 15_000;

/** The leases of the keys of all limiters of a client. */
const pools = new WeakMap<CoreKeyspace, LeasePool>();

/** A new value of the key, which takes tokens. */
interface Move {
  readonly value: string;
  /** Milliseconds until the whole burst is available again. The key means nothing from then on. */
  readonly lifetimeMs: number;
  readonly taken: () => Reservation;
}

interface Reservation {
  /** Milliseconds until the tokens are due. The caller must wait until then. */
  readonly waitMs: number;
  /** Returns how many milliseconds ago the tokens became invalid. 0 or less while they are valid. */
  readonly lateMs: () => number;
}

/**
 * Limits how often a fleet of processes does something, with one key in etcd. The key stores the time from which a
 * whole burst is available again, and how many tokens of the current burst are left. A process takes tokens by moving
 * this time forward: at least to the latest time at which the tokens may be used, and then by the interval between two
 * tokens for each token. The process does so in a transaction that fails if another process has moved the time since
 * this process read it. The process then waits until the tokens are due. If the answer of etcd or the timer of the
 * process comes after that latest time, for example because the process was suspended, the process gives up the tokens
 * and takes others.
 *
 * In any time span, the fleet gets at most `burst` tokens, plus `perSecond` tokens for each second of the span. A token
 * counts at the time when `take` resolves. etcd has no clock that clients can read, so the processes use their own: a
 * difference of a second between two clocks may add the tokens of one second, at most `burst`. A process whose clock is
 * behind, or is set back, waits longer, by the difference. If a clock was far ahead for a while, delete the key to end
 * the wait. If the key is deleted, or the cluster is restored from a backup, the fleet gets `burst` tokens at once.
 *
 * With a `burst` of 1, a late timer delays the tokens after it, so the fleet gets about a tenth less than `perSecond`.
 * A larger `burst` makes up for that. Each call costs at least two round trips, and the calls of all processes compete
 * for the key. Use a limiter for at most a few hundred calls a second.
 *
 * etcd deletes the key one to two minutes after the whole burst is available again, so a program may have a limiter for
 * each of its users. All limiters of a client share leases: a process grants one about once a minute while it takes
 * tokens, and then needs another round trip.
 *
 * @example
 * const limiter = new RateLimiter(etcd, 'limits/mail', { perSecond: 50, burst: 10 });
 * await limiter.take();
 */
export class RateLimiter {
  readonly key: string;
  readonly #client: CoreKeyspace;
  readonly #pool: LeasePool;
  readonly #intervalUs: number;
  readonly #burst: number;
  #graceMs: number;
  readonly #minGraceMs: number;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, key: string, options: RateLimiterOptions) {
    this.#client = checkClient(client);
    checkName(key, 'key');
    checkGivenOptions(options, RATE_LIMITER_OPTIONS, 'RateLimiter');
    const { perSecond, burst = 1 } = options;
    this.key = key;
    this.#pool = poolOf(client);
    this.#intervalUs = US_PER_S / checkRate(perSecond, 'perSecond');
    this.#burst = burst;
    const graceMs = Math.max(MIN_GRACE_MS, (this.#intervalUs / US_PER_MS) * GRACE_OF_INTERVAL);
    this.#minGraceMs = Math.min(MAX_GRACE_MS, graceMs);
    this.#graceMs = this.#minGraceMs;
    // The key stores a time in microseconds, which must be exact.
    if (this.#intervalUs * this.#burst > MAX_BURST_US)
      throw invalidInput('perSecond', show(perSecond), 'a rate at which the burst is due within a year');
  }

  /**
   * Takes tokens, 1 to `burst` of them, and waits until they are due. Tokens become due in the order in which the calls
   * take them. If `maxWaitMs` is too short for the tokens, the call rejects at once and takes none. If `signal` aborts or
   * the client closes during the wait, the tokens are lost, and the outcome of the error is `applied`. If the outcome of a
   * write is unknown, the call may take the tokens twice.
   *
   * @throws EtcdError, see `WaitOptions`, and with reason `ClientClosed` when the client is closed.
   */
  async take(tokens = 1, options: WaitOptions = {}): Promise<void> {
    this.#check(tokens);
    await this.#waiting('RateLimiter.take', options, async (waiting) => {
      const { maxWaitMs = Number.POSITIVE_INFINITY } = options;
      const endMs = monotonicMs() + maxWaitMs;
      const takeTokens = (patience: number) =>
        untilAnswered(waiting, () => this.#reserve(tokens, patience, endMs, waiting));
      if (await this.#goOnInTime(takeTokens, waiting)) return;
      // The call may have taken tokens before, and given them up because they were due too late.
      const outcome = traceIn(waiting)?.outcome ?? 'rejected';
      throw timedOut('RateLimiter.take', maxWaitMs, outcome, undefined, undefined, undefined, 'maxWaitMs');
    });
  }

  /**
   * Takes tokens if they are due now. Returns whether it took them.
   *
   * @throws EtcdError as `txn` does. If the outcome of the error is `applied`, the tokens are taken, and if it is
   *   `unknown`, they may be.
   */
  async tryTake(tokens = 1, options: Pick<WaitOptions, 'signal'> = {}): Promise<boolean> {
    this.#check(tokens);
    checkOptions(options, TRY_OPTIONS, 'RateLimiter.tryTake');
    return this.#waiting('RateLimiter.tryTake', options, (waiting) =>
      this.#goOnInTime((patience) => this.#reserve(tokens, patience, 0, waiting), waiting),
    );
  }

  #check(tokens: number): void {
    if (!Number.isSafeInteger(tokens) || tokens < 1 || tokens > this.#burst)
      throw invalidInput('tokens', show(tokens), `a whole number from 1 to ${this.#burst}, the burst`);
  }

  /** Runs `wait` with a signal that also aborts when the client is closed. */
  #waiting<T>(what: string, options: WaitOptions, wait: (waiting: Waiting) => Promise<T>): Promise<T> {
    return withinLimit(what, options, undefined, async (limit) => {
      const { waiting } = limit;
      // A test double of a client may lack this method.
      const { beforeClose } = this.#client as Partial<KeyspaceClient>;
      const offClose = beforeClose?.call(this.#client, async () => limit.end(clientClosed(traceIn(waiting)?.outcome)));
      return wait(waiting).finally(offClose);
    });
  }

  /**
   * Takes tokens with `reserve`, and waits until they are due. If the tokens are invalid by then, takes other tokens,
   * with twice the `patience` (see `#reserve`). Returns false if `reserve` has taken none.
   */
  async #goOnInTime(
    reserve: (patience: number) => Promise<Reservation | undefined>,
    waiting: Waiting,
  ): Promise<boolean> {
    const { signal } = waiting;
    for (let patience = 1; ; patience *= 2) {
      const reserved = await reserve(patience);
      if (reserved === undefined) return false;
      setOutcome(waiting, 'applied');
      if (reserved.waitMs > 0) {
        const timerMs = monotonicMs() + reserved.waitMs;
        await pause(reserved.waitMs, signal);
        const timerLateMs = monotonicMs() - timerMs;
        const graceMs = Math.min(MAX_GRACE_MS, Math.max(this.#graceMs * GRACE_DECAY, 2 * timerLateMs));
        this.#graceMs = Math.max(this.#minGraceMs, graceMs);
      }
      signal.throwIfAborted();
      if (reserved.lateMs() <= 0) return true;
    }
  }

  /**
   * Takes tokens. If the tokens are not due now, and will not be due before `endMs` on the monotonic clock, takes none
   * and returns undefined. `patience` multiplies the times by which the answer and the timer may be late.
   */
  async #reserve(tokens: number, patience: number, endMs: number, waiting: Waiting): Promise<Reservation | undefined> {
    const { signal } = waiting;
    const { timeoutMs = GRANT_TIMEOUT_MS } = (this.#client as Partial<KeyspaceClient>).rpc?.settings ?? {};
    const deadline = monotonicMs() + timeoutMs;
    let lease: SharedLease | undefined;
    let taken: (() => Reservation) | undefined;
    const change = async (kv: KeyValue | undefined, askedMs: number): Promise<readonly PutOp[] | undefined> => {
      for (;;) {
        const move = this.#move(kv, askedMs, tokens, patience, endMs);
        if (move === undefined) return undefined;
        lease = this.#pool.leaseFor(Math.max(MIN_TTL_S, Math.ceil(move.lifetimeMs / 1_000)));
        taken = move.taken;
        if (lease.id !== undefined) return [op.put(this.key, move.value, { lease: lease.id })];
        // The grant takes time, so the tokens must be computed again.
        await lease.granted('RateLimiter', { signal, timeoutMs, deadline });
      }
    };
    for (let refusals = 0; ; refusals += 1) {
      try {
        return (await swapKey(this.#client, this.key, change, waiting)) ? taken?.() : undefined;
      } catch (error) {
        if (error instanceof EtcdError && error.outcome === 'unknown') setOutcome(waiting, 'unknown');
        // Endpoints of several clusters could refuse each lease.
        if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound' || lease === undefined) throw error;
        if (monotonicMs() >= deadline) throw error;
        this.#pool.drop(lease);
        if (refusals > 0) await pause(backoffMs(refusals), signal);
      }
    }
  }

  /** Returns the new value of the key if a process takes tokens now. See `#reserve` for the parameters. */
  #move(kv: KeyValue | undefined, askedMs: number, tokens: number, patience: number, endMs: number): Move | undefined {
    // If the process is stopped between the two reads, this order makes it wait longer than it must, never shorter.
    const wallMs = environment.Date.now();
    const startMs = monotonicMs();
    const graceMs = patience * (ANSWER_GRACES * this.#minGraceMs + 2 * (startMs - askedMs));
    const nowUs = wallMs * US_PER_MS;
    const { takenUs, free } = this.#parse(kv, nowUs);
    const dueUs = tokens <= free ? nowUs : Math.max(nowUs, takenUs + (tokens - this.#burst) * this.#intervalUs);
    const waitMs = (dueUs - nowUs) / US_PER_MS;
    if (waitMs > 0 && startMs + waitMs > endMs) return undefined;
    // The latest time at which these tokens may be used. Later tokens are due as if these tokens were used at this
    // time.
    const lastUs = Math.max(takenUs, dueUs + patience * this.#graceMs * US_PER_MS, nowUs + graceMs * US_PER_MS);
    const freeUs = Math.ceil(lastUs + tokens * this.#intervalUs);
    // The monotonic clock may stop while a machine is suspended, and the wall clock may be set.
    const passedMs = (): number => Math.max(monotonicMs() - startMs, environment.Date.now() - wallMs);
    const limitMs = (lastUs - nowUs) / US_PER_MS - CLOCK_STEP_MS;
    return {
      value: `${freeUs} ${Math.max(0, free - tokens)}`,
      lifetimeMs: (freeUs - nowUs) / US_PER_MS,
      taken: () => ({ waitMs: waitMs - (monotonicMs() - startMs), lateMs: () => passedMs() - limitMs }),
    };
  }

  /**
   * Returns the time in the key (see the comment of the class), and how many tokens of the current burst are left. If
   * that time has passed, a new burst begins.
   */
  #parse(kv: KeyValue | undefined, nowUs: number): { readonly takenUs: number; readonly free: number } {
    const [takenUs = 0, free = 0] = (kv?.text() ?? '').split(' ').map(Number);
    if (!Number.isSafeInteger(takenUs) || takenUs <= nowUs) return { takenUs: 0, free: this.#burst };
    return { takenUs, free: Number.isSafeInteger(free) ? free : 0 };
  }
}

function poolOf(client: CoreKeyspace): LeasePool {
  const pool = pools.get(client) ?? new LeasePool(client, GRANULARITY, WRITES_PER_LEASE);
  pools.set(client, pool);
  return pool;
}

function checkRate(value: number, argument: string): number {
  return checkPositive(value, argument, 'tokens');
}
