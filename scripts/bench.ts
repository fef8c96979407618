import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { writePlots } from './bench/plots.js';
import { Bench, install } from './bench/processes.js';
import { reportOn, verdictsOn } from './bench/report.js';
import { type Arguments, readArguments, type Settings, USAGE } from './bench/settings.js';
import { nameOf, type Results, runWorkloads, startProgress, type Workload } from './bench/workload.js';
import {
  callWorkloads,
  handOffWorkloads,
  hookWorkloads,
  leaseAndLockWorkloads,
  retryingWorkloads,
} from './bench/workloads/calls.js';
import { boundWorkloads, catchUpWorkloads, scalingWorkloads } from './bench/workloads/scaling.js';
import { coldStartWorkloads, memoryWorkloads } from './bench/workloads/start-and-memory.js';
import { liveEventWorkloads, manyKeysWorkloads } from './bench/workloads/watches-and-scans.js';
import { startEtcd } from './etcd.js';

// Measures etcdwire, the npm package etcd3 and bare grpc-js in turn on one etcd member. If ETCD_ENDPOINTS names a
// server, no other program may use that server, because the benchmark compacts its history.

/** The quota of the server's database in bytes. It is larger than what a run writes between two compactions. */
const QUOTA_BYTES = 8 * 2 ** 30;
/** The maximum number of operations in a transaction. */
const MAX_TXN_OPS = 1_000;

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
type Signal = keyof typeof EXIT_CODES;

class Interrupted extends Error {
  readonly exitCode: number;

  constructor(signal: Signal) {
    super(signal);
    this.exitCode = EXIT_CODES[signal];
  }
}

async function main(): Promise<number> {
  let given: Arguments;
  let workloads: Workload[];
  try {
    given = readArguments(process.argv.slice(2));
    const { settings, only } = given;
    workloads = allWorkloads(settings).filter((workload) => only.test(nameOf(workload)));
    if (workloads.length === 0) throw new Error(`--only: got "${only.source}"; no workload has a name that matches`);
  } catch (error) {
    process.stderr.write(`${(error as Error).message.split('\n')[0]} (${USAGE})\n`);
    return 2;
  }
  if (given.help) {
    const names = workloads.map((workload) => `  ${nameOf(workload)}\n`);
    process.stdout.write(`${USAGE}\n\n--only matches these names:\n${names.join('')}`);
    return 0;
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
  return failed || (given.assert && !verdicts.every(({ met }) => met)) ? 1 : 0;
}

/**
 * Returns all workloads in the order in which they run. Workloads that need a small store come before workloads that
 * fill the store.
 */
function allWorkloads(settings: Settings): Workload[] {
  return [
    ...coldStartWorkloads(settings),
    ...callWorkloads(settings),
    ...hookWorkloads(settings),
    ...retryingWorkloads(settings),
    ...leaseAndLockWorkloads(settings),
    ...handOffWorkloads(settings),
    ...liveEventWorkloads(settings),
    ...manyKeysWorkloads(settings),
    ...memoryWorkloads(settings),
    ...scalingWorkloads(settings),
    ...catchUpWorkloads(settings),
    ...boundWorkloads(settings),
  ];
}

/**
 * Starts etcd, runs the workloads and resolves with their results. @throws Interrupted if the process receives SIGINT
 * or SIGTERM.
 */
async function measure({ settings, members }: Arguments, workloads: readonly Workload[]): Promise<Results> {
  const cleanups: (() => void | Promise<void>)[] = [];
  const work = async (): Promise<Results> => {
    const installation = await install();
    cleanups.push(() => installation.remove());
    const etcd = await startEtcd({
      members,
      args: [`--quota-backend-bytes=${QUOTA_BYTES}`, `--max-txn-ops=${MAX_TXN_OPS}`],
    });
    cleanups.push(() => etcd.close());
    const bench = new Bench(settings, etcd.endpoints, installation);
    cleanups.push(() => bench.close());
    const progress = startProgress(workloads);
    cleanups.push(() => progress.stop());
    const about = { etcd: etcd.version, node: process.version, cpu: cpus()[0]?.model, cpus: cpus().length };
    const date = new Date().toISOString();
    return {
      ...about,
      date,
      members: etcd.endpoints.length,
      settings,
      outcomes: await runWorkloads(bench, workloads, progress),
    };
  };
  try {
    return await Promise.race([work(), interruption()]);
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup();
  }
}

function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    for (const signal of Object.keys(EXIT_CODES) as Signal[]) {
      process.once(signal, () => reject(new Interrupted(signal)));
    }
  });
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof Interrupted)) process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  // Exit at once, because an interrupted measurement may still be running.
  process.exit(error instanceof Interrupted ? error.exitCode : 1);
}
