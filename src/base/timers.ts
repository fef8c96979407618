import type { SignalOption } from './arguments.js';
import { environment } from './environment.js';
import { onAbort } from './signals.js';

/** Maximum delay of `setTimeout` in milliseconds: about 25 days. With a longer delay, `setTimeout` fires at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

const BACKOFF_BASE_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** Returns the time in milliseconds on the monotonic clock, which never jumps. The zero point is arbitrary. */
export function monotonicMs(): number {
  return environment.performance.now();
}

/**
 * Runs `action` at the time `dueMs` of `monotonicMs`, or soon after that time, but never earlier. `setTimeout` alone
 * may fire early, because it counts whole milliseconds on another clock. `dueMs` may be later than `setTimeout` allows;
 * with Infinity, the action never runs. Returns a function that cancels the timer. With `place` set to `background`,
 * the timer does not keep the process alive, if the runtime supports such timers.
 */
export function at(dueMs: number, action: () => void, place?: 'background'): () => void {
  if (dueMs === Number.POSITIVE_INFINITY) return () => {};
  let timer: unknown;
  const arm = (): void => {
    timer = environment.setTimeout(fire, Math.min(Math.max(0, Math.ceil(dueMs - monotonicMs())), MAX_DELAY_MS));
    if (place === 'background') (timer as { unref?(): void }).unref?.();
  };
  const fire = (): void => {
    if (monotonicMs() < dueMs) arm();
    else action();
  };
  arm();
  return () => environment.clearTimeout(timer);
}

/** Like `at`, but runs `action` after `delayMs`. */
export function after(delayMs: number, action: () => void, place?: 'background'): () => void {
  return at(monotonicMs() + delayMs, action, place);
}

/** Resolves after the event loop has handled the pending input and output. Needs `setImmediate` of Node.js. */
export function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => void environment.setImmediate(resolve));
}

/** Resolves after `delayMs`, or at once when a signal aborts. Never rejects, so the caller must check the signals. */
export function pause(delayMs: number, ...signals: readonly SignalOption[]): Promise<void> {
  return pauseUntil(monotonicMs() + delayMs, ...signals);
}

/**
 * Resolves at the time `dueMs` of `monotonicMs`, or at once when a signal aborts. Use this function instead of `pause`
 * for a deadline: if the process is suspended after the program has computed a delay, `pause` resolves too late.
 */
export function pauseUntil(dueMs: number, ...signals: readonly SignalOption[]): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      for (const undo of undos) undo();
      resolve();
    };
    const undos = [at(dueMs, finish), ...signals.map((signal) => onAbort(signal, finish))];
    if (signals.some((signal) => signal?.aborted)) finish();
  });
}

/** Waits at most `timeoutMs` for a promise that never rejects. Returns whether the promise resolved in time. */
export function settledWithin(timeoutMs: number, settling: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const stopTimer = after(timeoutMs, () => resolve(false));
    void settling.then(() => {
      stopTimer();
      resolve(true);
    });
  });
}

/**
 * Waits for the promise, but at most `timeoutMs` after the signal has aborted. Resolves with the result of the promise,
 * or with undefined if that time has passed.
 */
export async function untilSoonAfter<T>(
  signal: AbortSignal,
  timeoutMs: number,
  promise: Promise<T>,
): Promise<T | undefined> {
  const undos: (() => void)[] = [];
  const late = new Promise<undefined>((resolve) => {
    const start = (): void => void undos.push(after(timeoutMs, () => resolve(undefined)));
    undos.push(onAbort(signal, start));
    if (signal.aborted) start();
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    for (const undo of undos) undo();
  }
}

/** Returns a delay that begins with `baseMs` and doubles with each step, up to `maxMs`. `step` counts from 0. */
export function doublingMs(baseMs: number, maxMs: number, step: number): number {
  return Math.min(maxMs, baseMs * 2 ** step);
}

/** Returns a random delay up to a limit that grows from 50 ms to 2 s (full jitter). `attempt` counts from 0. */
export function backoffMs(attempt: number): number {
  return environment.Math.random() * doublingMs(BACKOFF_BASE_MS, BACKOFF_MAX_MS, attempt);
}
