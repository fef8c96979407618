import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { type Arguments, readArguments, USAGE } from './bench/arguments.js';
import { Bench } from './bench/bench.js';
import { install } from './bench/install.js';
import { startProgress } from './bench/progress.js';
import { writePlots } from './bench/report/plots.js';
import { tablesOf, verdictTable } from './bench/report/table.js';
import { verdictsOn } from './bench/report/targets.js';
import { runWorkloads, stepsOf } from './bench/run.js';
import { allWorkloads } from './bench/workloads/all-workloads.js';
import { nameOf, type Outcome, type Workload } from './bench/workloads/workload.js';
import { startEtcd } from './etcd.js';

// etcdwire beside npm's etcd3 and bare grpc-js, in turns, on one member of etcd. Reports; with --assert it fails where
// etcdwire does not reach what it is to reach.

const QUOTA_BYTES = 8 * 2 ** 30;
/** With what exit code each ends the run. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

interface Results {
  readonly etcd: string | undefined;
  readonly node: string;
  readonly cpu: string | undefined;
  readonly cpus: number;
  readonly date: string;
  readonly settings: Arguments['settings'];
  readonly outcomes: readonly Outcome[];
}

async function main(): Promise<number> {
  let given: Arguments;
  let workloads: Workload[];
  try {
    given = readArguments(process.argv.slice(2));
    const { settings, only } = given;
    workloads = allWorkloads(settings).filter((workload) => only.test(nameOf(workload)));
    if (workloads.length === 0) throw new Error(`--only: no workload is called ${only}`);
  } catch (error) {
    process.stderr.write(`${(error as Error).message} (${USAGE})\n`);
    return 2;
  }
  const results = await measure(given, workloads);
  const { outcomes } = results;
  const verdicts = verdictsOn(outcomes);
  const json = `${JSON.stringify({ ...results, verdicts }, null, 2)}\n`;
  if (given.json === '-') process.stdout.write(json);
  else
    process.stdout.write(
      report(results, verdictTable(verdicts, { colors: process.stdout.isTTY && process.stdout.hasColors() })),
    );
  if (given.json !== undefined && given.json !== '-') writeFileSync(given.json, json);
  for (const path of given.svg === undefined ? [] : await writePlots(given.svg, outcomes)) {
    process.stderr.write(`wrote ${path}\n`);
  }
  const failed = outcomes.some(({ failure }) => failure !== undefined);
  return failed || (given.assert && !verdicts.every(({ holds }) => holds)) ? 1 : 0;
}

/** @throws Interrupted */
async function measure({ settings }: Arguments, workloads: readonly Workload[]): Promise<Results> {
  const cleanups: (() => void | Promise<void>)[] = [];
  const work = async (): Promise<Results> => {
    const installation = await install();
    cleanups.push(() => installation.remove());
    const etcd = await startEtcd({ args: [`--quota-backend-bytes=${QUOTA_BYTES}`] });
    cleanups.push(() => etcd.stop());
    const bench = new Bench(settings, etcd.endpoints[0] as string, installation);
    cleanups.push(() => bench.close());
    const progress = startProgress(stepsOf(workloads));
    cleanups.push(() => progress.stop());
    const about = { etcd: etcd.version, node: process.version, cpu: cpus()[0]?.model, cpus: cpus().length };
    const date = new Date().toISOString();
    return { ...about, date, settings, outcomes: await runWorkloads(bench, workloads, progress) };
  };
  try {
    return await Promise.race([work(), interruption()]);
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup();
  }
}

/** Somebody wants the run to end. */
class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: keyof typeof SIGNALS) {
    super(signal);
    this.exitCode = SIGNALS[signal];
  }
}

function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) {
      process.once(signal, () => reject(new Interrupted(signal)));
    }
  });
}

function report({ etcd, node, cpu, cpus: count, date, settings, outcomes }: Results, verdicts: string): string {
  const about =
    `etcd ${etcd ?? 'as it runs'}, one member; Node.js ${node}; ${count} × ${cpu ?? 'CPU'}; ${date.slice(0, 10)}. ` +
    `Medians of ${settings.rounds} rounds of ${settings.seconds} s, and from the least to the most.`;
  return [about, '', tablesOf(outcomes), verdicts].join('\n');
}

try {
  process.exitCode = await main();
} catch (error) {
  // What runs still has lost its server.
  if (error instanceof Interrupted) process.exit(error.exitCode);
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}
