import type { Bench } from '../bench.js';
import type { Task } from '../child/task.js';
import type { ContenderProcess } from '../contender-process.js';
import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Sample } from '../sample.js';
import type { Settings } from '../settings.js';
import { putValues } from './calls.js';
import type { Workload } from './workload.js';

export const MEMORY_GROUP = 'memory';

const WATCHERS = 1_000;
const IN_FLIGHT = 128;
/** Calls that load what is loaded once, and do not count. */
const FIRST_CALLS = 1_000;
/** Calls in one task, so that each task is soon over. */
const CALLS_PER_TASK = 20_000;

/** A million calls take those over grpc-js minutes, and these two are the ones to compare. */
const CALLERS = ['etcdwire', 'etcd3'] as const;

/** What clients keep in memory; each in a new process, all of them at a time, for nothing is timed. */
export function memoryWorkloads({ memoryCalls }: Settings): Workload[] {
  return [
    memory(`after ${memoryCalls.toLocaleString('en')} gets`, CALLERS, 1, async (process) => {
      for (let left = memoryCalls; left > 0; left -= CALLS_PER_TASK) {
        await process.perform(gets(Math.min(left, CALLS_PER_TASK)));
      }
    }),
    memory(`a watcher, of ${WATCHERS.toLocaleString('en')}`, CONTENDERS, WATCHERS, (process) =>
      process.perform({ kind: 'open-watchers', prefix: 'bench/memory/', watchers: WATCHERS }),
    ),
  ];
}

function memory(
  variant: string,
  contenders: readonly ContenderName[],
  things: number,
  act: (process: ContenderProcess) => Promise<unknown>,
): Workload<ContenderName> {
  return {
    group: MEMORY_GROUP,
    variant,
    contenders,
    rounds: 1,
    atOnce: true,
    prepare: (bench) => putValues(bench, 100),
    measure: (bench, contender) => growth(bench, contender, things, act),
  };
}

/** By how much a process grows, for each of so many things. */
async function growth(
  bench: Bench,
  contender: ContenderName,
  things: number,
  act: (process: ContenderProcess) => Promise<unknown>,
): Promise<Sample> {
  const process = bench.fresh(contender);
  try {
    await process.perform(gets(FIRST_CALLS));
    const before = await process.perform({ kind: 'footprint' });
    await act(process);
    const after = await process.perform({ kind: 'footprint' });
    const grown = (metric: 'heapKb' | 'rssKb'): number => ((after[metric] ?? 0) - (before[metric] ?? 0)) / things;
    return { ...after, heapGrowthKb: grown('heapKb'), rssGrowthKb: grown('rssKb') };
  } finally {
    bench.stopProcess(process);
  }
}

function gets(calls: number): Task {
  return { kind: 'calls', work: { kind: 'get', valueBytes: 100 }, limits: { inFlight: IN_FLIGHT, calls } };
}
