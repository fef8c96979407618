/** How much of everything is done. */
export interface Settings {
  readonly rounds: number;
  /** Of each contender in each round, where a workload goes by time. */
  readonly seconds: number;
  /** Of each workload, all contenders at once, before its first round. */
  readonly warmUpSeconds: number;
  /** Of each kind of call at the start of the run: what Node.js compiles late must not happen while measuring. */
  readonly firstWarmUpSeconds: number;
  /** Calls under way at a time, by length of the values in bytes. */
  readonly inFlight: Readonly<Record<100 | 100_000, readonly number[]>>;
  /** Of one way of handing a lock on in one round; the slower way needs 100 ms for one. */
  readonly handOffSeconds: number;
  /** Hand on a lock beside somebody who writes, too. */
  readonly otherWrites: boolean;
  /** Keys to scan, and events to catch up on. */
  readonly manyKeys: number;
  /** Events that watchers see live in one round. */
  readonly liveEvents: number;
  readonly coldStarts: number;
  /** After which memory is looked at. */
  readonly memoryCalls: number;
}

export const WHOLE: Settings = {
  rounds: 5,
  seconds: 0.4,
  warmUpSeconds: 0.4,
  firstWarmUpSeconds: 4,
  inFlight: { 100: [1, 16, 128, 512], 100000: [1, 16, 128, 512] },
  handOffSeconds: 1.5,
  otherWrites: true,
  manyKeys: 100_000,
  liveEvents: 10_000,
  coldStarts: 15,
  memoryCalls: 1_000_000,
};

/** Enough to see that everything runs, and roughly how: in less than a minute. */
export const QUICK: Settings = {
  rounds: 2,
  seconds: 0.1,
  warmUpSeconds: 0.2,
  firstWarmUpSeconds: 1,
  inFlight: { 100: [1, 128, 512], 100000: [16] },
  handOffSeconds: 0.3,
  otherWrites: false,
  manyKeys: 100_000,
  liveEvents: 2_000,
  coldStarts: 4,
  memoryCalls: 10_000,
};
