/** Number of counters for each doubling of the time. */
const STEPS_PER_DOUBLING = 8;
/** Exponents of 2 of the limits of the first and the last counter in milliseconds: 16 µs and 4.7 h. */
const MIN_EXPONENT = -6;
const MAX_EXPONENT = 24;
const COUNTERS = (MAX_EXPONENT - MIN_EXPONENT) * STEPS_PER_DOUBLING + 2;

/**
 * Counts times in milliseconds in about 2 kB, however many times there are. The counters divide the time line at powers
 * of 2^(1/8), which is 1.09. The last counter is for all times above 2^24 ms.
 */
export class LatencyHistogram {
  readonly #counters = new Float64Array(COUNTERS);
  count = 0;
  sumMs = 0;
  maxMs = 0;

  add(ms: number): void {
    this.count += 1;
    this.sumMs += ms;
    this.maxMs = Math.max(this.maxMs, ms);
    const index = Math.ceil((Math.log2(ms) - MIN_EXPONENT) * STEPS_PER_DOUBLING);
    const counter = Math.min(Math.max(index, 0), COUNTERS - 1);
    this.#counters[counter] = (this.#counters[counter] as number) + 1;
  }

  /**
   * Returns a time that differs by at most 4.5 % from the time that `fraction` of the times do not exceed (nearest
   * rank). The difference may be larger below 16 µs and above 4.7 h. Returns undefined if no time was added.
   */
  quantileMs(fraction: number): number | undefined {
    if (this.count === 0) return undefined;
    const rank = Math.max(1, Math.ceil(fraction * this.count));
    let [index, sum] = [0, this.#counters[0] as number];
    while (sum < rank) {
      index += 1;
      sum += this.#counters[index] as number;
    }
    // The geometric mean of the limits of the counter.
    const middle = 2 ** (MIN_EXPONENT + (index - 0.5) / STEPS_PER_DOUBLING);
    return index === COUNTERS - 1 ? this.maxMs : Math.min(middle, this.maxMs);
  }

  /** Returns how many times do not exceed 2^exponent milliseconds. The exponent is a whole number from -6 to 24. */
  countUpTo(exponent: number): number {
    const last = (exponent - MIN_EXPONENT) * STEPS_PER_DOUBLING;
    let sum = 0;
    for (let index = 0; index <= last; index += 1) sum += this.#counters[index] as number;
    return sum;
  }
}
