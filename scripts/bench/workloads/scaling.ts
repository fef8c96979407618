import type { Scaling, ScalingName } from '../child/scaling.js';
import { metricSpreadOf } from '../metrics.js';
import type { Settings } from '../settings.js';
import type { Outcome, Workload } from '../workload.js';

export const SCALING_GROUP = 'scaling';

/** The greater of the two sizes of each measurement. The other size is a quarter of it. */
const SIZES: Readonly<Record<ScalingName, number>> = {
  'puts at once': 1_000_000,
  'sessions that lock at once': 20_000,
  'release of a lock with waiters': 4_000,
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
      measure: async (bench, competitor) => {
        const scaling: Scaling = { name, size: sizes.get(competitor) as number };
        // A new process, so that the memory of one measurement does not count for another one.
        const process = bench.startProcess('etcdwire');
        try {
          return await process.perform({ kind: 'scaling', scaling });
        } finally {
          bench.stopProcess(process);
        }
      },
      afterRound: async ({ client }) => {
        // A revision can be compacted only once.
        const { header } = await client.put('bench/compacted', 'x');
        await client.compact(header.revision, { physical: true });
      },
      conclude: addExponent,
    };
  });
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
