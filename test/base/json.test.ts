import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Client, compare, fromKey, health, json, keyRange, op, prefix, typed } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { WorkQueue } from '../../src/recipes.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';
import { CALLS, rightArguments, type World } from '../support/public-calls.js';

// `JSON.stringify` throws a TypeError for a bigint, and writes bytes as `{"0":106,…}`. So each result that contains
// bigints or bytes has a method `toJSON`.

let world: World;

beforeAll(async () => {
  const server = new MemoryEtcd();
  const etcd = new Client({ transport: memory(server) });
  await etcd.put('key', '1');
  world = { server, etcd, session: await Session.open(etcd) };
});

afterAll(() => world.etcd.close({ drainMs: 0 }));

/** Bytes, or a map of bytes by their indexes, which is how `JSON.stringify` writes bytes. */
const BYTES = /\{"0":\d+[,}]/;
const BYTES_PRINTED = /Uint8Array\(\d+\)|Buffer\(\d+\)|<Buffer/;

function problemsOf(value: unknown): readonly string[] {
  const problems: string[] = [];
  // A single revision is not the field of a result.
  if (typeof value === 'bigint') return problems;
  try {
    const text = JSON.stringify(value);
    if (BYTES.test(text)) problems.push(`writes bytes as numbers: ${text}`);
  } catch (error) {
    problems.push(String(error));
  }
  const printed = inspect(value, { depth: 10 });
  if (BYTES_PRINTED.test(printed)) problems.push(`prints bytes as numbers: ${printed}`);
  return problems;
}

/** Resolves with what a function returns. Undefined if the call fails or still waits after 200 ms. */
async function resultOf(call: () => unknown): Promise<unknown> {
  const waiting = new Promise((resolve) => void setTimeout(resolve, 200, undefined));
  const calling = (async () => call())().catch(() => undefined);
  return Promise.race([calling, waiting]);
}

describe.each(
  Object.entries(CALLS).filter(([name, { isRemote }]) => !isRemote && !/^new |^CoreClient.close/.test(name)),
)('the result of %s', (_, entry) => {
  test('can be written as JSON and be printed', async () => {
    const call = (await entry.make(world)) as (...given: unknown[]) => unknown;
    expect(problemsOf(await resultOf(() => call(...rightArguments(entry, world))))).toEqual([]);
  });
});

async function first<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  for await (const item of items) return item;
  return undefined;
}

const SAMPLES: Readonly<Record<string, (world: World) => unknown>> = {
  'a PutEvent': async ({ etcd }) => first(etcd.watch('key', { startRevision: 1n, prevKv: true })),
  'a DeleteEvent': async ({ etcd }) => {
    await etcd.put('gone', '1');
    const { header } = await etcd.delete('gone');
    return first(etcd.watch('gone', { startRevision: header.revision, prevKv: true }));
  },
  'a WatchBatch': async ({ etcd }) => first(etcd.watch('key', { startRevision: 1n }).batches()),
  'a message of a mirror with keys': ({ etcd }) => first(etcd.mirror(prefix('key'))),
  'a message of a mirror with events': ({ etcd }) => first(etcd.mirror(prefix('key'), { fromRevision: 1n })),
  'a scan': ({ etcd }) => first(etcd.scan(prefix('key'))),
  'the changes of a cached range': async ({ etcd }) => {
    const cached = await etcd.cachedRange(prefix('key'));
    return first(cached.changes({ initial: true }));
  },
  'the health of a client': ({ etcd }) => health(etcd),
  'a range of keys': () => [prefix('a'), fromKey('a'), keyRange('a', 'b')],
  'a comparison': () => [
    compare.createRevision('a', '==', 1n),
    compare.value('a', '==', 'b'),
    compare.lease('a', '>', 1n),
  ],
  'an operation': () => [
    op.get('a', { revision: 1n }),
    op.put('a', 'b', { lease: 1n }),
    op.delete(prefix('a')),
    op.range(prefix('a'), { minModRevision: 1n }),
    op.txn({ if: [compare.missing('a')], then: [op.put('a', 'b')] }),
  ],
  'typed keys': ({ etcd }) => typed(etcd, 'a/', json(Number)),
  'a value of typed keys': async ({ etcd }) => {
    const numbers = typed(etcd, 'a/', json(Number));
    await numbers.put('b', 1);
    return [await numbers.get('b'), await numbers.range(), await first(numbers.watch({ startRevision: 1n }))];
  },
  'an event of a client': async ({ etcd }) => {
    const events: unknown[] = [];
    const off = etcd.onEvent((event) => void events.push(event));
    etcd.setEndpoints(['http://127.0.0.1:1']);
    off();
    return events[0];
  },
  'a keepalive': ({ etcd, session }) => etcd.lease.keepAlive(session.leaseId),
  'a job': async ({ etcd, session }) => {
    const queue = new WorkQueue(etcd, 'json-jobs');
    await queue.enqueue('x');
    return queue.take(session);
  },
  'a response of `raw`': async ({ etcd, session }) => [
    await etcd.raw.kv.range({ key: new TextEncoder().encode('key') }),
    await etcd.raw.lease.leaseTimeToLive({ id: session.leaseId, keys: true }),
  ],
  'a message of a stream of `raw`': async ({ etcd }) => {
    const watch = etcd.raw.watch.watch();
    const value = { key: new TextEncoder().encode('key'), startRevision: 1n };
    watch.send({ requestUnion: { case: 'createRequest', value } });
    await watch.next();
    return first(watch);
  },
  'a message of a server stream of `raw`': async ({ etcd }) => {
    const snapshot = await first(etcd.raw.maintenance.snapshot({}));
    // Bytes that are not text are printed as such.
    return Object.assign(snapshot as object, { blob: new Uint8Array() });
  },
  'a held lock': ({ session }) => new Mutex(session, 'json-lock').lock(),
  'a session': ({ session }) => session,
  'a client': ({ etcd }) => etcd,
};

test.each(Object.entries(SAMPLES))('%s can be written as JSON and be printed', async (_, sample) => {
  const value = await sample(world);
  expect(value).toBeDefined();
  expect(problemsOf(value)).toEqual([]);
});
