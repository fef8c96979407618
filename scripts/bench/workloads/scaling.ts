import { Client, op, prefix } from '../../../src/index.js';
import type { CatchUp } from '../child/catch-up.js';
import type { Scaling, ScalingName } from '../child/scaling.js';
import { metricSpreadOf, type Sample } from '../metrics.js';
import { GO, measureGoCatchUp } from '../native-clients.js';
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
      isEnough: (outcomes) => outcomes.every(({ samples }) => (exponentOf(samples) ?? 0) <= MAX_EXPONENT),
    };
  });
}

/** The past events of a watch, and the number of events that one transaction writes. */
const HISTORIES = [
  { events: 100_000, perRevision: 1, valueBytes: 100 },
  { events: 1_000_000, perRevision: 128, valueBytes: 600 },
  { events: 1_000_000, perRevision: 1_000, valueBytes: 100 },
  { events: 3_000_000, perRevision: 1_000, valueBytes: 100 },
];
const HISTORY_KEYS = 5_000;
const WRITES_IN_FLIGHT = { single: 500, txn: 8 };

/** Returns the workloads in which one watch delivers many past events while another one waits for new events. */
export function catchUpWorkloads({ quick, rounds }: Settings): Workload[] {
  return HISTORIES.map(({ events, perRevision, valueBytes }) => {
    const count = events / (quick ? QUICK_FACTOR : 1);
    const keys = `bench/history/${perRevision}/`;
    let catchUp: CatchUp = { prefix: keys, first: 0n, last: 0n };
    return {
      group: SCALING_GROUP,
      variant: `watch ${count.toLocaleString('en')} events behind, ${perRevision.toLocaleString('en')} of ${valueBytes} B a revision`,
      competitors: ['etcdwire', GO],
      rounds: Math.min(rounds, 3),
      prepare: async ({ endpoint }) => {
        const range = await writeHistory(endpoint, keys, count, perRevision, 'x'.repeat(valueBytes));
        catchUp = { prefix: keys, ...range };
      },
      measure: async (bench, competitor) => {
        if (competitor === GO) return measureGoCatchUp(bench.endpoint, catchUp);
        return bench.performInNewProcess('etcdwire', { kind: 'catch-up', catchUp });
      },
      finish: async (bench) => {
        await bench.client.delete(prefix(keys));
        await compact(bench);
      },
    };
  });
}

/** Writes the events of a watch. Resolves with their first and last revision. */
async function writeHistory(
  endpoint: string,
  keys: string,
  events: number,
  perRevision: number,
  value: string,
): Promise<Pick<CatchUp, 'first' | 'last'>> {
  await using client = new Client({ endpoints: [endpoint], timeoutMs: 60_000, maxTxnOps: perRevision });
  const first = (await client.put(`${keys}first`, '')).header.revision;
  let written = 0;
  const write = async (): Promise<void> => {
    while (written < events) {
      const from = written;
      written += perRevision;
      const puts = Array.from({ length: perRevision }, (_, index) =>
        op.put(`${keys}${(from + index) % HISTORY_KEYS}`, value),
      );
      await client.txn({ then: puts });
    }
  };
  const length = perRevision === 1 ? WRITES_IN_FLIGHT.single : WRITES_IN_FLIGHT.txn;
  await Promise.all(Array.from({ length }, write));
  return { first, last: (await client.put(`${keys}last`, '')).header.revision };
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

/** Performs a measurement in a new process, so that it does not count the memory of an earlier measurement. */
function perform(bench: Bench, scaling: Scaling): Promise<Sample> {
  return bench.performInNewProcess('etcdwire', { kind: 'scaling', scaling });
}

async function compact({ client }: Bench): Promise<void> {
  // A revision can be compacted only once.
  const { header } = await client.put('bench/compacted', 'x');
  await client.compact(header.revision, { physical: true });
}

/**
 * The greatest exponent by which the CPU time of a workload may grow with its size. Linear work has the exponent 1, and
 * quadratic work 2. With these sizes, work of n log n has an exponent of up to 1.2. The rest of the limit allows for
 * noise, and for processors whose caches hold the objects of the smaller size only: there, the expiry of calls has 1.4.
 */
export const MAX_EXPONENT = 1.5;

/** Returns the exponent that `addExponent` has added to the samples. Undefined for the smaller size. */
export function exponentOf(samples: readonly Sample[]): number | undefined {
  return metricSpreadOf(samples, 'exponent')?.median;
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
