import { setTimeout as sleep } from 'node:timers/promises';
import { run } from '../packages/cli/src/program.js';
import { Client, prefix } from '../src/index.js';
import { Mutex, Session } from '../src/locks.js';

const LOCK = 'jobs/nightly';
/** How long, in milliseconds, a contender holds the lock: long enough for visible bars in the chart of the queue. */
const HOLD_MS = 300;

/**
 * Writes the page that `etcdwire trace --html` generates for a command that waits for a lock: one contender is ahead of
 * the command in the queue, and another is behind the command.
 */
export async function writeLockTrace(endpoint: string, file: string): Promise<void> {
  await using etcd = new Client({ endpoints: [endpoint] });
  const queued = async (count: number): Promise<void> => {
    while ((await etcd.range(prefix(`${LOCK}/`))).count < count) await sleep(5);
  };
  const first = await new Mutex(await Session.open(etcd), LOCK).lock();
  const command = ['lock', LOCK, '--', 'sleep', String(HOLD_MS / 1_000)];
  let problem = '';
  const traced = run(['trace', '--html', file, '--', '--endpoints', endpoint, ...command], {
    stdin: process.stdin,
    stdout: { write: () => true },
    stderr: {
      write: (text) => {
        problem += text;
        return true;
      },
    },
    interrupted: new AbortController().signal,
  });
  await queued(2);
  const third = new Mutex(await Session.open(etcd), LOCK).lock();
  await queued(3);
  await sleep(HOLD_MS);
  await first.release();
  const held = await third;
  if ((await traced) !== 0) throw new Error(`etcdwire trace failed: ${problem}`);
  await held.release();
}
