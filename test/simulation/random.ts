/** A seeded generator of random numbers: sfc32 by Chris Doty-Humphrey. The same seed gives the same numbers. */
export class Random {
  #a: number;
  #b: number;
  #c = 0x9e3779b9;
  #counter = 1;

  /** Different streams of the same seed give independent numbers. */
  constructor(seed: number, stream = 0) {
    this.#a = seed >>> 0;
    this.#b = Math.floor(seed / 2 ** 32) >>> 0;
    this.#c = (this.#c + stream) | 0;
    for (let round = 0; round < 12; round += 1) this.next();
  }

  /** Returns 32 random bits as an unsigned integer. */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }

  /** Returns a number from 0 to below 1. */
  fraction(): number {
    return this.next() / 2 ** 32;
  }

  /** Returns an integer from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  /** Returns an integer from `first` to `last`, both included. */
  between(first: number, last: number): number {
    return first + this.below(last - first + 1);
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  /** Returns a number from `least` to `most`. Each order of magnitude is equally likely. */
  magnitude(least: number, most: number): number {
    return Math.round(least * (most / least) ** this.fraction());
  }

  bits64(): bigint {
    return (BigInt(this.next()) << 32n) | BigInt(this.next());
  }
}
