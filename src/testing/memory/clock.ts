import { after, checkCan, checkFunction, invalidInput, monotonicMs, show } from '../../base/index.js';

/** The time of a `MemoryEtcd`. */
export interface Clock {
  /** Returns the time in milliseconds. It never goes back. The zero point is arbitrary. */
  now(): number;
  /** Runs `action` after `delayMs`. Returns a function that cancels the timer. */
  after(delayMs: number, action: () => void): () => void;
}

/** A clock that shows the real time. Its timers do not keep the process alive. */
export const realTime: Clock = { now: monotonicMs, after: (delayMs, action) => after(delayMs, action, 'background') };

/** @throws EtcdError with reason `InvalidInput` if the value does not have the methods of a clock. */
export function checkClock(clock: Clock, argument = 'clock'): Clock {
  checkCan(clock, 'now', argument, 'a Clock, such as new ManualClock()');
  return checkCan(clock, 'after', argument, 'a Clock, such as new ManualClock()');
}

interface Timer {
  readonly due: number;
  readonly action: () => void;
}

/**
 * A clock that stands still until the test moves it.
 *
 * @example
 * const clock = new ManualClock();
 * const server = new MemoryEtcd({ clock });
 * clock.advance(10_000); // All leases with a TTL of up to 10 s expire now.
 */
export class ManualClock implements Clock {
  #now = 0;
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#now;
  }

  after(delayMs: number, action: () => void): () => void {
    checkDelay(delayMs, 'delayMs');
    checkFunction(action, 'action');
    const timer = { due: this.#now + Math.max(0, delayMs), action };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /**
   * Moves the clock forward by `ms`, and runs the timers that become due, in the order of their times.
   *
   * @throws EtcdError with reason `InvalidInput` if `ms` is not a finite number, or is below 0.
   */
  advance(ms: number): void {
    if (checkDelay(ms, 'ms') < 0) throw invalidInput('ms', show(ms), 'a number of milliseconds, 0 or more');
    const end = this.#now + ms;
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, timer.due);
      timer.action();
    }
    // The action of a timer may have moved the clock further.
    this.#now = Math.max(this.#now, end);
  }

  /** Returns the first timer that is due by `end`. */
  #next(end: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers)
      if (timer.due <= end && (first === undefined || timer.due < first.due)) first = timer;
    return first;
  }
}

/** Checks a delay. A timer whose delay is negative is due at once, as with `setTimeout`. */
function checkDelay(ms: number, argument: string): number {
  if (typeof ms === 'number' && Number.isFinite(ms)) return ms;
  throw invalidInput(argument, show(ms), 'a number of milliseconds');
}
