/** How much of everything is done. */
export interface Settings {
  /** Too little for numbers that are to be relied on. */
  readonly quick: boolean;
  readonly rounds: number;
  /** Of each contender in each round, where a workload goes by time. */
  readonly seconds: number;
  /** Of each workload, all contenders at once, before its first round. */
  readonly warmUpSeconds: number;
  /** Before the first calls of a run: Node.js compiles what is called often while it runs. */
  readonly firstWarmUp: { readonly inFlight: number; readonly seconds: number };
  /** Calls under way at a time, by length of the values in bytes. */
  readonly inFlight: Readonly<Record<100 | 100_000, readonly number[]>>;
  /** Of one way of handing a lock on in one round; the slower way needs 100 ms for one. */
  readonly handOffSeconds: number;
  /** Hand on a lock beside somebody who writes, too. */
  readonly otherWrites: boolean;
  /** Keys to scan, and events to catch up on. */
  readonly manyKeys: number;
  /** Events to catch up on that have a revision each. */
  readonly singlePuts: number;
  /** Events that watchers see live in one round. */
  readonly liveEvents: number;
  readonly coldStarts: number;
  /** After which memory is looked at. */
  readonly memoryCalls: number;
}

export const WHOLE: Settings = {
  quick: false,
  rounds: 5,
  seconds: 0.4,
  warmUpSeconds: 0.4,
  firstWarmUp: { inFlight: 64, seconds: 8 },
  inFlight: { 100: [1, 16, 128, 512], 100000: [1, 16, 128, 512] },
  handOffSeconds: 1.5,
  otherWrites: true,
  manyKeys: 100_000,
  singlePuts: 100_000,
  liveEvents: 10_000,
  coldStarts: 15,
  memoryCalls: 1_000_000,
};

/** Enough to see that everything runs, and roughly how: in less than a minute. */
export const QUICK: Settings = {
  quick: true,
  rounds: 2,
  seconds: 0.1,
  warmUpSeconds: 0.2,
  firstWarmUp: { inFlight: 64, seconds: 4 },
  inFlight: { 100: [1, 128, 512], 100000: [16] },
  handOffSeconds: 0.3,
  otherWrites: false,
  manyKeys: 20_000,
  singlePuts: 10_000,
  liveEvents: 2_000,
  coldStarts: 4,
  memoryCalls: 10_000,
};
