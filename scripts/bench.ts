import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { withBuiltPrograms } from './bench/native-clients.js';
import { writePlots } from './bench/plots.js';
import { Bench, install } from './bench/processes.js';
import { reportOn, verdictsOn } from './bench/report.js';
import { type Server, startSecureServer, startServer } from './bench/servers.js';
import { type Arguments, readArguments, type Settings, USAGE } from './bench/settings.js';
import { nameOf, type Outcome, type Results, runWorkloads, startProgress, type Workload } from './bench/workload.js';
import {
  callWorkloads,
  handOffWorkloads,
  hookWorkloads,
  leaseAndLockWorkloads,
  retryingWorkloads,
  tlsWorkloads,
} from './bench/workloads/calls.js';
import { expiringWorkloads } from './bench/workloads/expiring.js';
import { jobWorkloads } from './bench/workloads/jobs.js';
import { boundWorkloads, catchUpWorkloads, scalingWorkloads } from './bench/workloads/scaling.js';
import { coldStartWorkloads, memoryWorkloads } from './bench/workloads/start-and-memory.js';
import { liveEventWorkloads, manyKeysWorkloads } from './bench/workloads/watches-and-scans.js';

// Measures etcdwire, the npm package etcd3, bare grpc-js, Go's client and Rust's client in turn on one etcd member, or on
// three. If ETCD_ENDPOINTS names a server, no other program may use that server, because the benchmark compacts its
// history.

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
    ...tlsWorkloads(settings),
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
    ...jobWorkloads(settings),
    ...expiringWorkloads(settings),
  ];
}

type Cleanup = () => void | Promise<void>;

/**
 * Starts etcd, runs the workloads and resolves with their results. @throws Interrupted if the process receives SIGINT
 * or SIGTERM.
 */
async function measure({ settings, members, assert }: Arguments, selected: readonly Workload[]): Promise<Results> {
  const cleanups: Cleanup[] = [];
  const work = async (): Promise<Results> => {
    const { workloads, leftOut } = await withBuiltPrograms(selected);
    const installation = await install();
    cleanups.push(() => installation.remove());
    const progress = startProgress(workloads);
    cleanups.push(() => progress.stop());
    const about = { node: process.version, cpu: cpus()[0]?.model, cpus: cpus().length, date: new Date().toISOString() };
    const missing = [...leftOut];
    const measured: Outcome[] = [];
    let used: Server | undefined;
    // Runs the workloads over TLS first, and stops their server before the other server starts, so that no idle server
    // shares the processors.
    for (const tls of [true, false]) {
      const onServer = workloads.filter((workload) => (workload.tls ?? false) === tls);
      if (onServer.length === 0) continue;
      const server = await (tls ? startSecureServer(members) : startServer(members));
      if (server === undefined) {
        missing.push('The rows over TLS are missing: the benchmark could not start etcd as a process of its own.');
        continue;
      }
      const closing: Cleanup[] = [() => server.close()];
      cleanups.push(() => cleanUp(closing));
      const bench = new Bench(settings, server, installation);
      closing.push(() => bench.close());
      measured.push(...(await runWorkloads(bench, onServer, progress, { assert })));
      await cleanUp(closing);
      used = server;
    }
    const outcomes = workloads.flatMap((workload) => measured.filter((each) => nameOf(each) === nameOf(workload)));
    const servers = { etcd: used?.version, members: used?.endpoints.length ?? 0 };
    return { ...about, ...servers, settings, leftOut: missing, outcomes };
  };
  try {
    return await Promise.race([work(), interruption()]);
  } finally {
    await cleanUp(cleanups);
  }
}

/** Runs the functions, the last one first, and removes them from the array. */
async function cleanUp(cleanups: Cleanup[]): Promise<void> {
  for (let next = cleanups.pop(); next !== undefined; next = cleanups.pop()) await next();
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
