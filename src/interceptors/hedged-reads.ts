import * as kvMethods from '../gen/methods/kv.js';
import { checkFunction, checkGivenOptions, checkMs } from '../runtime/arguments.js';
import { environment } from '../runtime/environment.js';
import { onAbort } from '../runtime/signals.js';
import { after } from '../runtime/timers.js';
import { type AttemptObserver, bothObservers, type UnaryCall } from '../transport/transport.js';
import type { Interceptor } from './interceptors.js';

/** Options of `hedgedReads`. */
export interface HedgedReadsOptions {
  /** Returns the endpoints of the client. The interceptor calls this function only after the client was created. */
  readonly endpoints: () => readonly string[];
  /**
   * The time in milliseconds after which the interceptor asks another member. Choose a time that few reads exceed, such
   * as the 99th percentile of your reads. Default 50.
   */
  readonly delayMs?: number | undefined;
}

const HEDGED_READS_OPTIONS = { endpoints: checkFunction, delayMs: checkMs } as const;
const DEFAULT_DELAY_MS = 50;
/** Maximum number of tokens. A call to a second member takes a token, and gives the token back if it answers first. */
const MAX_TOKENS = 50;
/** Number of tokens that each read adds, up to `MAX_TOKENS`. */
const TOKENS_PER_READ = 0.1;

/**
 * Returns an interceptor that asks a second member if a read has no answer after `delayMs`. The first answer wins, and
 * the other call is canceled. So a member that is paused or slow delays a read only for a short time. If the second
 * member refuses the read, the first call continues. When all members are slow or fail, second calls do not help. After
 * 50 second calls that did not answer first, the interceptor makes second calls for at most a tenth of the reads.
 *
 * The interceptor handles all range requests, such as those of `get`, `range` and `scan` in pages, unless the call
 * names its `endpoint`. A linearizable read needs the leader, so no other member can answer it while the leader is
 * paused. A serializable read may see the data of another member, which may be older. The option `orderedReads` of the
 * client prevents this.
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
  const { endpoints, delayMs = DEFAULT_DELAY_MS } = options;
  checkFunction(endpoints, 'endpoints');
  const budget = { tokens: MAX_TOKENS };
  return {
    unary: (call, next) => {
      if (call.method.path !== kvMethods.range.path || call.endpoint !== undefined) return next(call);
      return hedged(call, next, endpoints, delayMs, budget);
    },
  };
}

function hedged<Request, Response>(
  call: UnaryCall<Request, Response>,
  next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  endpoints: () => readonly string[],
  delayMs: number,
  budget: { tokens: number },
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const stops = new Set<AbortController>();
    let tried: string | undefined;
    const settleCall = (action: () => void): void => {
      stopTimer();
      offAbort();
      for (const stop of stops) stop.abort();
      action();
    };
    const startAttempt = (
      given: UnaryCall<Request, Response>,
      won: () => void,
      failed: (error: unknown) => void,
    ): void => {
      const stop = new AbortController();
      stops.add(stop);
      next({ ...given, signal: stop.signal }).then(
        (response) => {
          stops.delete(stop);
          settleCall(() => resolve(response));
          won();
        },
        (error: unknown) => {
          if (stops.delete(stop)) failed(error);
        },
      );
    };
    // The caller's signal aborts the calls with its own reason, so that their error contains this reason.
    const abort = (): void => {
      for (const stop of stops) stop.abort(call.signal?.reason);
    };
    const offAbort = onAbort(call.signal, abort);
    budget.tokens = Math.min(MAX_TOKENS, budget.tokens + TOKENS_PER_READ);
    const stopTimer = after(delayMs, () => {
      const other = tried === undefined ? undefined : anotherOf(endpoints, tried);
      if (other === undefined || budget.tokens < 1) return;
      // A second call that answers first gives its token back.
      budget.tokens -= 1;
      const { observer } = call;
      // The observer receives the events of the second call, but not its attempts.
      const second: AttemptObserver = {
        sent: () => observer?.sent?.(),
        failed: (error) => observer?.failed?.(error),
        retry: (error) => observer?.retry?.(error),
        answered: () => observer?.answered?.(),
      };
      // If the second call fails, the first call continues.
      startAttempt(
        { ...call, endpoint: other, observer: second },
        () => {
          budget.tokens += 1;
        },
        () => {},
      );
    });
    const attempt = (endpoint: string): void => {
      tried = endpoint;
    };
    // If the first call fails, do not wait for the second call: the first call could use all members, while the second
    // call may wait for its one member until the deadline.
    const firstFailed = (error: unknown): void => settleCall(() => reject(error));
    startAttempt({ ...call, observer: bothObservers({ attempt }, call.observer) }, () => {}, firstFailed);
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
