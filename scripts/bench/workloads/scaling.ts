import type { Scaling, ScalingName } from '../child/scaling.js';
import { metricSpreadOf, type Sample } from '../metrics.js';
import type { Bench } from '../processes.js';
import type { Settings } from '../settings.js';
import type { Outcome, Workload } from '../workload.js';

export const SCALING_GROUP = 'scaling';
export const BOUNDS_GROUP = 'bounds of calls in flight';

/** The greater of the two sizes of each measurement. The other size is a quarter of it. */
const SIZES: Readonly<Record<ScalingName, number>> = {
  'puts at once': 1_000_000,
  'sessions that lock at once': 20_000,
  'waiters of one lock, and its release': 4_000,
  'abort of waiting calls': 100_000,
  'expiry of waiting calls': 100_000,
  'close of a client with sessions': 10_000,
  'creation of watches': 100_000,
  'creation of watches over the gateway': 500,
  'range with one response': 100_000,
  'deletion of a cached range in tenths': 100_000,
  'waiters for a revision of a cached range': 30_000,
  'idle sessions and watches': 1_000,
};
const FACTOR = 4;
/** The values of `maxInFlight` to compare, and the number of puts that the program makes at once with each of them. */
const BOUNDS = [64, 128, 256, 512, 1_024, 2_048, 4_096];
const BOUNDED_PUTS = 60_000;
/** A quick run uses sizes that are smaller by this factor. */
const QUICK_FACTOR = 20;

/** Returns the workloads that measure how the cost of some work grows with its size. */
export function scalingWorkloads({ quick, rounds }: Settings): Workload[] {
  return (Object.keys(SIZES) as ScalingName[]).map((name) => {
    const size = SIZES[name] / (quick ? QUICK_FACTOR : 1);
    const sizes = new Map([size / FACTOR, size].map((each) => [each.toLocaleString('en'), each]));
    return {
      group: SCALING_GROUP,
      variant: name,
      competitors: [...sizes.keys()],
      rounds: Math.min(rounds, 3),
      measure: (bench, competitor) => perform(bench, { name, size: sizes.get(competitor) as number }),
      afterRound: compact,
      conclude: addExponent,
    };
  });
}

/** Returns the workload that compares values of `maxInFlight`. */
export function boundWorkloads({ quick, rounds }: Settings): Workload[] {
  const size = BOUNDED_PUTS / (quick ? QUICK_FACTOR : 1);
  const bounds = new Map(BOUNDS.map((bound) => [`maxInFlight ${bound}`, bound]));
  return [
    {
      group: BOUNDS_GROUP,
      variant: `${size.toLocaleString('en')} puts at once`,
      competitors: [...bounds.keys()],
      rounds,
      measure: (bench, competitor) =>
        perform(bench, { name: 'puts at once', size, maxInFlight: bounds.get(competitor) as number }),
      afterRound: compact,
    },
  ];
}

/** Performs a measurement in a new process, so that the memory of one measurement does not count for another one. */
async function perform(bench: Bench, scaling: Scaling): Promise<Sample> {
  const process = bench.startProcess('etcdwire');
  try {
    return await process.perform({ kind: 'scaling', scaling });
  } finally {
    bench.stopProcess(process);
  }
}

async function compact({ client }: Bench): Promise<void> {
  // A revision can be compacted only once.
  const { header } = await client.put('bench/compacted', 'x');
  await client.compact(header.revision, { physical: true });
}

/**
 * Adds the exponent by which the CPU time grows with the size: 1 for linear work, 2 for quadratic work. It compares the
 * least CPU time of all rounds, because other processes of the machine can only add to a CPU time.
 */
function addExponent(outcomes: readonly Outcome[]): Outcome[] {
  const [smaller, greater] = outcomes.map(({ samples }) => metricSpreadOf(samples, 'cpuMs')?.min);
  if (smaller === undefined || greater === undefined) return [...outcomes];
  const exponent = Math.log(greater / smaller) / Math.log(FACTOR);
  return outcomes.map((outcome, index) =>
    index === 0 ? outcome : { ...outcome, samples: outcome.samples.map((sample) => ({ ...sample, exponent })) },
  );
}
