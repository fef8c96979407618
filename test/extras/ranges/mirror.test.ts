import { describe, expect, test } from 'vitest';
import {
  Client,
  EtcdError,
  type Interceptor,
  type Mirror,
  type MirrorMessage,
  op,
  prefix,
} from '../../../src/index.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied, WATCH } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';
import { Replica, rawEvents, stateAt, writeSome } from '../../support/replica.js';
import { valueText } from '../../support/watch-events.js';

/** Number of keys in the range. The writers delete each key, and then put all of them again, and so on. */
const KEYS = 6_000;
/**
 * The number of event messages that the mirror must deliver while the writers write. Several compactions happen in this
 * time.
 */
const FOLLOWED = 300;

describe('a mirror', () => {
  test('delivers all keys, and then each change once, during concurrent writes', async () => {
    const [etcd, start] = [openClient(), `${unique('mirror')}/`];
    await fill(etcd, start, 200);
    await writeSome(etcd, start, 'before', 5);
    const writers = Promise.all(['x', 'y', 'z'].map((who) => writeSome(openClient(), start, who, 15)));
    const replica = new Replica();
    for await (const message of etcd.mirror(prefix(start))) {
      replica.take(message);
      if (message.type === 'synced') void writers.then(() => finish(etcd, start));
      if (replica.has(`${start}last`)) break;
    }
    await writers;
    await checkAgainstStore(etcd, start, replica);
    expect(new Set(replica.types.filter((type) => type !== 'keys'))).toEqual(new Set(['synced', 'events']));
    expect(replica.types[0]).toBe('keys');
  });

  test('neither misses nor repeats a change between the initial keys and the first event', async () => {
    // Use a separate server, so that every revision is the result of one of these writes.
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    await fill(etcd, 'a/', 100);
    const { header } = await etcd.put('a/x', 'the revision of the keys');
    const replica = new Replica();
    for await (const message of etcd.mirror(prefix('a/'))) {
      replica.take(message);
      if (message.type === 'synced') {
        await etcd.put('a/y', 'the very next');
        await etcd.delete('a/x');
        await finish(etcd, 'a/');
      }
      if (replica.has('a/last')) break;
    }
    expect(replica.syncedAt).toBe(header.revision);
    expect(replica.events).toEqual([
      `${header.revision + 1n} put a/y the very next`,
      `${header.revision + 2n} delete a/x `,
      `${header.revision + 3n} put a/last x`,
    ]);
  });

  test('of an empty range delivers `synced` after an empty list of keys, and delivers previous values when `prevKv` is set', async () => {
    const [etcd, key] = [openClient(), unique()];
    const messages = iterate(etcd.mirror(key, { prevKv: true }));
    expect(await next(messages, 'keys')).toMatchObject({ kvs: [] });
    await next(messages, 'synced');
    await etcd.put(key, 'one');
    await etcd.put(key, 'two');
    await next(messages, 'events');
    const { events } = await next(messages, 'events');
    expect(events.map((event) => [valueText(event), event.prevKv?.text()])).toEqual([['two', 'one']]);
  });
});

describe('a mirror over a connection that breaks', () => {
  test('continues with the next change without reading the range again', async () => {
    const { etcd: through, direct, proxy } = await proxied();
    const start = `${unique('mirror')}/`;
    await fill(direct, start, 100);
    const replica = new Replica();
    let writing: Promise<void> | undefined;
    for await (const message of through.mirror(prefix(start))) {
      replica.take(message);
      if (message.type === 'synced') writing = writeSome(direct, start, 'x', 60).then(() => finish(direct, start));
      if (message.type === 'events' && replica.states.size % 20 === 0) proxy.dropConnections();
      if (message.type === 'events' && replica.states.size % 50 === 0) proxy.reset();
      if (replica.has(`${start}last`)) break;
    }
    await writing;
    await checkAgainstStore(direct, start, replica);
    expect(replica.types).not.toContain('resync');
  });

  test('still reads all keys of its range', async () => {
    const { etcd: through, direct, proxy } = await proxied();
    const start = `${unique('mirror')}/`;
    await fill(direct, start, 300, 'x'.repeat(10_000));
    const replica = new Replica();
    for await (const message of through.mirror(prefix(start))) {
      replica.take(message);
      if (message.type === 'keys') proxy.dropConnections();
      else break;
    }
    expect(replica.types.at(-1)).toBe('synced');
    expect(replica.state).toEqual(await stateAt(direct, prefix(start), replica.syncedAt));
  });

  test('delivers a `resync` message and all keys again when the history is compacted while the client is disconnected', async () => {
    const { etcd: through, direct, proxy } = await proxied((await ownEtcd()).endpoints);
    await fill(direct, 'a/', 50);
    const messages = iterate(through.mirror(prefix('a/')));
    const replica = new Replica();
    const until = async (type: MirrorMessage['type']): Promise<MirrorMessage> => {
      for (;;) {
        const message = await next(messages);
        replica.take(message);
        if (message.type === type) return message;
      }
    };
    await until('synced');
    // Wait for an event, which shows that the watch exists. Otherwise, the compaction could happen before the watch is
    // created.
    await direct.put('a/seen', 'x');
    await until('events');
    proxy.blackhole();
    await direct.delete(prefix('a/00'));
    await direct.put('a/unseen', 'x');
    const { header } = await direct.put('b', 'outside');
    await direct.compact(header.revision);
    proxy.heal();
    const resync = await until('resync');
    expect(resync).toMatchObject({ cause: { reason: 'Compacted', compactRevision: header.revision } });
    expect(replica.state).toEqual([]);
    await until('synced');
    expect(replica.state).toEqual(await stateAt(direct, prefix('a/'), replica.syncedAt));
    await direct.put('a/after', 'x');
    await direct.delete('a/unseen');
    await until('events');
    await until('events');
    expect(replica.state).toEqual(await stateAt(direct, prefix('a/'), 0n));
    expect(replica.types.filter((type) => type !== 'keys')).toEqual([
      ...['synced', 'events', 'resync', 'synced', 'events', 'events'],
    ]);
  });
});

describe('a mirror of a range whose history is compacted after every 50 writes', () => {
  test('delivers events while writers delete and put keys, and all its messages together yield exactly the remaining keys', async () => {
    const { endpoints } = await ownEtcd();
    const [etcd, writer, start] = [openClient({ endpoints }), openClient({ endpoints }), 'a/'];
    // The range is so large that reading its pages takes longer than the time between two compactions.
    for (let at = 0; at < KEYS; at += 100)
      await writer.txn({
        then: Array.from({ length: 100 }, (_, index) => op.put(`${start}${at + index}`, 'x'.repeat(4_000))),
      });
    const keys = new Map<string, string>();
    let followed = 0;
    let writes = 0;
    const lane = async (): Promise<void> => {
      while (followed < FOLLOWED) {
        const isDeletion = Math.floor(writes / KEYS) % 2 === 0;
        const key = `${start}${writes++ % KEYS}`;
        const { header } = await (isDeletion ? writer.delete(key) : writer.put(key, 'x'.repeat(4_000)));
        // This compaction fails if another of the 20 concurrent writers has already compacted a later revision.
        if (writes % 50 === 0) await writer.compact(header.revision).catch(() => {});
      }
    };
    const stop = new AbortController();
    const writing = Promise.all(Array.from({ length: 20 }, lane)).then(() => finish(writer, start));
    writing.catch((error: unknown) => stop.abort(error));
    for await (const message of etcd.mirror(prefix(start), { signal: stop.signal })) {
      if (message.type === 'resync') keys.clear();
      if (message.type === 'keys') for (const kv of message.kvs) keys.set(kv.key, kv.text());
      for (const event of message.type === 'events' ? message.events : []) {
        if (event.type === 'put') keys.set(event.key, event.kv.text());
        else keys.delete(event.key);
      }
      if (message.type === 'events') followed += 1;
      if (keys.has(`${start}last`)) break;
    }
    await writing;
    expect(followed).toBeGreaterThanOrEqual(FOLLOWED);
    const left = await stateAt(writer, prefix(start), 0n);
    expect([...keys].map(([key, value]) => `${key}=${value}`).sort()).toEqual(left);
  });
});

describe('a mirror ends', () => {
  test('when its consumer breaks out of the loop, and cancels its watch', async () => {
    const { transport, sent } = recordingTransport();
    const [etcd, key] = [openClient({ transport }), unique()];
    for await (const { type } of etcd.mirror(key)) {
      if (type === 'synced') await etcd.put(key, 'x');
      if (type === 'events') break;
    }
    const kinds = sent.filter(({ path }) => path === WATCH).map(({ request }) => Object(request).requestUnion.case);
    expect(kinds).toEqual(['createRequest', 'cancelRequest']);
  });

  test.each(['before the mirror starts', 'after the first keys', 'after a change'])(
    'with reason Canceled when its signal aborts %s',
    async (when) => {
      const [etcd, key, stop] = [openClient(), unique(), new AbortController()];
      const messages = iterate(etcd.mirror(key, { signal: stop.signal }));
      if (when === 'after the first keys') await next(messages, 'keys');
      if (when === 'after a change') {
        await next(messages, 'synced');
        await etcd.put(key, 'x');
        await next(messages, 'events');
      }
      const ended = when === 'before the mirror starts' ? undefined : errorOf(drained(messages));
      stop.abort(new Error('enough'));
      expect(await (ended ?? errorOf(messages.next()))).toMatchObject({
        reason: 'Canceled',
        cause: { message: 'enough' },
      });
      expect(await messages.next()).toMatchObject({ done: true });
    },
  );

  test('when its signal aborts with an error that would otherwise cause a resync', async () => {
    const [etcd, key, stop] = [openClient(), unique(), new AbortController()];
    const messages = iterate(etcd.mirror(key, { signal: stop.signal }));
    await next(messages, 'synced');
    const following = errorOf(messages.next());
    stop.abort(new EtcdError('too late', { code: 'DeadlineExceeded', reason: 'DeadlineExceeded', outcome: 'unknown' }));
    expect(await following).toMatchObject({ problem: 'too late' });
  });

  test('without an error when the client is closed', async () => {
    const etcd = openClient();
    const messages = iterate(etcd.mirror(unique()));
    await next(messages, 'synced');
    const following = drained(messages);
    await etcd.close();
    await following;
  });

  test('with an error when its keys are invalid', async () => {
    expect(await errorOf(() => openClient().mirror(''))).toMatchObject({ reason: 'InvalidInput' });
  });

  test('with reason Canceled when its signal aborts while no server answers', async () => {
    const stop = new AbortController();
    let reads = 0;
    const counts: Interceptor = {
      unary: (call, next) => {
        reads += 1;
        return next(call);
      },
    };
    const dead = openClient({ endpoints: ['http://127.0.0.1:1'], timeoutMs: 50, interceptors: [counts] });
    const ended = errorOf(iterate(dead.mirror('a', { signal: stop.signal })).next());
    // The mirror reads again after a read has timed out.
    await expect.poll(() => reads).toBeGreaterThan(2);
    stop.abort();
    expect(await ended).toMatchObject({ reason: 'Canceled' });
  });
});

/** Compares the replica's state at every revision, and the events of the replica, with the history of the store. */
async function checkAgainstStore(etcd: Client, start: string, replica: Replica): Promise<void> {
  for (const [revision, state] of replica.states) expect(state).toEqual(await stateAt(etcd, prefix(start), revision));
  expect(replica.states.size).toBeGreaterThan(50);
  expect(replica.events).toEqual(await rawEvents(etcd, start, replica.syncedAt, `${start}last`));
}

async function fill(etcd: Client, start: string, count: number, value = 'x'): Promise<void> {
  for (let at = 0; at < count; at += 50) {
    const name = (index: number): string => `${start}${String(at + index).padStart(3, '0')}`;
    await etcd.txn({ then: Array.from({ length: 50 }, (_, index) => op.put(name(index), value)) });
  }
}

async function finish(etcd: Client, start: string): Promise<void> {
  await etcd.put(`${start}last`, 'x');
}

function iterate(mirror: Mirror): AsyncIterator<MirrorMessage> {
  return mirror[Symbol.asyncIterator]();
}

type OfType<Type extends MirrorMessage['type']> = Extract<MirrorMessage, { type: Type }>;

/** Returns the next message. If `type` is given, skips messages until one has this type and satisfies `suits`. */
async function next<Type extends MirrorMessage['type']>(
  messages: AsyncIterator<MirrorMessage>,
  type?: Type,
  suits: (message: OfType<Type>) => boolean = () => true,
): Promise<OfType<Type>> {
  for (;;) {
    const { value, done } = await messages.next();
    if (done) throw new Error('the mirror ended before the expected message');
    const message = value as OfType<Type>;
    if (type === undefined || (message.type === type && suits(message))) return message;
  }
}

async function drained(messages: AsyncIterator<MirrorMessage>): Promise<void> {
  while (!(await messages.next()).done);
}

test('a mirror ends without an error when its client closes, also while no server answers', async () => {
  const server = new MemoryEtcd();
  const etcd = new Client({ transport: memory(server) });
  server.stop();
  const mirroring = (async () => {
    for await (const _ of etcd.mirror('a'));
  })();
  await etcd.close({ drainMs: 0 });
  await mirroring;
});
