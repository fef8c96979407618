const BASE_SEED = 20_260;

/** One repetition of a fault test. The same seed gives the same sequence of faults. */
export interface Round {
  readonly seed: number;
  /** Returns a number from 0 up to, but not including, 1. */
  readonly random: () => number;
}

/**
 * Returns the rounds of this run. The environment variable FAULT_ROUNDS sets their number, which is 1 by default.
 * FAULT_SEED sets the seed of the first round, and each further seed is greater by 1.
 */
export function rounds(): Round[] {
  const { FAULT_ROUNDS = 1, FAULT_SEED = BASE_SEED } = process.env;
  const seeds = Array.from({ length: Number(FAULT_ROUNDS) }, (_, round) => Number(FAULT_SEED) + round);
  return seeds.map((seed) => ({ seed, random: randomNumbers(seed) }));
}

/** Returns a mulberry32 generator of pseudo-random numbers from 0 up to, but not including, 1. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Creates a generator whose seed comes from `random`. Each of several concurrent tasks needs its own generator, because
 * the order in which the tasks draw numbers is not deterministic.
 */
export function branchOf(random: () => number): () => number {
  return randomNumbers(Math.floor(random() * 2 ** 32));
}

/** Returns a uniformly distributed number between `least` and `most`. */
export function between(least: number, most: number, random: () => number): number {
  return least + (most - least) * random();
}

/** Chooses an item by the seed of the round, so that consecutive rounds use the items in turn. */
export function variant<T>(items: readonly T[], { seed }: Pick<Round, 'seed'>): T {
  return items[seed % items.length] as T;
}

export function pick<T>(items: readonly T[], random: () => number): T {
  return items[Math.floor(random() * items.length)] as T;
}
