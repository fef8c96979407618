import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { calledKeys, type Task } from '../child/tasks.js';
import { CLIENTS, type ClientName } from '../clients/bench-client.js';
import { metricSpreadOf, type Sample } from '../metrics.js';
import { type Bench, type ClientProcess, COLD_START_NAMES, type ColdStart } from '../processes.js';
import type { Settings } from '../settings.js';
import type { Outcome, Workload } from '../workload.js';
import { putValues } from './calls.js';

export const COLD_START_GROUP = 'cold start';
export const COLD_START_VARIANT = 'process start to the response to a get';

const EMPTY: ColdStart = 'empty Node.js';

/**
 * Returns the workload that starts programs that load a client, get one key and exit, and one program that does
 * nothing.
 */
export function coldStartWorkloads({ coldStarts }: Settings): Workload[] {
  const workload: Workload<ColdStart> = {
    group: COLD_START_GROUP,
    variant: COLD_START_VARIANT,
    competitors: COLD_START_NAMES,
    rounds: coldStarts,
    prepare: async (bench) => {
      await putValues(bench, 100);
      for (const name of COLD_START_NAMES) await startMs(bench, name);
    },
    measure: async (bench, name) => ({ startMs: await startMs(bench, name) }),
    conclude: addNetStart,
  };
  return [workload];
}

/** Adds `netStartMs` to each sample: the start time minus the median start time of the empty program. */
function addNetStart(outcomes: readonly Outcome[]): Outcome[] {
  const empty = outcomes.find(({ competitor }) => competitor === EMPTY)?.samples ?? [];
  const emptyMs = metricSpreadOf(empty, 'startMs')?.median;
  return outcomes.map((outcome) => {
    if (outcome.competitor === EMPTY || emptyMs === undefined) return outcome;
    const samples = outcome.samples.map(({ startMs = 0 }) => ({ startMs, netStartMs: startMs - emptyMs }));
    return { ...outcome, samples };
  });
}

async function startMs({ installation, endpoint }: Bench, name: ColdStart): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, [installation.coldStart(name), endpoint, calledKeys(100)[0] as string], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`the program of ${name} exited with ${code}`);
  return performance.now() - start;
}

export const MEMORY_GROUP = 'memory';

const WATCHERS = 1_000;
const IN_FLIGHT = 128;
/**
 * Number of calls before the first measurement. These calls make Node.js load the code of the client, so that the
 * memory for this code does not count as growth.
 */
const FIRST_CALLS = 1_000;
/** Number of calls in one task. It is small enough that no task reaches its time limit. */
const CALLS_PER_TASK = 20_000;

/** The clients that make a million gets. The other clients are left out, because they would need further minutes. */
const CALLERS = ['etcdwire', 'etcd3'] as const;

/**
 * Returns the workloads that measure the memory of clients. All clients run at once, each in a new process, because no
 * time is measured.
 */
export function memoryWorkloads({ memoryCalls }: Settings): Workload[] {
  return [
    memory(`after ${memoryCalls.toLocaleString('en')} gets`, CALLERS, 1, async (process) => {
      for (let left = memoryCalls; left > 0; left -= CALLS_PER_TASK) {
        await process.perform(gets(Math.min(left, CALLS_PER_TASK)));
      }
    }),
    memory(`per watcher, of ${WATCHERS.toLocaleString('en')}`, CLIENTS, WATCHERS, (process) =>
      process.perform({ kind: 'open-watchers', prefix: 'bench/memory/', watchers: WATCHERS }),
    ),
  ];
}

function memory(
  variant: string,
  clients: readonly ClientName[],
  divisor: number,
  act: (process: ClientProcess) => Promise<unknown>,
): Workload<ClientName> {
  return {
    group: MEMORY_GROUP,
    variant,
    competitors: clients,
    rounds: 1,
    concurrent: true,
    prepare: (bench) => putValues(bench, 100),
    measure: (bench, client) => growth(bench, client, divisor, act),
  };
}

/**
 * Measures the memory of a new client process after `act`, and by how much `act` made the memory grow, divided by
 * `divisor`.
 */
async function growth(
  bench: Bench,
  client: ClientName,
  divisor: number,
  act: (process: ClientProcess) => Promise<unknown>,
): Promise<Sample> {
  const process = bench.startProcess(client);
  try {
    await process.perform(gets(FIRST_CALLS));
    const before = await process.perform({ kind: 'footprint' });
    await act(process);
    const after = await process.perform({ kind: 'footprint' });
    const grown = (metric: 'heapKb' | 'rssKb'): number => ((after[metric] ?? 0) - (before[metric] ?? 0)) / divisor;
    return { ...after, heapGrowthKb: grown('heapKb'), rssGrowthKb: grown('rssKb') };
  } finally {
    bench.stopProcess(process);
  }
}

function gets(calls: number): Task {
  return { kind: 'calls', work: { kind: 'get', valueBytes: 100 }, limits: { inFlight: IN_FLIGHT, calls } };
}
