import { onAbort } from './signals.js';

/** Maximum delay of `setTimeout` in milliseconds: about 25 days. With a longer delay, `setTimeout` fires at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

const BACKOFF_BASE_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** Returns the time in milliseconds on the monotonic clock, which never jumps. The zero point is arbitrary. */
export function monotonicMs(): number {
  return performance.now();
}

/**
 * Runs `action` after `delayMs`, which may be longer than `setTimeout` allows. Returns a function that cancels the
 * timer. On the clock of `monotonicMs`, the action never runs early. `setTimeout` alone may fire early, because it
 * counts whole milliseconds on another clock. With `place` set to `background`, the timer does not keep the process
 * alive, if the runtime supports such timers.
 */
export function after(delayMs: number, action: () => void, place?: 'background'): () => void {
  if (delayMs === Number.POSITIVE_INFINITY) return () => {};
  const due = monotonicMs() + delayMs;
  let timer: ReturnType<typeof setTimeout>;
  const arm = (): void => {
    timer = setTimeout(fire, Math.min(Math.max(0, Math.ceil(due - monotonicMs())), MAX_DELAY_MS));
    if (place === 'background') (timer as { unref?(): void }).unref?.();
  };
  const fire = (): void => {
    if (monotonicMs() < due) arm();
    else action();
  };
  arm();
  return () => clearTimeout(timer);
}

/** Resolves after `delayMs`, or at once when a signal aborts. The caller checks the signals itself. */
export function pause(delayMs: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      for (const undo of undos) undo();
      resolve();
    };
    const undos = [
      after(delayMs, finish),
      ...signals.map((signal) => (signal === undefined ? () => {} : onAbort(signal, finish))),
    ];
    if (signals.some((signal) => signal?.aborted)) finish();
  });
}

/** Waits at most `timeoutMs` for a promise that never rejects. Returns whether the promise resolved in time. */
export async function settledWithin(timeoutMs: number, settling: Promise<unknown>): Promise<boolean> {
  let stopTimer = (): void => {};
  const timeout = new Promise<boolean>((resolve) => {
    stopTimer = after(timeoutMs, () => resolve(false));
  });
  return Promise.race([settling.then(() => true), timeout]).finally(stopTimer);
}

/**
 * Returns the delay before the next attempt: a random time up to an exponential limit, which grows from 50 ms to 2 s
 * (full jitter). `attempt` counts from 0.
 */
export function backoffMs(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** attempt);
}
