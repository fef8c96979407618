/**
 * The globals of the runtime whose results cannot be predicted: clocks, timers and random numbers. All code in `src/`
 * uses these globals through `environment`, so that a simulation can replace them. `npm run check:rooms` checks this
 * rule.
 */
export interface Environment {
  readonly performance: { now(): number };
  readonly Date: { now(): number };
  /** The boot clock: milliseconds since the machine started. Default: `bootMs` of the host (src/host/). */
  readonly bootMs?: () => number;
  readonly Math: { random(): number };
  readonly crypto: { getRandomValues(numbers: BigUint64Array): BigUint64Array };
  setTimeout(action: () => void, delayMs: number): unknown;
  clearTimeout(timer: unknown): void;
  /** Only Node.js and compatible runtimes have this global, so only code for these runtimes may use it. */
  setImmediate(action: () => void): unknown;
}

/** The globals of the runtime, unless `replaceEnvironment` has replaced them. */
export let environment: Environment = globalThis as unknown as Environment;

/** Replaces the environment for all code in this process. Returns a function that restores the previous environment. */
export function replaceEnvironment(replacement: Environment): () => void {
  const previous = environment;
  environment = replacement;
  return () => {
    environment = previous;
  };
}
