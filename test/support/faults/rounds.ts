const BASE_SEED = 20_260;

/** One repetition of a row of faults: the same seed means the same faults at the same places. */
export interface Round {
  readonly seed: number;
  /** At least 0 and below 1. */
  readonly random: () => number;
}

/** As many rounds as FAULT_ROUNDS says, or one, with seeds from FAULT_SEED on. */
export function rounds(): Round[] {
  const { FAULT_ROUNDS = 1, FAULT_SEED = BASE_SEED } = process.env;
  const seeds = Array.from({ length: Number(FAULT_ROUNDS) }, (_, round) => Number(FAULT_SEED) + round);
  return seeds.map((seed) => ({ seed, random: randomNumbers(seed) }));
}

/** mulberry32. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A generator of its own, seeded by this one, for what runs beside others: in which order they draw is chance. */
export function branchOf(random: () => number): () => number {
  return randomNumbers(Math.floor(random() * 2 ** 32));
}

/** Evenly between the two. */
export function between(least: number, most: number, random: () => number): number {
  return least + (most - least) * random();
}

/** One after the other with each seed, so that as many rounds as there are of them try all. */
export function variant<T>(items: readonly T[], { seed }: Pick<Round, 'seed'>): T {
  return items[seed % items.length] as T;
}

export function pick<T>(items: readonly T[], random: () => number): T {
  return items[Math.floor(random() * items.length)] as T;
}
