import { onAbort } from './signals.js';

/** setTimeout takes no longer delay (2^31 - 1 ms, some 25 days) and fires at once instead. */
const MAX_DELAY_MS = 2 ** 31 - 1;

const BACKOFF_BASE_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** Milliseconds on a clock that never jumps. Its zero means nothing. */
export function monotonicMs(): number {
  return performance.now();
}

/**
 * Runs `action` after `delayMs`, of any length; the function returned calls it off. Never early by `monotonicMs`:
 * timers count whole milliseconds on a clock of their own, and may be ahead of it. A timer in the background keeps no
 * process alive, where the host can tell.
 */
export function after(delayMs: number, action: () => void, place?: 'background'): () => void {
  if (delayMs === Number.POSITIVE_INFINITY) return () => {};
  const due = monotonicMs() + delayMs;
  let timer: ReturnType<typeof setTimeout>;
  const arm = (): void => {
    timer = setTimeout(look, Math.min(Math.max(0, Math.ceil(due - monotonicMs())), MAX_DELAY_MS));
    if (place === 'background') (timer as { unref?(): void }).unref?.();
  };
  const look = (): void => {
    if (monotonicMs() < due) arm();
    else action();
  };
  arm();
  return () => clearTimeout(timer);
}

/** Resolves after `delayMs`, or at once when a signal aborts: the caller looks at the signals anyway. */
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

/** Waits for what never rejects, but no longer than that; tells whether it came to its end. */
export async function settledWithin(timeoutMs: number, settling: Promise<unknown>): Promise<boolean> {
  let stopTimer = (): void => {};
  const timeout = new Promise<boolean>((resolve) => {
    stopTimer = after(timeoutMs, () => resolve(false));
  });
  return Promise.race([settling.then(() => true), timeout]).finally(stopTimer);
}

/** Exponential backoff from 50 ms to 2 s with full jitter; `attempt` counts from 0. */
export function backoffMs(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** attempt);
}
