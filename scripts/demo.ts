import { type Client, prefix } from '../src/index.js';
import { checkLedger } from './demo/check-ledger.js';
import { openClient } from './demo/open-client.js';
import { LEDGER, type LedgerEntry, LOCK, type WorkerEvent } from './demo/story.js';
import { Timeline } from './demo/timeline.js';
import { WorkerProcess } from './demo/worker-process.js';
import { startEtcd } from './etcd.js';

// Three processes take a fair lock on a real etcd. The first is paused while it holds the lock, the second is killed
// while it holds it; the third does the work, and the first, woken up, is refused.

/** Seconds; the least that etcd grants with its default election timeout. */
const TTL = 2;

/** Workers by the key that stands for them in the queue, in the order in which they queued. */
const queue = new Map<string, string>();
const timeline = new Timeline();

async function main(): Promise<number> {
  timeline.title('Three processes, one lock, a real etcd');
  const etcd = await startEtcd({ prefer: 'quick' });
  const client = openClient(etcd.endpoints);
  try {
    timeline.line('etcd', `${etcd.version ?? ''} serves at ${etcd.endpoints.join(', ')}`);
    await client.delete(prefix(LEDGER));
    void follow(client);
    const refused = await play(client, etcd.endpoints);
    return await verdict(client, refused);
  } finally {
    await client.close();
    await etcd.stop();
  }
}

/** The story. Gives what came of the write that the woken worker tried. */
async function play(client: Client, endpoints: readonly string[]): Promise<WorkerEvent> {
  const a = await enter(client, endpoints, 'A', 99);
  const b = await enter(client, endpoints, 'B', 99);
  const c = await enter(client, endpoints, 'C', 4);
  await a.told('wrote', ({ entry }) => entry === 3);
  a.signal('SIGSTOP');
  timeline.line('director', `pauses A while it holds the lock (SIGSTOP); its lease has ${TTL} s to live`);
  await b.told('wrote', ({ entry }) => entry === 3);
  b.signal('SIGKILL');
  timeline.line('director', 'kills B while it holds the lock (SIGKILL)');
  await c.told('wrote', ({ entry }) => entry === 2);
  a.signal('SIGCONT');
  timeline.line('director', 'wakes A, which thinks that it holds the lock (SIGCONT)');
  const attempt = await Promise.race([a.told('refused'), a.told('wrote stale')]);
  await c.told('released');
  return attempt;
}

/** Starts a worker and waits until it is in the queue, so that the queue's order is that of the story. */
async function enter(
  client: Client,
  endpoints: readonly string[],
  name: string,
  entries: number,
): Promise<WorkerProcess> {
  const queued = client.watch(prefix(`${LOCK}/`), { filters: ['noDelete'] });
  await queued.created();
  const worker = new WorkerProcess(name, [endpoints.join(','), name, String(TTL), String(entries)], (event) => {
    const text = describe(event);
    if (text !== undefined) timeline.line(name, text, 'revision' in event ? BigInt(event.revision) : undefined);
  });
  for await (const { kv } of queued) {
    queue.set(kv.keyText(), name);
    timeline.line(name, `queues, process ${worker.pid}, number ${queue.size} in line`, kv.createRevision);
    break;
  }
  return worker;
}

/** Shows the ledger as it grows, and the places in the queue as they fall vacant. */
async function follow(client: Client): Promise<void> {
  await Promise.all([
    (async () => {
      for await (const { kv } of client.watch(prefix(LEDGER), { filters: ['noDelete'] })) {
        const { worker, entry } = kv.json<LedgerEntry>();
        timeline.line('ledger', `${worker} wrote entry ${entry}`, kv.modRevision);
      }
    })(),
    (async () => {
      for await (const { kv } of client.watch(prefix(`${LOCK}/`), { filters: ['noPut'] })) {
        timeline.line('etcd', `${queue.get(kv.keyText())} is out of the queue`, kv.modRevision);
      }
    })(),
  ]).catch(() => {}); // The client is closed when the story ends.
}

function describe(event: WorkerEvent): string | undefined {
  switch (event.type) {
    case 'holds':
      return `holds the lock, with fencing token ${event.token}`;
    case 'wrote':
      return undefined;
    case 'released':
      return 'is done and releases the lock';
    case 'lost':
      return `is told: ${event.why}`;
    case 'refused':
      return 'tries to write all the same, and etcd refuses: the token is not the holder’s';
    case 'wrote stale':
      return 'WROTE WITHOUT HOLDING THE LOCK';
  }
}

async function verdict(client: Client, attempt: WorkerEvent): Promise<number> {
  const { kvs } = await client.range(prefix(LEDGER));
  const entries = kvs.map((kv) => ({ ...kv.json<LedgerEntry>(), revision: kv.modRevision }));
  const problems = checkLedger(entries, [...queue.values()]);
  if (attempt.type !== 'refused') problems.push('the paused worker wrote after it had lost the lock');
  timeline.title(problems.length === 0 ? 'The ledger is right' : 'The ledger is WRONG');
  for (const worker of queue.values()) {
    const own = entries.filter((entry) => entry.worker === worker);
    timeline.plain(`${worker}: token ${own[0]?.token}, entries ${own.map(({ entry }) => entry).join(' ')}`);
  }
  for (const problem of problems) timeline.plain(problem);
  if (problems.length === 0)
    timeline.plain('Order of the ledger = order of the queue; tokens only grow; no stale write.');
  return problems.length === 0 ? 0 : 1;
}

process.exitCode = await main();
