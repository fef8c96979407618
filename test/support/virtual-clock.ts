interface Timer {
  readonly due: number;
  readonly action: () => void;
}

/**
 * Replaces `performance.now`, `setTimeout`, `clearTimeout` and `Math.random` during a test. Time passes only when the
 * test calls `pass` or `block`. Every random number is 0.5.
 */
export class VirtualClock {
  readonly #real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  readonly #random = Math.random;
  readonly #timers = new Map<number, Timer>();
  #lastTimer = 0;
  #now = 1_000;

  /** Replaces the globals until `restore` is called. */
  constructor() {
    const set = (action: () => void, delayMs = 0): number => {
      this.#timers.set(++this.#lastTimer, { due: this.#now + delayMs, action });
      return this.#lastTimer;
    };
    const clear = (timer: number): void => void this.#timers.delete(timer);
    Object.assign(globalThis, { setTimeout: set, clearTimeout: clear });
    performance.now = () => this.#now;
    Math.random = () => 0.5;
  }

  restore(): void {
    Object.assign(globalThis, this.#real);
    Math.random = this.#random;
    // Deleting the replacement makes the prototype's `performance.now` visible again.
    Reflect.deleteProperty(performance, 'now');
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
