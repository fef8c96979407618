import { join } from 'node:path';
import { getHeapSnapshot, writeHeapSnapshot } from 'node:v8';
import { Client } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';

// Measures one row of `memory.ts` in a separate process:
//   child.mjs TASK ENDPOINT COUNT [FOLDER_FOR_SNAPSHOTS]

const BYTES_PER_KB = 1_000;
/** Number of items before the first measurement, so that code and shared structures are not counted. */
const WARM_UP = 20;
/**
 * Number of garbage collections before a measurement. Each collection may free objects that the previous collection
 * made unreachable.
 */
const COLLECTIONS = 5;
/** Sessions that are opened at a time. */
const TOGETHER = 50;

const [task, endpoint = '', count = '', folder] = process.argv.slice(2);
/** Keeps the measured objects in memory. */
const kept: unknown[] = [];

/** Adds `count` items. `first` is the number of items before. */
type AddItems = (first: number, count: number) => Promise<void>;

const open = (options = {}): Client => new Client({ endpoints: [endpoint], ...options });

const TASKS = {
  'iterated watches': () => {
    const etcd = open();
    return async (first: number, count: number) => {
      const watches = Array.from({ length: count }, (_, index) => etcd.watch(`memory/${first + index}`));
      for (const watch of watches) void iterate(watch);
      await Promise.all(watches.map((watch) => watch.created()));
    };
  },
  'sent puts': () => puts(open({ maxInFlight: 1_000_000 })),
  'queued puts': () => puts(open()),
  sessions: () => {
    const etcd = open();
    return (first: number, count: number) => inGroups(first, count, () => Session.open(etcd, { ttl: 600 }));
  },
  'held locks': () => {
    const etcd = open();
    return (first: number, count: number) =>
      inGroups(first, count, async (index) =>
        new Mutex(await Session.open(etcd, { ttl: 600 }), `memory/lock/${index}`).lock(),
      );
  },
} satisfies Record<string, () => AddItems>;
export type MemoryTask = keyof typeof TASKS | 'idle client';

async function iterate(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of events);
}

function puts(etcd: Client): AddItems {
  return async (first, count) => {
    for (let index = first; index < first + count; index += 1) void etcd.put(`memory/${index}`, 'value');
  };
}

async function inGroups(first: number, count: number, open: (index: number) => Promise<unknown>): Promise<void> {
  for (let done = 0; done < count; done += TOGETHER) {
    const group = Array.from({ length: Math.min(TOGETHER, count - done) }, (_, index) => open(first + done + index));
    kept.push(...(await Promise.all(group)));
  }
}

async function settled(): Promise<void> {
  for (let pass = 0; pass < COLLECTIONS; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    globalThis.gc?.();
  }
}

async function bytesInUse(snapshot: string): Promise<number> {
  await settled();
  const { heapUsed, external } = process.memoryUsage();
  if (folder !== undefined) writeHeapSnapshot(join(folder, `${task}-${snapshot}.heapsnapshot`.replaceAll(' ', '-')));
  return heapUsed + external;
}

async function bytesEach(addItems: AddItems): Promise<number> {
  await addItems(0, WARM_UP);
  const before = await bytesInUse('before');
  await addItems(WARM_UP, Number(count));
  return ((await bytesInUse('after')) - before) / Number(count);
}

/** Returns the sizes of all ArrayBuffers in bytes. The largest comes first. */
async function bufferSizes(): Promise<number[]> {
  await settled();
  let text = '';
  for await (const part of getHeapSnapshot()) text += part;
  const { snapshot, nodes, strings } = JSON.parse(text);
  const fields: string[] = snapshot.meta.node_fields;
  const [name, size] = [fields.indexOf('name'), fields.indexOf('self_size')];
  const sizes: number[] = [];
  for (let at = 0; at < nodes.length; at += fields.length)
    if (strings[nodes[at + name]] === 'system / JSArrayBufferData') sizes.push(nodes[at + size]);
  return sizes.sort((a, b) => b - a);
}

/** Returns the size of the largest buffer that the process did not have before the client connected. */
async function largestOfIdle(): Promise<number> {
  const before = await bufferSizes();
  const etcd = open();
  await Promise.all(Array.from({ length: WARM_UP }, (_, index) => etcd.put(`memory/${index}`, 'v'.repeat(10_000))));
  kept.push(etcd);
  const added = await bufferSizes();
  for (const size of before) if (added.includes(size)) added.splice(added.indexOf(size), 1);
  return added[0] ?? 0;
}

const bytes = task === 'idle client' ? await largestOfIdle() : await bytesEach(TASKS[task as keyof typeof TASKS]());
process.stdout.write((bytes / BYTES_PER_KB).toFixed(2), () => process.exit());
