/** What can be measured: its heading, and what turns the number measured into the one shown. */
export const METRICS = {
  /** Operations a second. */
  rate: { heading: 'rate /s', digits: 0 },
  /** Of user and system time in the client's process, a microsecond an operation. */
  cpuUs: { heading: 'CPU µs/op', digits: 1 },
  p50Ms: { heading: 'p50 ms', digits: 2 },
  p99Ms: { heading: 'p99 ms', digits: 2 },
  /** From the start of the process to its end after the first answer. */
  startMs: { heading: 'whole ms', digits: 0 },
  /** The same less what Node.js needs for an empty program. */
  netStartMs: { heading: 'less empty Node ms', digits: 0 },
  /** JavaScript heap and memory outside of it that belongs to it, after a collection. */
  heapKb: { heading: 'heap kB', digits: 1 },
  rssKb: { heading: 'resident kB', digits: 1 },
  heapGrowthKb: { heading: 'heap growth kB', digits: 1 },
  rssGrowthKb: { heading: 'resident growth kB', digits: 1 },
} as const;
export type Metric = keyof typeof METRICS;

/** What one contender did in one round of one workload. */
export type Sample = Readonly<Partial<Record<Metric, number>>>;
