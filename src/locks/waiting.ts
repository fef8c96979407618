import {
  amended,
  at,
  backoffMs,
  canceled,
  checkOptions,
  checkSignal,
  clientClosed,
  EtcdError,
  type Outcome,
  onAbort,
  pause,
  type SignalOption,
  settledWithin,
  timedOut,
} from '../base/index.js';
import type { CoreKeyspace, Keys, KeyspaceClient } from '../client/index.js';
import {
  type CallOptions,
  checkTimeout,
  deadlineIn,
  internally,
  isRefusedByClient,
  isTransient,
  traceIn,
  WaitTrace,
} from '../rpc/index.js';

/**
 * Limits how long a call waits. Without these options, a wait has no limit. A wait that ends early rejects with an
 * `EtcdError`: reason `Canceled` when `signal` aborts, the reason of the session's end when the session ends, or
 * `LockLost` when another client deletes the waiter's key. After `maxWaitMs`, the reason is `LockTaken` if the servers
 * answered and another contender still has the lock, and `DeadlineExceeded` otherwise.
 */
export interface WaitOptions {
  /** Cancels the wait when this signal aborts. */
  readonly signal?: SignalOption;
  /** Maximum wait in milliseconds. Default: no limit. */
  readonly maxWaitMs?: number | undefined;
}

/** Options of the methods that acquire a lock. */
export interface LockOptions extends WaitOptions {
  /**
   * Maximum time in milliseconds for which the caller holds the lock. After this time, `signal` of the `Held` aborts
   * with reason `LockLost`. The next contender gets the lock when the caller calls `release`, but at the latest when
   * the TTL of the lease has passed since the abort. The time for which the machine is suspended does not count. In
   * `withLocks`, the time of each lock begins when that lock is acquired. Default: no limit.
   */
  readonly maxHoldMs?: number | undefined;
}

export const WAIT_OPTIONS = { signal: checkSignal, maxWaitMs: checkTimeout } as const;
export const LOCK_OPTIONS = { ...WAIT_OPTIONS, maxHoldMs: checkTimeout } as const;
const WAIT_HINTS = {
  timeoutMs: 'did you mean maxWaitMs?',
  timeout: 'did you mean maxWaitMs?',
  ttl: 'a session has a TTL: Session.open(client, { ttl: 10 })',
} as const;

/**
 * The options that a wait passes to its calls and inner waits: the signal of the wait. If the object comes from a
 * `WaitLimit`, the failures of these calls appear in the error of the wait.
 */
export interface Waiting {
  readonly signal: AbortSignal;
}

/** Sets the `outcome` of the error of the wait, see `WaitLimit.setOutcome`. */
export function setOutcome(waiting: Waiting, outcome: Outcome): void {
  const trace = traceIn(waiting);
  if (trace !== undefined) trace.outcome = outcome;
}

type EndedFor = 'timeout' | 'signal' | 'other';

/** Combines everything that may end a wait into one signal, whose reason is always an `EtcdError`. */
export class WaitLimit {
  readonly #what: string;
  readonly #maxWaitMs: number;
  readonly #option: 'maxWaitMs' | 'timeoutMs';
  readonly #source: SignalOption;
  readonly #lifetime: AbortSignal | undefined;
  readonly #outerTrace: WaitTrace | undefined;
  #controller: AbortController | undefined;
  #trace: WaitTrace | undefined;
  #endedFor: EndedFor = 'other';
  #isForLock = false;
  readonly #undos: (() => void)[] = [];

  constructor(
    what: string,
    options: WaitOptions,
    lifetime: AbortSignal | undefined,
    option: 'maxWaitMs' | 'timeoutMs',
  ) {
    const { signal, maxWaitMs = Number.POSITIVE_INFINITY } = options;
    this.#outerTrace = traceIn(options);
    this.#what = what;
    this.#maxWaitMs = maxWaitMs;
    this.#option = option;
    this.#source = signal;
    this.#lifetime = lifetime;
    if ((signal ?? undefined) !== undefined || maxWaitMs !== Number.POSITIVE_INFINITY)
      this.#createSignal(deadlineIn(options, maxWaitMs));
  }

  get signal(): AbortSignal {
    return (this.#controller ?? this.#createSignal()).signal;
  }

  /** The options of the calls and waits that belong to this wait. */
  get waiting(): Waiting {
    const { signal } = this;
    return internally({ signal }, { trace: this.#trace }) as Waiting;
  }

  /**
   * The options of the first calls of a wait. If the wait has no limits, these options contain the signal `lifetime`
   * itself, so that a wait that ends with its first call creates no signal. `lifetime` does not abort when `end` is
   * called.
   */
  get firstCalls(): Waiting {
    const isBare = this.#controller === undefined && this.#lifetime !== undefined;
    return isBare ? { signal: this.#lifetime } : this.waiting;
  }

  /**
   * Sets the `outcome` of the wait's error. Default: `rejected` if a server may have received a call of the wait, and
   * `not-sent` otherwise.
   */
  setOutcome(outcome: Outcome): void {
    if (this.#trace !== undefined) this.#trace.outcome = outcome;
  }

  /** Declares that the wait is for a lock: after a timeout, the error has reason `LockTaken` if the lock is taken. */
  forLock(): this {
    this.#isForLock = true;
    return this;
  }

  /** Records whether another contender holds the lock, or waits for it before this contender. */
  taken(isTaken: boolean): void {
    if (this.#trace !== undefined) this.#trace.isTaken = isTaken;
  }

  /** Ends the wait now: `signal` aborts with `reason`. */
  end(reason: EtcdError): void {
    this.#end(reason, 'other');
  }

  /**
   * Returns the error with which the wait rejects after `error`: the reason of `signal` if it has aborted, or else
   * `error`. After a timeout or a cancel by the caller, the returned error has the outcome of the wait.
   */
  endedBy(error: unknown): unknown {
    const { signal } = this.firstCalls;
    if (!signal.aborted) return error;
    const { outcome, reached } = this.#trace ?? { outcome: undefined, reached: false };
    const settled = outcome ?? (reached ? 'rejected' : 'not-sent');
    if (this.#endedFor === 'timeout') return this.#timeout(settled);
    return this.#endedFor === 'signal' ? amended(signal.reason, { outcome: settled }) : signal.reason;
  }

  /** Stops the timer and removes the listeners. */
  dispose(): void {
    for (const undo of this.#undos) undo();
  }

  /** `deadline`: when the limit of the wait ends. A wait that creates its signal later has no such limit. */
  #createSignal(deadline = Number.POSITIVE_INFINITY): AbortController {
    const controller = new AbortController();
    this.#controller = controller;
    const source = this.#source;
    const trace = this.#outerTrace ?? new WaitTrace();
    this.#trace = trace;
    this.#undos.push(at(deadline, () => this.#end(this.#timeout('rejected'), 'timeout')));
    this.#endWith(this.#lifetime, ({ reason }) => this.end(reason));
    // The signal of an enclosing wait aborts with an `EtcdError`, and that wait sets the outcome.
    this.#endWith(source, (aborted) =>
      this.#end(
        canceled(aborted, 'rejected', undefined, trace.failures),
        this.#outerTrace !== undefined && aborted.reason instanceof EtcdError ? 'other' : 'signal',
      ),
    );
    return controller;
  }

  #endWith(source: SignalOption, action: (source: AbortSignal) => void): void {
    if (source === undefined || source === null) return;
    this.#undos.push(onAbort(source, () => action(source)));
    if (source.aborted) action(source);
  }

  #end(reason: EtcdError, endedFor: EndedFor): void {
    if (this.signal.aborted) return;
    this.#endedFor = endedFor;
    this.#controller?.abort(reason);
  }

  #timeout(outcome: Outcome): EtcdError {
    const { failures, endpoint, isTaken, detachedAt } = this.#trace ?? {};
    const isAnswered = !failures?.size && endpoint === undefined && detachedAt === undefined;
    if (this.#isForLock && isTaken && isAnswered) return lockTaken(this.#what, this.#maxWaitMs, outcome);
    return timedOut(this.#what, this.#maxWaitMs, outcome, undefined, failures, endpoint, this.#option);
  }
}

function lockTaken(what: string, maxWaitMs: number, outcome: Outcome): EtcdError {
  return new EtcdError(
    `${what}: other contenders still had the lock after maxWaitMs = ${maxWaitMs}; inspectLock shows them`,
    { code: 'DeadlineExceeded', reason: 'LockTaken', outcome },
  );
}

/**
 * Runs `wait` within the limits of `options`. If `lifetime` is given, the wait also ends when `lifetime` aborts, for
 * example because the session is lost. Error messages call the operation `what` and the time limit `option`. `checks`
 * are the checks of the options.
 *
 * @throws EtcdError, see `WaitOptions`, and with reason `InvalidInput` for options that are not `WaitOptions`.
 */
export async function withinLimit<T>(
  what: string,
  options: WaitOptions,
  lifetime: AbortSignal | undefined,
  wait: (limit: WaitLimit) => Promise<T>,
  option?: 'timeoutMs',
  checks?: typeof WAIT_OPTIONS,
): Promise<T> {
  const limit = waitLimit(what, options, lifetime, option, checks);
  try {
    limit.firstCalls.signal.throwIfAborted();
    return await wait(limit);
  } catch (error) {
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
  }
}

/**
 * Starts and returns a limit like that of `withinLimit`, but leaves the wait to the caller. The caller must call
 * `dispose` after the wait.
 */
export function waitLimit(
  what: string,
  options: WaitOptions,
  lifetime?: AbortSignal,
  option: 'maxWaitMs' | 'timeoutMs' = 'maxWaitMs',
  checks: typeof WAIT_OPTIONS = WAIT_OPTIONS,
): WaitLimit {
  checkOptions(options, checks, what, WAIT_HINTS);
  return new WaitLimit(what, options, lifetime, option);
}

/**
 * Repeats a call until a server answers it or `signal` aborts. Use it only for calls that are safe to repeat. Calls
 * `onUnknown` for each attempt whose outcome is unknown, because such an attempt may take effect later.
 *
 * @throws the reason of `signal`, or the error of a failed call if a repetition would fail the same way.
 */
export async function untilAnswered<T>(
  waiting: Waiting,
  call: (options: CallOptions) => Promise<T>,
  onUnknown: () => void = () => {},
  mayRepeat = isTransient,
): Promise<T> {
  const { signal } = waiting;
  const trace = traceIn(waiting);
  const options = internally({ signal }, { trace, retryWrites: false, goesOn: true });
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted();
    try {
      return await call(options);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      if (error.outcome === 'unknown') onUnknown();
      signal.throwIfAborted();
      if (!mayRepeat(error)) throw error;
      // Records the failure here, too, because the channel does not see failures of interceptors and of authentication.
      trace?.failed(error);
      await pause(backoffMs(attempt), signal);
    }
  }
}

/** Like `untilAnswered`, but also repeats the call while the server is out of space. */
export function untilSpace<T>(waiting: Waiting, call: (options: CallOptions) => Promise<T>): Promise<T> {
  return untilAnswered(waiting, call, undefined, (error) => isTransient(error) || error.reason === 'NoSpace');
}

/**
 * Repeats a call until it succeeds or `signal` aborts, no matter which error a server returns. Rejects only if `signal`
 * aborts, if the client itself refuses the call, or with an error of an interceptor that is not an `EtcdError`. Use
 * this function for cleanup. Other contenders may wait for the cleanup, so the call does not wait behind other calls of
 * the client.
 */
export function untilDone<T>(waiting: Waiting, call: (options: CallOptions) => Promise<T>): Promise<T> {
  return untilAnswered(
    waiting,
    (options) => call(internally(options, { urgent: true })),
    undefined,
    (error) => !isRefusedByClient(error),
  );
}

/** Milliseconds that a failed call waits for its cleanup, which then continues in the background. */
export const CLEANUP_WAIT_MS = 1_000;

/** Waits for the cleanup of a failed call, at most `CLEANUP_WAIT_MS`. Returns whether it has ended. Never rejects. */
export function cleanedUp(cleanup: Promise<unknown>): Promise<boolean> {
  return settledWithin(
    CLEANUP_WAIT_MS,
    cleanup.catch(() => {}),
  );
}

/** Milliseconds before an interrupted watch is created again. */
export const REWATCH_MS = 50;

/**
 * Calls `look` once, and again after each event of the kind `event` in the range `keys`, until `look` returns a value.
 * Watches from the current revision, because etcd sends the events for a watch that starts at a past revision only
 * every 100 ms. Calls `look` once more after the watch is created, so that no event before the creation is missed.
 */
export async function watchUntil<T>(
  client: CoreKeyspace,
  { keys, event }: { readonly keys: Keys; readonly event: 'put' | 'delete' },
  waiting: Waiting,
  look: (options: CallOptions) => Promise<T | undefined>,
): Promise<T> {
  (client as Partial<KeyspaceClient>).rpc?.checkOpen();
  const seen = await untilAnswered(waiting, look);
  if (seen !== undefined) return seen;
  for (;;) {
    const watch = client.watch(keys, { ...waiting, only: event });
    const batches = watch.batches();
    try {
      let interrupted = await isInterrupted(watch.created());
      while (!interrupted) {
        const found = await untilAnswered(waiting, look);
        if (found !== undefined) return found;
        interrupted = await isInterrupted(nextBatch(batches));
      }
    } finally {
      await watch.close();
    }
    await pause(REWATCH_MS, waiting.signal);
  }
}

/** @throws EtcdError with reason `ClientClosed` if the watch has ended, because the client or its namespace closes. */
export async function nextBatch<T>(batches: AsyncIterator<T, undefined>): Promise<T> {
  const { done, value } = await batches.next();
  if (done) throw clientClosed();
  return value;
}

async function isInterrupted(step: Promise<unknown>): Promise<boolean> {
  try {
    await step;
    return false;
  } catch (error) {
    if (isWatchInterrupted(error)) return true;
    throw error;
  }
}

/** Whether a new watch may succeed after this error: the events were compacted, or a response was too large. */
export function isWatchInterrupted(error: unknown): boolean {
  return error instanceof EtcdError && (error.reason === 'Compacted' || error.reason === 'ResponseTooLarge');
}
