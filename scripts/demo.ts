import { parseArgs } from 'node:util';
import { type Client, prefix } from '../src/index.js';
import { startServer } from './demo/server.js';
import { LEDGER, type LedgerEntry, LOCK, openClient, type WorkerEvent } from './demo/shared.js';
import { Timeline } from './demo/timeline.js';
import { WorkerProcess } from './demo/worker-process.js';

// Three worker processes queue for a lock on a real etcd, or on an etcd in the memory of this process. The script
// suspends the first worker and kills the second worker, each while it holds the lock. Then the third worker takes the
// lock. While it works, the script resumes the first worker, and etcd refuses the write that this worker tries.

const USAGE = `npm run demo [-- --memory]

Shows that a lock stays safe while its holders are paused and killed. With --memory, the server is an etcd in the memory
of the demo's process instead of a real etcd. The demo also uses this server if it cannot start a real etcd.
ETCDWIRE_TRANSPORT=http2|grpc-js chooses the transport.
`;

/** TTL of the workers' leases in seconds: the shortest TTL that etcd grants with its default election timeout. */
const TTL = 2;

/** The names of the workers by their queue keys, in the order in which the workers queued. */
const queue = new Map<string, string>();
const timeline = new Timeline();

async function main(inMemory: boolean): Promise<number> {
  const etcd = await startServer(inMemory, (reason) =>
    process.stderr.write(`${reason}\nThe demo uses an etcd in memory instead.\n`),
  );
  timeline.title(`Three processes, one lock, ${etcd.isReal ? 'a real etcd' : 'an etcd in memory'}`);
  const client = openClient(etcd.endpoints);
  try {
    timeline.line('etcd', `${etcd.description} listens on ${etcd.endpoints.join(', ')}`);
    await client.delete(prefix(LEDGER));
    void follow(client);
    const lastWrite = await play(client, etcd.endpoints);
    return await verdict(client, lastWrite);
  } finally {
    await client.close();
    await etcd.close();
  }
}

/** Runs the scenario. Resolves with the result of the write that the resumed worker tried. */
async function play(client: Client, endpoints: readonly string[]): Promise<WorkerEvent> {
  const a = await enter(client, endpoints, 'A', 99);
  const b = await enter(client, endpoints, 'B', 99);
  const c = await enter(client, endpoints, 'C', 4);
  await a.event('wrote', ({ entry }) => entry === 3);
  a.signal('SIGSTOP');
  timeline.line('script', `pauses A while it holds the lock (SIGSTOP); A's lease expires after ${TTL} s`);
  await b.event('wrote', ({ entry }) => entry === 3);
  b.signal('SIGKILL');
  timeline.line('script', 'kills B while it holds the lock (SIGKILL)');
  await c.event('wrote', ({ entry }) => entry === 2);
  a.signal('SIGCONT');
  timeline.line('script', 'resumes A, which still believes that it holds the lock (SIGCONT)');
  const attempt = await Promise.race([a.event('refused'), a.event('wrote stale')]);
  await c.event('released');
  return attempt;
}

/** Starts a worker and waits until it has queued, so that the workers queue in a fixed order. */
async function enter(
  client: Client,
  endpoints: readonly string[],
  name: string,
  entries: number,
): Promise<WorkerProcess> {
  const queued = client.watch(prefix(`${LOCK}/`), { only: 'put' });
  await queued.created();
  const worker = new WorkerProcess(name, [endpoints.join(','), name, String(TTL), String(entries)], (event) => {
    const text = describe(event);
    if (text !== undefined) timeline.line(name, text, 'revision' in event ? BigInt(event.revision) : undefined);
  });
  for await (const event of queued) {
    queue.set(event.key, name);
    timeline.line(name, `queues as number ${queue.size}, process ${worker.pid}`, event.modRevision);
    break;
  }
  return worker;
}

/** Prints the entries of the ledger and the deletions of queue keys as they happen. */
async function follow(client: Client): Promise<void> {
  await Promise.all([
    (async () => {
      for await (const event of client.watch(prefix(LEDGER), { only: 'put' })) {
        if (event.type !== 'put') continue;
        const { worker, entry } = event.kv.json() as LedgerEntry;
        timeline.line('ledger', `${worker} wrote entry ${entry}`, event.modRevision);
      }
    })(),
    (async () => {
      for await (const event of client.watch(prefix(`${LOCK}/`), { only: 'delete' })) {
        timeline.line('etcd', `deletes the queue key of ${queue.get(event.key)}`, event.modRevision);
      }
    })(),
  ]).catch(() => {}); // The watches fail when the client closes at the end.
}

function describe(event: WorkerEvent): string | undefined {
  switch (event.type) {
    case 'holds':
      return `holds the lock, with fencing token ${event.token}`;
    case 'wrote':
      return undefined;
    case 'released':
      return 'has finished and releases the lock';
    case 'lost':
      return `learns that it lost the lock: ${event.why}`;
    case 'refused':
      return "tries to write anyway; etcd refuses the write, because the fencing token is not the holder's";
    case 'wrote stale':
      return 'WROTE WITHOUT HOLDING THE LOCK';
  }
}

async function verdict(client: Client, attempt: WorkerEvent): Promise<number> {
  const { kvs } = await client.range(prefix(LEDGER));
  const entries = kvs.map((kv) => ({ ...(kv.json() as LedgerEntry), revision: kv.modRevision }));
  const problems = checkLedger(entries, [...queue.values()]);
  if (attempt.type !== 'refused') problems.push('the paused worker wrote after it lost the lock');
  timeline.title(problems.length === 0 ? 'The ledger is correct' : 'The ledger is WRONG');
  for (const worker of queue.values()) {
    const own = entries.filter((entry) => entry.worker === worker);
    timeline.plain(`${worker}: token ${own[0]?.token}, entries ${own.map(({ entry }) => entry).join(' ')}`);
  }
  for (const problem of problems) timeline.plain(problem);
  if (problems.length === 0)
    timeline.plain(
      'The workers wrote in the order of the queue. Fencing tokens never decreased. No stale write succeeded.',
    );
  return problems.length === 0 ? 0 : 1;
}

/** Returns the problems in the ledger. `queue` contains the workers in the order in which they queued. */
function checkLedger(
  entries: readonly (LedgerEntry & { readonly revision: bigint })[],
  queue: readonly string[],
): string[] {
  const problems: string[] = [];
  const written = [...entries].sort((x, y) => (x.revision < y.revision ? -1 : 1));
  const order = written.map(({ worker }) => worker).filter((worker, index, all) => worker !== all[index - 1]);
  if (order.join() !== queue.join())
    problems.push(`the workers wrote in the order ${order.join()}, but they queued in the order ${queue.join()}`);
  written.forEach((entry, index) => {
    const before = written[index - 1];
    if (before !== undefined && BigInt(entry.token) < BigInt(before.token)) {
      problems.push(
        `stale write: ${entry.worker} with token ${entry.token} after ${before.worker} with token ${before.token}`,
      );
    }
    const expected = before?.worker === entry.worker ? before.entry + 1 : 1;
    if (entry.entry !== expected) problems.push(`${entry.worker} wrote entry ${entry.entry} instead of ${expected}`);
  });
  return problems;
}

try {
  const { values } = parseArgs({
    options: { memory: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
  });
  if (values.help) process.stdout.write(USAGE);
  else process.exitCode = await main(values.memory);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
  process.exitCode = 2;
}
