/** setTimeout takes no longer delay (2^31 - 1 ms, some 25 days) and fires at once instead. */
const MAX_DELAY_MS = 2 ** 31 - 1;

const BACKOFF_BASE_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** Milliseconds on a clock that never jumps. Its zero means nothing. */
export function monotonicMs(): number {
  return performance.now();
}

/** Runs `action` after `delayMs`, of any length; the function returned calls it off. */
export function after(delayMs: number, action: () => void): () => void {
  let rest = Math.max(0, delayMs);
  let timer: ReturnType<typeof setTimeout>;
  const arm = (): void => {
    const step = Math.min(rest, MAX_DELAY_MS);
    rest -= step;
    timer = setTimeout(rest > 0 ? arm : action, step);
  };
  if (delayMs === Number.POSITIVE_INFINITY) return () => {};
  arm();
  return () => clearTimeout(timer);
}

/** Resolves after `delayMs`, or at once when `signal` aborts: the caller looks at the signal anyway. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = (): void => {
      stop();
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const stop = after(delayMs, finish);
    signal?.addEventListener('abort', finish);
  });
}

/** Exponential backoff from 50 ms to 2 s with full jitter; `attempt` counts from 0. */
export function backoffMs(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** attempt);
}
