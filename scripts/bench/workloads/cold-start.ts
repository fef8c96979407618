import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Bench } from '../bench.js';
import { calledKeys } from '../child/keys.js';
import type { Program } from '../install.js';
import type { Settings } from '../settings.js';
import { spreadOf } from '../statistics.js';
import { putValues } from './calls.js';
import type { Outcome, Workload } from './workload.js';

export const COLD_START_GROUP = 'cold start';
export const COLD_START_VARIANT = 'process start to the answer to a get';

const EMPTY = 'empty Node';
const PROGRAMS = {
  [EMPTY]: 'cold-start-empty',
  etcdwire: 'cold-start-etcdwire',
  'etcdwire over grpc-js': 'cold-start-etcdwire-grpc-js',
  etcd3: 'cold-start-etcd3',
  'bare grpc-js': 'cold-start-bare-grpc-js',
} as const satisfies Record<string, Program>;
type Starter = keyof typeof PROGRAMS;
const STARTERS = Object.keys(PROGRAMS) as Starter[];

/** Programs that load a client, get one key and end, and one that does nothing. */
export function coldStartWorkloads({ coldStarts }: Settings): Workload[] {
  const workload: Workload<Starter> = {
    group: COLD_START_GROUP,
    variant: COLD_START_VARIANT,
    contenders: STARTERS,
    rounds: coldStarts,
    prepare: async (bench) => {
      await putValues(bench, 100);
      for (const starter of STARTERS) await startMs(bench, PROGRAMS[starter]);
    },
    measure: async (bench, starter) => ({ startMs: await startMs(bench, PROGRAMS[starter]) }),
    conclude: lessEmpty,
  };
  return [workload];
}

/** What a client adds to the start of Node.js, counted from the median of the empty program. */
function lessEmpty(outcomes: readonly Outcome[]): Outcome[] {
  const empty = outcomes.find(({ contender }) => contender === EMPTY)?.samples ?? [];
  const emptyMs = spreadOf(empty, 'startMs')?.median;
  return outcomes.map((outcome) => {
    if (outcome.contender === EMPTY || emptyMs === undefined) return outcome;
    const samples = outcome.samples.map(({ startMs = 0 }) => ({ startMs, netStartMs: startMs - emptyMs }));
    return { ...outcome, samples };
  });
}

async function startMs({ installation, endpoint }: Bench, program: Program): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, [installation.path(program), endpoint, calledKeys(100)[0] as string], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${program} ended with ${code}`);
  return performance.now() - start;
}
