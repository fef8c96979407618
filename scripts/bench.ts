import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { type Arguments, readArguments, USAGE } from './bench/arguments.js';
import { Bench } from './bench/bench.js';
import { install } from './bench/install.js';
import { Interrupted, interruption } from './bench/interruption.js';
import { startProgress } from './bench/progress.js';
import { writePlots } from './bench/report/plots.js';
import { reportOn } from './bench/report/table.js';
import { verdictsOn } from './bench/report/targets.js';
import type { Results } from './bench/results.js';
import { runWorkloads, stepsOf } from './bench/run.js';
import { allWorkloads } from './bench/workloads/all-workloads.js';
import { nameOf, type Workload } from './bench/workloads/workload.js';
import { startEtcd } from './etcd.js';

// etcdwire beside npm's etcd3 and bare grpc-js, in turns, on one member of etcd. Servers of ETCD_ENDPOINTS must be
// nobody else's: their history is compacted.

/** More than a run writes between two compactions. */
const QUOTA_BYTES = 8 * 2 ** 30;

async function main(): Promise<number> {
  let given: Arguments;
  let workloads: Workload[];
  try {
    given = readArguments(process.argv.slice(2));
    const { settings, only } = given;
    workloads = allWorkloads(settings).filter((workload) => only.test(nameOf(workload)));
    if (workloads.length === 0) throw new Error(`--only: got "${only.source}"; no workload is called that`);
  } catch (error) {
    process.stderr.write(`${(error as Error).message.split('\n')[0]} (${USAGE})\n`);
    return 2;
  }
  const results = await measure(given, workloads);
  const { outcomes } = results;
  const verdicts = verdictsOn(outcomes);
  const json = `${JSON.stringify({ ...results, verdicts }, null, 2)}\n`;
  const colors = process.stdout.isTTY && process.stdout.hasColors();
  process.stdout.write(given.json === '-' ? json : reportOn(results, verdicts, { colors }));
  if (given.json !== undefined && given.json !== '-') writeFileSync(given.json, json);
  if (given.svg !== undefined) await writePlots(given.svg, outcomes);
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

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof Interrupted)) process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  // What was interrupted may still be at it.
  process.exit(error instanceof Interrupted ? error.exitCode : 1);
}
