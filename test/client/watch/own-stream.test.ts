import { afterEach, beforeEach, expect, test } from 'vitest';
import { ClientEvents } from '../../../src/base/log.js';
import { prefix } from '../../../src/client/kv/keys.js';
import { KeyWatch, type Watch, type WatchOptions } from '../../../src/client/watch/watch.js';
import { WatchStream } from '../../../src/client/watch/watch-stream.js';
import { methods } from '../../../src/gen/methods.js';
import { ClusterIdentity } from '../../../src/rpc/cluster-identity.js';
import { Rpc, type RpcSettings } from '../../../src/rpc/rpc.js';
import type { Transport } from '../../../src/wire/transport.js';
import { errorOf } from '../../support/errors.js';
import { SimulatedStore, SimulatedWatchStream } from '../../support/simulated-watches.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// A watch that is far behind the store has a stream of its own until the server has sent it all past events. Codes such
// as S11 are rules in docs/semantics.md.

const LONG_MS = 60_000;

let clock: VirtualClock;
let store: SimulatedStore;
let streams: SimulatedWatchStream[];
let shared: WatchStream;
let cluster: ClusterIdentity;

beforeEach(() => {
  clock = new VirtualClock();
  store = new SimulatedStore();
  streams = [];
  const transport: Transport = {
    unary: () => new Promise<never>(() => {}),
    stream: (_call, handler) => {
      const stream = new SimulatedWatchStream(store, handler as never, () => true);
      streams.push(stream);
      return stream as never;
    },
    close: async () => {},
  };
  cluster = new ClusterIdentity();
  const { signal: closed } = new AbortController();
  const settings: RpcSettings = { timeoutMs: 1_000, renewsTokens: false, closed, cluster, events: new ClientEvents() };
  shared = new WatchStream(new Rpc(transport, settings));
});

afterEach(() => clock.restore());

test('a watch that begins far behind the store gets a stream of its own, and the other watches stay on the shared stream', async () => {
  const sibling = open('sibling');
  putAll(1_500);
  const far = open('a', { startRevision: 2n });
  expect(opened()).toHaveLength(2);
  store.put(['sibling']);
  streams[0]?.sync(0, 1, 1);
  streams[0]?.deliver(1);
  expect((await sibling.next()).value?.events[0]?.key).toBe('sibling');
  expect(await taken(far, 1_500)).toEqual(revisions(2, 1_500));
});

test('a watch that begins a few revisions behind the store stays on the shared stream', async () => {
  open('sibling');
  putAll(20);
  const near = open('a', { startRevision: 2n });
  expect(await taken(near, 20)).toEqual(revisions(2, 20));
  expect(streams).toHaveLength(1);
});

test('a watch of one key that begins far behind the store stays on the shared stream, because it has few events', async () => {
  putAll(100);
  store.put(['one']);
  const watch = new KeyWatch(shared, 'one', { startRevision: 2n });
  serve();
  expect(await taken(watch.batches(), 1)).toEqual([102n]);
  expect(streams).toHaveLength(1);
});

test('a watch returns to the shared stream when the server has sent it all past events', async () => {
  putAll(100);
  const far = open('a', { startRevision: 2n });
  await taken(far, 100);
  expect(opened()).toEqual([streams[0]]);
  putAll(1);
  expect(await taken(far, 1)).toEqual([102n]);
});

test('a watch without past events returns to the shared stream when the server reports its progress', async () => {
  putAll(100);
  open('b', { startRevision: 2n });
  expect(opened()).toHaveLength(2);
  streams[1]?.notify(0);
  serve();
  expect(opened()).toEqual([streams[0]]);
});

test('a watch gets a stream of its own after a full response, and continues after its last event', async () => {
  const watch = open('a');
  for (const each of streams) each.break(1);
  putAll(2_500);
  await clock.pass(2_000);
  expect(await taken(watch, 2_500)).toEqual(revisions(2, 2_500));
  expect(streams.length).toBeGreaterThan(2);
});

test('at most four watches have a stream of their own, and the others catch up on the shared stream', async () => {
  putAll(100);
  const watches = Array.from({ length: 7 }, () => open('a', { startRevision: 2n }));
  expect(opened()).toHaveLength(5);
  for (const each of watches) expect(await taken(each, 100)).toEqual(revisions(2, 100));
  expect(opened()).toHaveLength(1);
  const next = Array.from({ length: 5 }, () => open('a', { startRevision: 2n }));
  expect(opened()).toHaveLength(5);
  for (const each of next) expect(await taken(each, 100)).toEqual(revisions(2, 100));
});

test('a watch with a stream of its own pauses the stream while its consumer is slow, and is not created again (S11)', async () => {
  putAll(1_500);
  const slow = open('a', { startRevision: 2n, bufferBytes: 10_000, progress: true });
  const before = streams.length;
  for (let first = 2; first < 1_502; first += 10) {
    expect(await taken(slow, 10)).toEqual(revisions(first, 10));
    await clock.pass(20);
  }
  // The client opens one more stream, when the watch returns to the shared stream.
  expect(streams.length - before).toBeLessThanOrEqual(1);
});

test('a watch that continues far behind the store after a full buffer stays on a stream of its own until it has caught up (S11)', async () => {
  open('sibling');
  const slow = open('a', { bufferBytes: 1 });
  fillBuffer();
  putAll(200);
  learnRevision();
  const before = streams.length;
  expect((await slow.next()).value?.revision).toBe(2n);
  expect(await stillOpened(before)).toHaveLength(1);
  expect(await taken(slow, 204)).toEqual(revisions(3, 204));
  expect([streams.length - before, opened()]).toEqual([1, [streams[0]]]);
});

test('a watch stays on its own stream after a pause in which the store has moved far ahead (S11)', async () => {
  open('sibling');
  putAll(100);
  const slow = open('a', { startRevision: 2n, bufferBytes: 1 });
  streams[1]?.sync(0, 1_000, 1_000);
  streams[1]?.deliver(1);
  putAll(200);
  learnRevision();
  for (let revision = 2n; revision <= 101n; revision += 1n) expect((await slow.next()).value?.revision).toBe(revision);
  expect(await stillOpened(1)).toEqual([streams[1]]);
  expect(await taken(slow, 200)).toEqual(revisions(102, 200));
  expect(opened()).toEqual([streams[0]]);
});

test('a watch whose consumer takes nothing for 5 s closes its own stream, and continues when the consumer takes events again (S11)', async () => {
  putAll(1_500);
  const slow = open('a', { startRevision: 2n, bufferBytes: 10_000, progress: true });
  streams[1]?.sync(0, 1_000, 1_000);
  streams[1]?.deliver(1);
  expect(opened()).toContain(streams[1]);
  await clock.pass(5_001);
  expect(opened()).not.toContain(streams[1]);
  expect(await taken(slow, 1_500)).toEqual(revisions(2, 1_500));
});

test('a watch that is closed while its own stream is paused ends the stream', async () => {
  putAll(1_500);
  const watch = new KeyWatch(shared, prefix('a'), { startRevision: 2n, bufferBytes: 10_000 });
  serve();
  streams[1]?.sync(0, 1_000, 1_000);
  streams[1]?.deliver(1);
  await watch.close();
  await clock.pass(LONG_MS);
  expect([opened(), clock.timers]).toEqual([[], 0]);
});

test('a watch that is closed on its own stream lets another watch that is far behind have one', async () => {
  open('sibling');
  putAll(1_500);
  const far = Array.from({ length: 4 }, () => new KeyWatch(shared, prefix('a'), { startRevision: 2n }));
  serve();
  expect(opened()).toHaveLength(5);
  for (const watch of far) await watch.close();
  open('a', { startRevision: 2n });
  expect(opened()).toHaveLength(2);
});

test('closing a keyspace ends a watch that has a stream of its own, and the keyspace refuses new watches', async () => {
  const sibling = open('sibling');
  putAll(1_500);
  const far = open('a', { startRevision: 2n });
  expect(opened()).toHaveLength(2);
  shared.close();
  expect(opened()).toEqual([]);
  expect(await Promise.all([sibling.next(), far.next()])).toEqual([
    { done: true, value: undefined },
    { done: true, value: undefined },
  ]);
  const refused = [new KeyWatch(shared, 'k', {}), new KeyWatch(shared, prefix('a'), { startRevision: 2n })];
  for (const watch of refused) expect(await errorOf(watch.created())).toMatchObject({ reason: 'ClientClosed' });
  expect([opened(), clock.timers]).toEqual([[], 0]);
});

test('a watch whose buffer is full ends without an error when its keyspace is closed', async () => {
  open('sibling');
  const slow = open('a', { bufferBytes: 1 });
  fillBuffer();
  shared.close();
  expect(await slow.next()).toEqual({ done: true, value: undefined });
});

test('a watch whose buffer is full ends with ClusterChanged when the store goes back to an older revision (S40)', async () => {
  open('sibling');
  const slow = open('a', { bufferBytes: 1 });
  fillBuffer();
  const header = { clusterId: 1n, memberId: 1n, raftTerm: 1n };
  const call = { method: methods.kv.put, request: {} };
  cluster.answered(call, { ...header, revision: store.revision }, 0n, 'http://a');
  cluster.answered(call, { ...header, revision: 2n }, store.revision, 'http://a');
  expect((await slow.next()).value?.revision).toBe(2n);
  expect(await errorOf(slow.next())).toMatchObject({ reason: 'ClusterChanged' });
});

test('the backoff of a watch grows when the server ends each stream right after it has created the watch', async () => {
  const watch = new KeyWatch(shared, 'a', {});
  const openedAt: number[] = [];
  while (streams.length < 6) {
    openedAt.push(clock.now);
    serve();
    streams.at(-1)?.break(1);
    for (const before = streams.length; streams.length === before; ) await clock.pass(1);
  }
  const delays = openedAt.slice(1).map((at, index) => at - (openedAt[index] as number));
  expect(delays).toEqual([25, 50, 100, 200]);
  await watch.close();
});

test('the client opens a new watch stream promptly after a stream that lasted, although many streams failed before', async () => {
  open('a');
  for (let failures = 0; failures < 10; failures += 1) {
    streams.at(-1)?.break(1);
    await clock.pass(LONG_MS / 1_000);
    while (streams.at(-1)?.over) await clock.pass(100);
  }
  await clock.pass(LONG_MS);
  const before = streams.length;
  streams.at(-1)?.break(1);
  // The first backoff is at most 50 ms.
  await clock.pass(50);
  expect(streams.length).toBe(before + 1);
});

test('a watch delivers a revision that the server cuts into two responses once and whole, although the client meanwhile adds a part (S5)', async () => {
  putAll(2_500); // revisions 2 to 2501
  for (let put = 0; put < 3_000; put += 1) store.put(['z']);
  store.put(['a1', 'a2']); // revision 5502
  const watch = new KeyWatch(shared, prefix('a'), { startRevision: 2n, bufferBytes: 1_450_000 });
  const batches = watch.batches();
  serve();
  const own = streams.at(-1) as SimulatedWatchStream;
  own.sync(0, 1_000, 1_000); // 2 to 1001: a full response, after which the watch has two parts
  serve();
  own.sync(0, 1_000, 1_000); // 1002 to 2001: the first part ends at 1952
  own.deliver(1);
  own.serve(100);
  own.sync(0, 1_000, 551); // 1952 to 2501 and the first key of 5502; then its second key
  own.deliver(2);
  const got: string[] = [];
  const take = async (): Promise<void> => {
    for (;;) {
      const { done, value } = await batches.next();
      if (done) return;
      if (value.revision > 2_501n) got.push(`${value.revision} ${value.events.map((event) => event.key)}`);
    }
  };
  const taking = take();
  await clock.pass(1);
  await clock.pass(1);
  for (let round = 0; round < 20; round += 1) {
    serve();
    for (let index = 0; index < 3; index += 1) for (const stream of opened()) stream.sync(index, 1_000, 1_000);
    serve();
    await clock.pass(1);
  }
  await watch.close();
  await taking;
  expect(got).toEqual(['5502 a1,a2']);
});

test('a watch does not pause its own stream when a later part has a full buffer while the consumer waits for the first part (S11)', async () => {
  putAll(1_950); // revisions 2 to 1951
  for (let put = 0; put < 1_000; put += 1) store.put(['a1', 'a2', 'a3', 'a4']);
  const batches = open('a', { startRevision: 2n, bufferBytes: 1_450_000 });
  const own = streams.at(-1) as SimulatedWatchStream;
  own.sync(0, 1_000, 1_000); // 2 to 1001: a full response, after which a second part begins at revision 1952
  serve();
  for (let batch = 0; batch < 1_000; batch += 1) await batches.next();
  const got: unknown[] = [];
  const waiting = batches.next().then(({ value }) => got.push(value?.revision));
  own.sync(1, 500, 2_000); // more than the buffer of the second part
  serve();
  own.sync(0, 1_000, 1_000);
  serve();
  await clock.pass(0);
  expect(got).toEqual([1_002n]);
  await waiting;
});

type Batches = ReturnType<Watch['batches']>;

/** Opens a watch, and lets the server create it. */
function open(key: string, options: WatchOptions = {}): Batches {
  const watch = new KeyWatch(shared, prefix(key), options);
  serve();
  return watch.batches();
}

function putAll(count: number): void {
  for (let put = 0; put < count; put += 1) store.put(['a']);
}

/** Puts keys and delivers their events. The first event fills the buffer of a watch with `bufferBytes: 1`. */
function fillBuffer(): void {
  putAll(5);
  for (const each of opened()) for (let watch = 0; watch < 2; watch += 1) each.sync(watch, 1, 1);
  serve();
}

/** Lets the client see the revision of the store in the answer to a call. */
function learnRevision(): void {
  const header = { clusterId: 1n, memberId: 1n, raftTerm: 1n, revision: store.revision };
  cluster.answered({ method: methods.kv.put, request: {} }, header, 0n, 'http://a');
}

/** Lets the server create watches. Returns the open streams, without the first `count` streams. */
async function stillOpened(count: number): Promise<SimulatedWatchStream[]> {
  await clock.pass(0);
  serve();
  return streams.slice(count).filter(({ over }) => !over);
}

function opened(): SimulatedWatchStream[] {
  return streams.filter(({ over }) => !over);
}

/** Lets the server process all requests, and delivers its responses. The client may send requests in between. */
function serve(): void {
  for (let round = 0; round < 4; round += 1)
    for (const each of opened()) {
      each.serve(100);
      each.deliver(100);
    }
}

/** Takes batches from a watch while the server sends events. Returns the revisions of the batches. */
async function taken(batches: Batches, count: number): Promise<bigint[]> {
  const found: bigint[] = [];
  while (found.length < count) {
    const next = batches.next();
    let isOver = false;
    const settled = next.then(() => {
      isOver = true;
    });
    await clock.pass(0);
    for (let round = 0; !isOver && round < 50; round += 1) {
      serve();
      for (const each of opened()) for (let watch = 0; watch < 40; watch += 1) each.sync(watch, 1_000, 1_000);
      serve();
      await clock.pass(0);
    }
    expect(isOver, `batch ${found.length + 1} of ${count}`).toBe(true);
    await settled;
    const { value } = await next;
    if (value !== undefined && value.events.length > 0) found.push(value.revision);
  }
  return found;
}

function revisions(first: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, index) => BigInt(first + index));
}
