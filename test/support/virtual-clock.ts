interface Timer {
  readonly due: number;
  readonly action: () => void;
}

/** The clock and the timers of a test in which time passes when the test says so, and nothing is left to chance. */
export class VirtualClock {
  readonly #real = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
  readonly #random = Math.random;
  readonly #timers = new Map<number, Timer>();
  #lastTimer = 0;
  #now = 1_000;

  /** Until `restore`. */
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
    // The one of its prototype comes back.
    Reflect.deleteProperty(performance, 'now');
  }

  get now(): number {
    return this.#now;
  }

  /** Timers that are set. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Time passes, and nothing runs: the event loop is blocked. */
  block(ms: number): void {
    this.#now += ms;
  }

  /** Time passes, and what is due runs, each timer in its time, with all that follows from it. */
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

  /** The timer that is due first, if it is due by then. */
  #next(end: number): [number, Timer] | undefined {
    let first: [number, Timer] | undefined;
    for (const entry of this.#timers) {
      if (entry[1].due <= end && (first === undefined || entry[1].due < first[1].due)) first = entry;
    }
    return first;
  }
}

/** Resolves when no promise is left whose turn it would be. */
function turn(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
