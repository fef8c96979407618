import { Client, op } from '../../../src/index.js';
import { type Held, withLock } from '../../../src/locks.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { spreadOf } from '../metrics.js';

// Runs unit tests with a `MemoryEtcd` and prints how long they take, in milliseconds, for scripts/bench-testing.ts.

const ROUNDS = 10;

/** Creates a server and a client, puts a key and gets it. */
async function storesColor(): Promise<void> {
  const etcd = new Client({ transport: memory(new MemoryEtcd()) });
  await etcd.put('color', 'blue');
  if ((await etcd.get('color'))?.text() !== 'blue') throw new Error('the color was not stored');
  await etcd.close();
}

function importUsers(etcd: Client, work: (held: Held) => Promise<void>): Promise<void> {
  return withLock(etcd, 'import-users', async (held) => {
    await work(held);
    await held.txn({ then: [op.put('import-users/last', 'done')] });
  });
}

/** Runs a job under a lock. The first worker learns that its lease has expired, and the next worker takes over. */
async function failsOver(): Promise<void> {
  const server = new MemoryEtcd();
  const [first, second] = [new Client({ transport: memory(server) }), new Client({ transport: memory(server) })];
  const stuck = importUsers(first, async (held) => {
    server.expireLease(held);
    await new Promise((resolve) => held.signal.addEventListener('abort', resolve));
  });
  const lost = stuck.then(
    () => 'nothing',
    ({ reason }) => reason,
  );
  await importUsers(second, async () => {});
  if ((await lost) !== 'LockLost') throw new Error('the first worker did not lose the lock');
  await Promise.all([first.close(), second.close()]);
}

async function msOf(test: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await test();
  return performance.now() - start;
}

async function medianMs(test: () => Promise<void>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) times.push(await msOf(test));
  return spreadOf(times)?.median as number;
}

const times = {
  'job under a lock, with expiry and fail-over: first test of a process': await msOf(failsOver),
  'job under a lock, with expiry and fail-over: later tests': await medianMs(failsOver),
  'put and get: later tests': await medianMs(storesColor),
};
process.stdout.write(JSON.stringify(times));
