/**
 * The metrics that a run can measure. `heading` is the heading in the report, and `digits` is the number of decimal
 * places.
 */
export const METRICS = {
  /** Operations per second. */
  rate: { heading: 'rate /s', digits: 0 },
  /** User and system CPU time of the client's process, in microseconds per operation. */
  cpuUs: { heading: 'CPU µs/op', digits: 1 },
  p50Ms: { heading: 'p50 ms', digits: 2 },
  p99Ms: { heading: 'p99 ms', digits: 2 },
  /** Time in milliseconds from the start of a process to its exit, which follows the first response. */
  startMs: { heading: 'total ms', digits: 0 },
  /** `startMs` minus the time that Node.js needs for an empty program. */
  netStartMs: { heading: 'without Node.js ms', digits: 0 },
  /**
   * Size, in kB, of the JavaScript heap and of the memory outside the heap that its objects use, such as buffers, after
   * garbage collection.
   */
  heapKb: { heading: 'heap kB', digits: 1 },
  rssKb: { heading: 'resident kB', digits: 1 },
  heapGrowthKb: { heading: 'heap growth kB', digits: 1 },
  rssGrowthKb: { heading: 'resident growth kB', digits: 1 },
  totalMs: { heading: 'ms', digits: 0 },
  /** Time in milliseconds of the part of the work that releases a lock. */
  releaseMs: { heading: 'ms of the release', digits: 0 },
  /** User and system CPU time of the client's process in milliseconds. */
  cpuMs: { heading: 'CPU ms', digits: 0 },
  /** CPU time as a percentage of one core. */
  corePercent: { heading: '% of a core', digits: 1 },
  /** Time in milliseconds by which an event came after the answer to its put. */
  lateMs: { heading: 'other watch late by ms', digits: 0 },
  longestBlockMs: { heading: 'longest block of the event loop ms', digits: 0 },
  /** The exponent by which the CPU time grows with the size of the work. */
  exponent: { heading: 'exponent', digits: 2 },
  /** Number of leases that the client granted. */
  leases: { heading: 'leases', digits: 0 },
  /** The greatest time in milliseconds by which a key lived longer than its bound. Below 0 if none did. */
  goneMs: { heading: 'last key gone after its bound by ms', digits: 0 },
  /** The greatest time in milliseconds from the end of a lease until the deletion of its keys. */
  revokedMs: { heading: 'longest revocation by etcd ms', digits: 0 },
  /** Number of sessions that lost their leases. */
  lost: { heading: 'lost sessions', digits: 0 },
} as const;
export type Metric = keyof typeof METRICS;

/** The measured metrics of one competitor (a client, or a variant of a client) in one round of one workload. */
export type Sample = Readonly<Partial<Record<Metric, number>>>;

/** The summary of the values of several rounds. */
interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Returns the median, minimum and maximum of the values, or undefined if there are no values. */
export function spreadOf(values: readonly number[]): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const [min] = sorted;
  const max = sorted.at(-1);
  if (min === undefined || max === undefined) return undefined;
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1);
  return { median: middle.reduce((sum, value) => sum + value, 0) / middle.length, min, max };
}

/** Returns the spread of a metric, or undefined if no sample has the metric. */
export function metricSpreadOf(samples: readonly Sample[], metric: Metric): Spread | undefined {
  return spreadOf(samples.map((sample) => sample[metric]).filter((value) => value !== undefined));
}
