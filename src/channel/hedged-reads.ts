import * as kvMethods from '../gen/methods/kv.js';
import { checkFunction, checkGivenOptions, checkMs } from '../runtime/arguments.js';
import { environment } from '../runtime/environment.js';
import { onAbort } from '../runtime/signals.js';
import { after, monotonicMs } from '../runtime/timers.js';
import type { UnaryCall } from '../transport/transport.js';
import { traceCalls, traceOf } from './attempts.js';
import type { Interceptor } from './interceptors.js';

/** Options of `hedgedReads`. */
export interface HedgedReadsOptions {
  /** Returns the endpoints of the client. The interceptor calls it only after the client was created. */
  readonly endpoints: () => readonly string[];
  /** The least time in milliseconds before another member is asked. Default 5. */
  readonly minDelayMs?: number | undefined;
  /**
   * The longest time in milliseconds before another member is asked, also the time until the interceptor has seen some
   * reads. Default 500.
   */
  readonly maxDelayMs?: number | undefined;
}

const HEDGED_READS_OPTIONS = { endpoints: checkFunction, minDelayMs: checkMs, maxDelayMs: checkMs } as const;
const DEFAULT_MIN_DELAY_MS = 5;
const DEFAULT_MAX_DELAY_MS = 500;
/** How many of the latest durations determine the delay. */
const REMEMBERED = 256;
/** After how many reads the delay is calculated again. */
const RECALCULATED = 32;
const QUANTILE = 0.99;
/** How many second calls may be of no use before the interceptor makes no more of them for a while. */
const MAX_TOKENS = 50;
/** How many second calls of no use each read allows. */
const TOKENS_PER_READ = 0.1;

/**
 * Returns an interceptor that asks a second member if a read is slower than 99 % of the recent reads. The first answer
 * wins, and the other call is canceled. So a member that is paused or slow delays a read only for a short time, and one
 * read in a hundred costs two calls. If the second member refuses the read, the first call continues. When all members
 * are slow or fail, second calls do not help. The interceptor then makes one for at most a tenth of the reads, after 50
 * at first.
 *
 * The interceptor concerns `get`, `range` and `scan` in pages, unless the call names its `endpoint`. A linearizable read
 * needs the leader, so no other member can answer it while the leader is paused. Serializable reads may see the data of
 * another member, which may be older; use `orderedReads` against that.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is invalid.
 *
 * @example
 * const endpoints = ['http://127.0.0.1:2379'];
 * const etcd: Client = new Client({ endpoints, interceptors: [hedgedReads({ endpoints: () => etcd.endpoints })] });
 * console.log((await etcd.get('config/color'))?.text());
 */
export function hedgedReads(options: HedgedReadsOptions): Interceptor {
  checkGivenOptions(options, HEDGED_READS_OPTIONS, 'hedgedReads');
  const { endpoints, minDelayMs = DEFAULT_MIN_DELAY_MS, maxDelayMs = DEFAULT_MAX_DELAY_MS } = options;
  checkFunction(endpoints, 'endpoints');
  const pace = new Pace(minDelayMs, maxDelayMs);
  return {
    unary: (call, next) => {
      if (call.method.path !== kvMethods.range.path || call.endpoint !== undefined) return next(call);
      return hedged(call, next, endpoints, pace);
    },
  };
}

/** Decides when to ask a second member, from the latest reads. */
class Pace {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #latest: number[] = [];
  #count = 0;
  #delayMs: number;
  #tokens = MAX_TOKENS;

  constructor(minMs: number, maxMs: number) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#delayMs = maxMs;
  }

  /** Milliseconds after which a read counts as slow. */
  get delayMs(): number {
    return this.#delayMs;
  }

  /** Called for each read. */
  begins(): void {
    this.#tokens = Math.min(MAX_TOKENS, this.#tokens + TOKENS_PER_READ);
  }

  /** Returns whether a second member may be asked now, and counts that as of no use until it has answered first. */
  mayAskSecond(): boolean {
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** The first member has answered. */
  firstWon(durationMs: number): void {
    this.#add(durationMs);
  }

  /**
   * The second member has answered. The duration of the first call is not known. The present delay stands for it, so that
   * the reads of a paused member do not change the delay.
   */
  secondWon(): void {
    this.#tokens += 1;
    this.#add(this.#delayMs);
  }

  #add(durationMs: number): void {
    this.#latest[this.#count % REMEMBERED] = durationMs;
    this.#count += 1;
    if (this.#count % RECALCULATED > 0) return;
    const sorted = this.#latest.toSorted((a, b) => a - b);
    const slow = sorted[Math.floor(QUANTILE * (sorted.length - 1))] as number;
    this.#delayMs = Math.min(this.#maxMs, Math.max(this.#minMs, slow));
  }
}

function hedged<Request, Response>(
  call: UnaryCall<Request, Response>,
  next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  endpoints: () => readonly string[],
  pace: Pace,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const startedAt = monotonicMs();
    const stops = new Set<AbortController>();
    let tried: string | undefined;
    const settle = (action: () => void): void => {
      stopTimer();
      offAbort();
      for (const stop of stops) stop.abort();
      action();
    };
    const start = (given: UnaryCall<Request, Response>, won: () => void, failed: (error: unknown) => void): void => {
      const stop = new AbortController();
      if (traceOf(call.signal) !== undefined) traceCalls(stop.signal, call.signal);
      stops.add(stop);
      next({ ...given, signal: stop.signal }).then(
        (response) => {
          stops.delete(stop);
          settle(() => resolve(response));
          won();
        },
        (error: unknown) => {
          if (stops.delete(stop)) failed(error);
        },
      );
    };
    // The caller's signal aborts the attempts with its own reason, so that their error names it.
    const abort = (): void => {
      for (const stop of stops) stop.abort(call.signal?.reason);
    };
    const offAbort = onAbort(call.signal, abort);
    pace.begins();
    const stopTimer = after(pace.delayMs, () => {
      const other = tried === undefined ? undefined : anotherOf(endpoints, tried);
      if (other === undefined || !pace.mayAskSecond()) return;
      const { onAttempt: _, ...second } = call;
      // If the second call fails, the first call continues.
      start(
        { ...second, endpoint: other },
        () => pace.secondWon(),
        () => {},
      );
    });
    const onAttempt = (endpoint: string): void => {
      tried = endpoint;
      call.onAttempt?.(endpoint);
    };
    // The first call has tried all members. The second call names one member, and would wait for it until the deadline.
    const firstFailed = (error: unknown): void => settle(() => reject(error));
    start({ ...call, onAttempt }, () => pace.firstWon(monotonicMs() - startedAt), firstFailed);
    if (call.signal?.aborted) abort();
  });
}

/** Returns a random endpoint other than `tried`. Undefined if there is none, or if the caller's function throws. */
function anotherOf(endpoints: () => readonly string[], tried: string): string | undefined {
  try {
    const others = endpoints().filter((url) => url !== tried);
    return others[Math.floor(environment.Math.random() * others.length)];
  } catch {
    return undefined;
  }
}
