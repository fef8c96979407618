import { traceCalls, traceOf } from '../channel/call-trace.js';
import { type CallOptions, checkTimeout } from '../channel/rpc.js';
import { amended, canceled, EtcdError, type Outcome, type Reason, timedOut } from '../errors/etcd-error.js';
import { checkOptions, checkSignal } from '../runtime/arguments.js';
import { onAbort } from '../runtime/signals.js';
import { after, backoffMs, pause } from '../runtime/timers.js';

/**
 * How long to wait, and on whose word to stop. A wait that ends without what it waited for rejects with an `EtcdError`:
 * `Canceled` for `signal`, `DeadlineExceeded` for `timeoutMs`, the reason of the session's loss, or `LockLost` where the
 * key that stood for the waiter was deleted by somebody.
 */
export interface WaitOptions {
  /** Ends the wait when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds to wait. Default: for ever. */
  readonly timeoutMs?: number | undefined;
}

export const WAIT_OPTIONS = { signal: true, timeoutMs: true } as const;
const WAIT_HINTS = { ttl: 'a session has a TTL: Session.open(client, { ttl: 10 })' } as const;

/** Everything that may end a wait, as one signal with one reason, an `EtcdError`. */
export interface WaitLimit {
  readonly signal: AbortSignal;
  /** Says what became of the writes of the wait, for its error. Default: by what became of its calls. */
  settle(outcome: Outcome): void;
  end(reason: EtcdError): void;
  /** The error to reject with: that of the end of the wait, where it has ended, and else the one that is given. */
  endedBy(error: unknown): unknown;
  /** Takes back the timer and the listeners. */
  dispose(): void;
}

/**
 * `lifetime`, where there is one, ends the wait for its own reason, such as the loss of the session.
 *
 * @throws EtcdError, reason `InvalidInput`, for options that are not `WaitOptions`.
 */
export function waitLimit(what: string, options: WaitOptions, lifetime?: AbortSignal): WaitLimit {
  checkOptions(options, WAIT_OPTIONS, what, WAIT_HINTS);
  const timeoutMs = checkTimeout(options.timeoutMs ?? Number.POSITIVE_INFINITY, 'timeoutMs');
  const controller = new AbortController();
  const { signal } = options;
  checkSignal(signal);
  const trace = traceCalls(controller.signal, signal);
  let endedFor: 'timeout' | 'signal' | 'other' = 'other';
  const end = (reason: EtcdError, why: typeof endedFor = 'other'): void => {
    if (controller.signal.aborted) return;
    endedFor = why;
    controller.abort(reason);
  };
  const late = (outcome: Outcome): EtcdError =>
    timedOut(what, timeoutMs, outcome, undefined, trace.failure, trace.endpoint);
  const undos = [after(timeoutMs, () => end(late('rejected'), 'timeout'))];
  const endWith = (source: AbortSignal | undefined, action: (source: AbortSignal) => void): void => {
    if (source === undefined) return;
    undos.push(onAbort(source, () => action(source)));
    if (source.aborted) action(source);
  };
  endWith(lifetime, ({ reason }) => end(reason));
  // The reason of an outer wait is that one's to complete.
  endWith(signal, (source) =>
    end(
      canceled(source, 'rejected', undefined, trace.failure),
      source.reason instanceof EtcdError ? 'other' : 'signal',
    ),
  );
  return {
    signal: controller.signal,
    settle: (outcome) => {
      trace.outcome = outcome;
    },
    end,
    endedBy: (error) => {
      if (!controller.signal.aborted) return error;
      const outcome = trace.outcome ?? (trace.reached ? 'rejected' : 'not-sent');
      if (endedFor === 'timeout') return late(outcome);
      const { reason } = controller.signal;
      return endedFor === 'signal' ? amended(reason, { outcome }) : reason;
    },
    dispose: () => {
      for (const undo of undos) undo();
    },
  };
}

/**
 * Repeats a call that may safely be repeated until a server answers it, or `signal` aborts: then its reason is thrown.
 * Whoever calls this owes the proof that repeating is safe. `onUnknown` hears of attempts that may still be processed.
 */
export function untilAnswered<T>(
  signal: AbortSignal,
  call: (options: CallOptions) => Promise<T>,
  onUnknown?: () => void,
): Promise<T> {
  return repeat(signal, call, isTransient, onUnknown);
}

/** The same, and waits where the server has no space: for what is owed whenever it has. */
export function untilSpace<T>(signal: AbortSignal, call: (options: CallOptions) => Promise<T>): Promise<T> {
  return repeat(signal, call, (error) => isTransient(error) || error.reason === 'NoSpace');
}

/** Repeats a call until it is done, whatever servers say to it, or `signal` aborts. For what must not be left undone. */
export function untilDone<T>(signal: AbortSignal, call: (options: CallOptions) => Promise<T>): Promise<T> {
  return repeat(signal, call, ({ reason }) => !IN_VAIN.has(reason));
}

/** No server will ever do what the client itself refuses. */
const IN_VAIN: ReadonlySet<Reason> = new Set(['ClientClosed', 'InvalidInput']);

async function repeat<T>(
  signal: AbortSignal,
  call: (options: CallOptions) => Promise<T>,
  again: (error: EtcdError) => boolean,
  onUnknown: () => void = () => {},
): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted();
    try {
      return await call({ signal });
    } catch (error) {
      if (error instanceof EtcdError && error.outcome === 'unknown') onUnknown();
      signal.throwIfAborted();
      if (!(error instanceof EtcdError) || !again(error)) throw error;
      // Interceptors and the exchange of a password fail above the channel, which notes the other failures.
      const trace = traceOf(signal);
      if (trace !== undefined) Object.assign(trace, { endpoint: undefined, failure: error });
      await pause(backoffMs(attempt), signal);
    }
  }
}

/** Answers that stay the same, though a request may have been processed. */
const FINAL: ReadonlySet<Reason> = new Set(['MalformedMessage', 'NoSpace']);

function isTransient({ code, outcome, reason }: EtcdError): boolean {
  if (IN_VAIN.has(reason) || FINAL.has(reason)) return false;
  if (reason === 'RequestTooManyRequests' || reason === 'ProposalDropped') return true;
  return code === 'Unavailable' || code === 'DeadlineExceeded' || outcome === 'unknown';
}
