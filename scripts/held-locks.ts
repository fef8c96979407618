import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from '../src/index.js';
import { Mutex, Session } from '../src/locks.js';
import { startEtcd } from './etcd.js';
import { measureLongestBlock } from './longest-block.js';

// Opens many sessions of one client at once, takes a lock with each of them, holds all locks, and counts the sessions
// that lose their leases. Each run has a new server. Exits with 1 if a session loses its lease.
const USAGE =
  'npm run test:held-locks -- [--sessions N] [--ttl S] [--minutes M] [--runs N] [--half-core] [--json]\n' +
  '--half-core lets etcd share one core with a busy loop (Linux only).\n';

/** The interval, in milliseconds, between two samples of the event loop's longest block. */
const TICK_MS = 5;

interface Run {
  /** The time until all sessions held their locks, in milliseconds. */
  readonly lockedMs: number;
  /** The number of sessions that lost their leases, or did not get their locks. */
  readonly lost: number;
  /** The longest time, in milliseconds, for which the event loop of the client was blocked. */
  readonly longestBlockMs: number;
  /** The CPU time of the client while it held the locks, in percent of one core. */
  readonly corePercent: number;
  readonly rssMiB: number;
  /** An upper bound, in seconds, of etcd's slowest write to disk. A stall as long as the TTL ends all leases. */
  readonly slowestSync: string;
}

const { values } = parseArgs({
  options: {
    sessions: { type: 'string', default: '20000' },
    ttl: { type: 'string', default: '10' },
    minutes: { type: 'string', default: '5' },
    runs: { type: 'string', default: '1' },
    'half-core': { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(USAGE);
} else {
  const runs: Run[] = [];
  for (let run = 1; run <= Number(values.runs); run += 1) {
    process.stderr.write(`run ${run} of ${values.runs}: ${values.sessions} sessions for ${values.minutes} min\n`);
    runs.push(await measure());
    if (!values.json) process.stdout.write(textOf(run, runs.at(-1) as Run));
  }
  if (values.json) process.stdout.write(`${JSON.stringify({ ...values, results: runs })}\n`);
  if (runs.some(({ lost }) => lost > 0)) process.exitCode = 1;
}

async function measure(): Promise<Run> {
  await using etcd = await startEtcd({});
  const busy = values['half-core'] ? shareCoreWithLoop(etcd.cluster?.members[0]?.pid) : undefined;
  await using client = new Client({ endpoints: etcd.endpoints, timeoutMs: 120_000 });
  try {
    return { ...(await hold(client)), slowestSync: await slowestSync(etcd.endpoints[0] as string) };
  } finally {
    busy?.kill('SIGKILL');
  }
}

/** Returns an upper bound of the time of the slowest call of fdatasync, from the histogram in etcd's metrics. */
async function slowestSync(endpoint: string): Promise<string> {
  const metrics = await (await fetch(`${endpoint}/metrics`)).text();
  const buckets = [...metrics.matchAll(/^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)];
  const total = buckets.at(-1)?.[2];
  return buckets.find(([, , count]) => count === total)?.[1] ?? 'unknown';
}

async function hold(client: Client): Promise<Omit<Run, 'slowestSync'>> {
  let lost = 0;
  let isOver = false;
  const block = measureLongestBlock(TICK_MS);
  const startMs = performance.now();
  const noteLoss = (reason: unknown): void => {
    // When the client closes, its sessions end.
    if (isOver) return;
    if (lost === 0)
      process.stderr.write(
        `the first loss, after ${((performance.now() - startMs) / 1_000).toFixed(1)} s: ${reason}\n`,
      );
    lost += 1;
  };
  await Promise.all(
    Array.from({ length: Number(values.sessions) }, async (_, index) => {
      try {
        const session = await Session.open(client, { ttl: Number(values.ttl) });
        await new Mutex(session, `held-locks/${index}`).lock();
        session.signal.addEventListener('abort', () => noteLoss(session.signal.reason));
      } catch (error) {
        noteLoss(error);
      }
    }),
  );
  const lockedMs = performance.now() - startMs;
  const cpu = process.cpuUsage();
  await pause(Number(values.minutes) * 60_000);
  const { user, system } = process.cpuUsage(cpu);
  block.stop();
  isOver = true;
  return {
    lockedMs,
    lost,
    longestBlockMs: block.longestMs(),
    corePercent: (user + system) / 1_000 / (Number(values.minutes) * 600),
    rssMiB: process.memoryUsage().rss / 2 ** 20,
  };
}

/** Pins process `pid` and a new busy loop to the first core, so that each of them gets half of that core. */
function shareCoreWithLoop(pid: number | undefined): ChildProcess {
  if (pid === undefined) throw new Error('--half-core needs an etcd that this script can start as a process');
  execFileSync('taskset', ['--all-tasks', '--pid', '--cpu-list', '0', `${pid}`]);
  return spawn('taskset', ['--cpu-list', '0', process.execPath, '-e', 'for (;;) {}'], { stdio: 'ignore' });
}

function textOf(run: number, { lockedMs, lost, longestBlockMs, corePercent, rssMiB, slowestSync }: Run): string {
  const seconds = (lockedMs / 1_000).toFixed(1);
  return (
    `run ${run}: all locked after ${seconds} s, ${lost} sessions lost, longest block of the event loop ` +
    `${longestBlockMs.toFixed(0)} ms, ${corePercent.toFixed(1)} % of a core, ${rssMiB.toFixed(0)} MiB, slowest write to etcd's disk below ${slowestSync} s\n`
  );
}
