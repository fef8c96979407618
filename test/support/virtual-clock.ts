import { replaceEnvironment } from '../../src/base/environment.js';

interface Timer {
  readonly due: number;
  readonly action: () => void;
}

/**
 * Replaces the clocks, the timers and the random numbers of `src/` during a test. Time passes only when the test calls
 * `pass` or `block`. A counter supplies the random bits.
 */
export class VirtualClock {
  /** Makes `src/` use the clocks, timers and random numbers of the runtime again. */
  readonly restore: () => void;
  /** The value of every random number. */
  randomNumber = 0.5;
  /** The difference between the system's clock, which can jump, and the monotonic clock. */
  wallOffsetMs = 1_700_000_000_000;
  readonly #timers = new Map<number, Timer>();
  #lastTimer = 0;
  #now = 1_000;
  #bits = 0n;

  /** Replaces the environment until `restore` is called. */
  constructor() {
    this.restore = replaceEnvironment({
      performance: { now: () => this.#now },
      Date: { now: () => this.#now + this.wallOffsetMs },
      bootMs: () => this.#now,
      Math: { random: () => this.randomNumber },
      crypto: { getRandomValues: (numbers) => numbers.fill(++this.#bits) },
      setTimeout: (action, delayMs) => {
        this.#timers.set(++this.#lastTimer, { due: this.#now + delayMs, action });
        return this.#lastTimer;
      },
      clearTimeout: (timer) => void this.#timers.delete(timer as number),
      setImmediate: (action) => setImmediate(action),
    });
  }

  get now(): number {
    return this.#now;
  }

  /** The number of pending timers. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Advances the clock without running timers, as if the event loop were blocked. */
  block(ms: number): void {
    this.#now += ms;
  }

  /** Advances the clock. Runs each timer when it is due, and after each timer all pending promise callbacks. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await turn();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      const [timer, { due, action }] = next;
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, due);
      action();
      await turn();
    }
    this.#now = end;
  }

  /** Returns the earliest timer that is due by `end`, with its ID. */
  #next(end: number): [number, Timer] | undefined {
    let first: [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].due <= end && (first === undefined || entry[1].due < first[1].due)) first = entry;
    }
    return first;
  }
}

/** Resolves after all pending promise callbacks have run. */
function turn(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
