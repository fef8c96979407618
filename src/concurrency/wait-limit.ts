import { type CallOptions, checkTimeout } from '../channel/rpc.js';
import { canceled, EtcdError, timedOut } from '../errors.js';
import { after, backoffMs, pause } from '../time.js';

/** How long to wait, and on whose word to stop. */
export interface WaitOptions {
  /** Ends the wait when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds to wait. Default: for ever. */
  readonly timeoutMs?: number | undefined;
}

/** Everything that may end a wait, as one signal with one reason, an `EtcdError`. */
export interface WaitLimit {
  readonly signal: AbortSignal;
  end(reason: EtcdError): void;
  /** Takes back the timer and the listeners. */
  dispose(): void;
}

/** `lifetime` ends the wait for its own reason, such as the loss of the session. */
export function waitLimit(what: string, lifetime: AbortSignal, options: WaitOptions): WaitLimit {
  const timeoutMs = checkTimeout(options.timeoutMs ?? Number.POSITIVE_INFINITY, 'timeoutMs');
  const controller = new AbortController();
  const { signal } = options;
  const end = (reason: EtcdError): void => controller.abort(reason);
  const onLifetime = (): void => end(lifetime.reason);
  const onSignal = (): void => end(canceled(signal as AbortSignal, 'rejected'));
  const stopTimer = after(timeoutMs, () => end(timedOut(what, timeoutMs, 'rejected')));
  lifetime.addEventListener('abort', onLifetime);
  signal?.addEventListener('abort', onSignal);
  if (lifetime.aborted) onLifetime();
  if (signal?.aborted) onSignal();
  return {
    signal: controller.signal,
    end,
    dispose: () => {
      stopTimer();
      lifetime.removeEventListener('abort', onLifetime);
      signal?.removeEventListener('abort', onSignal);
    },
  };
}

/**
 * Repeats a call that may safely be repeated until a server answers it, or `signal` aborts: then its reason is thrown.
 * Whoever calls this owes the proof that repeating is safe.
 */
export async function untilAnswered<T>(signal: AbortSignal, call: (options: CallOptions) => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted();
    try {
      return await call({ signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof EtcdError) || !isTransient(error)) throw error;
      await pause(backoffMs(attempt), signal);
    }
  }
}

function isTransient({ code, outcome, reason }: EtcdError): boolean {
  if (reason === 'ClientClosed' || reason === 'InvalidInput') return false;
  return code === 'Unavailable' || code === 'DeadlineExceeded' || (outcome === 'unknown' && code !== 'Internal');
}
