import type { SignalOption } from './arguments.js';
import { environment } from './environment.js';
import { onAbort } from './signals.js';

/** Maximum delay of `setTimeout` in milliseconds: about 25 days. With a longer delay, `setTimeout` fires at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

const BACKOFF_BASE_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** Maximum number of items of `Deadlines` that expire in one turn of the event loop, so that other timers can run. */
const EXPIRED_IN_A_TURN = 1_000;

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

/** An item of `Deadlines`, such as a call that expires at its deadline. */
export interface Expiring {
  /** Index in the heap of `Deadlines`, or -1 outside the heap. Only `Deadlines` writes it. */
  slot: number;
  /** When the item expires, in milliseconds on the monotonic clock. Must not change while the item is in the heap. */
  readonly deadline: number;
  /** Called when the deadline has passed, after `Deadlines` has removed the item. */
  expire(): void;
}

/**
 * The deadlines of many items, such as the calls under way, with one timer for all of them. Tens of thousands of calls
 * start and end each second, and few of them expire. A binary heap by deadline keeps the cost of each call logarithmic.
 * Up to 1,000 due items expire in one turn of the event loop.
 *
 * The heap is an array rather than a Set or a Map. When a hash table of V8 grows or shrinks, the old table keeps a
 * reference to the new table. Once one such discarded table is in the old generation, each minor garbage collection
 * treats all later tables in this chain as alive.
 */
export class Deadlines<T extends Expiring> {
  /** The item at `index` expires no later than the items at `2 * index + 1` and `2 * index + 2`. */
  readonly #heap: T[] = [];
  /** When the timer fires. The item for which the timer was set may be deleted before then. */
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};
  readonly #place: 'background' | undefined;

  /** If `place` is `background`, the timer does not keep the process alive. */
  constructor(place?: 'background') {
    this.#place = place;
  }

  /** All items, in no particular order. */
  all(): readonly T[] {
    return [...this.#heap];
  }

  add(item: T): void {
    this.#heap.push(item);
    this.#moveUp(item, this.#heap.length - 1);
    if (item.deadline < this.#due) this.#arm(item.deadline);
  }

  /** Removes the item. Does nothing if the item is not in the heap. */
  delete(item: T): void {
    const { slot } = item;
    if (slot < 0) return;
    item.slot = -1;
    const last = this.#heap.pop() as T;
    // Without items, the timer must not keep the process alive. A timer in the background may fire without a due item,
    // because stopping this timer for each of many short calls would cost more.
    if (this.#heap.length === 0 && this.#place === undefined) this.stop();
    if (last === item) return;
    if (last.deadline < item.deadline) this.#moveUp(last, slot);
    else this.#moveDown(last, slot);
  }

  stop(): void {
    this.#stopTimer();
    this.#due = Number.POSITIVE_INFINITY;
  }

  #arm(due: number): void {
    this.#stopTimer();
    this.#due = due;
    this.#stopTimer = at(due, () => this.#expire(), this.#place);
  }

  #expire(): void {
    const now = monotonicMs();
    this.#due = Number.POSITIVE_INFINITY;
    let expired = 0;
    try {
      for (let [first] = this.#heap; first !== undefined && first.deadline <= now; [first] = this.#heap) {
        if (expired === EXPIRED_IN_A_TURN) break;
        expired += 1;
        this.delete(first);
        first.expire();
      }
    } finally {
      const [next] = this.#heap;
      if (next !== undefined && next.deadline < this.#due) this.#arm(next.deadline);
    }
  }

  /** Puts the item at the index, or at the index of an ancestor, so that no parent expires later than its children. */
  #moveUp(item: T, index: number): void {
    let at = index;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = this.#heap[above] as T;
      if (parent.deadline <= item.deadline) break;
      this.#put(parent, at);
      at = above;
    }
    this.#put(item, at);
  }

  /** Puts the item at the index, or at the index of a descendant, so that no parent expires later than its children. */
  #moveDown(item: T, index: number): void {
    const { length } = this.#heap;
    let at = index;
    for (let below = 2 * at + 1; below < length; below = 2 * at + 1) {
      const right = this.#heap[below + 1];
      if (right !== undefined && right.deadline < (this.#heap[below] as T).deadline) below += 1;
      const child = this.#heap[below] as T;
      if (child.deadline >= item.deadline) break;
      this.#put(child, at);
      at = below;
    }
    this.#put(item, at);
  }

  #put(item: T, at: number): void {
    this.#heap[at] = item;
    item.slot = at;
  }
}
