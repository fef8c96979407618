import { beforeAll, describe, expect, inject, test } from 'vitest';
import type { WatchRequest, WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { Client, prefix, type Watch } from '../../../src/index.js';
import type { Init } from '../../../src/wire/protobuf/writer.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { recordingTransport } from '../../support/recording-transport.js';
import { type ScriptedStream, scriptedServer, scriptedStream } from '../../support/scripted-server.js';
import { batchesOf } from '../../support/watch-events.js';

// etcd sends at most 1,000 revisions every 100 ms to a watch that catches up. A client's watch that is far behind
// therefore creates several watches at the server, each for its own range of revisions. These server watches are called
// the parts of the watch. Codes such as S5 are rules in docs/semantics.md.

const REVISIONS = 12_000;

describe('a watch that is 12,000 revisions behind', () => {
  const name = `${unique('long')}/`;
  let start: bigint;
  let end: bigint;

  beforeAll(async () => {
    const etcd = new Client({ endpoints: inject('endpoints') });
    start = (await etcd.put(`${name}first`, '')).header.revision;
    let put = 1;
    const writer = async (): Promise<void> => {
      while (put < REVISIONS) await etcd.put(`${name}${put++ % 100}`, 'x');
    };
    await Promise.all(Array.from({ length: 200 }, writer));
    end = (await etcd.put(`${name}last`, '')).header.revision;
    await etcd.close();
  });

  test('creates several watches at the server, and delivers every revision once and in order (S5)', async () => {
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ transport });
    await expectAll(etcd.watch(prefix(name), { startRevision: start }));
    expect(atOnce(sent)).toBeGreaterThan(5);
  });

  test('delivers every revision once and in order even if its connections break', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const watch = openClient({ endpoints: [proxy.endpoint] }).watch(prefix(name), { startRevision: start });
    await expectAll(watch, (taken) => {
      if (taken % 1_700 === 0) proxy.dropConnections();
    });
  });

  test('delivers every revision once and in order to a slow consumer with a bounded buffer (S11)', async () => {
    const etcd = openClient();
    const bufferBytes = 1_500_000;
    await expectAll(etcd.watch(prefix(name), { startRevision: start, bufferBytes }), async (taken) => {
      if (taken % 50 === 0) await etcd.get('anything');
    });
  });

  test('delivers the events that occur while it catches up and afterward', async () => {
    const etcd = openClient();
    const other = `${unique('meanwhile')}/`;
    const watch = etcd.watch(prefix(''), { startRevision: start });
    const written: bigint[] = [];
    const seen: bigint[] = [];
    const writing = (async () => {
      for (let count = 0; count < 300; count += 1) {
        written.push((await etcd.put(`${other}${count}`, 'x')).header.revision);
      }
    })();
    let last = 0n;
    for await (const { revision, events } of batchesOf(watch)) {
      expect(revision).toBeGreaterThan(last);
      last = revision;
      // The keys of other tests need not be UTF-8.
      if (new TextDecoder().decode(events[0]?.keyBytes).startsWith(other)) seen.push(revision);
      if (seen.length === 300) break;
    }
    await writing;
    expect(seen).toEqual(written);
  });

  test('creates only one watch at a time at the server when few events match', async () => {
    const { transport, sent } = recordingTransport();
    const watch = openClient({ transport }).watch(`${name}7`, { startRevision: start });
    let events = 0;
    for await (const _ of watch) if (++events === REVISIONS / 100 - 1) break;
    expect(atOnce(sent)).toBe(1);
  });

  test('creates only one watch at a time at the server when the option `progress` is set', async () => {
    const { transport, sent } = recordingTransport();
    await expectAll(openClient({ transport }).watch(prefix(name), { startRevision: start, progress: true }));
    expect(atOnce(sent)).toBe(1);
  });

  async function expectAll(watch: Watch, onTaken: (taken: number) => unknown = () => {}): Promise<void> {
    const revisions: bigint[] = [];
    for await (const { revision, events } of batchesOf(watch)) {
      if (events.length === 0) continue;
      expect(events).toHaveLength(1);
      revisions.push(revision);
      await onTaken(revisions.length);
      if (revision >= end) break;
    }
    expect(revisions).toHaveLength(REVISIONS + 1);
    expect(revisions.every((revision, index) => index === 0 || revision > (revisions[index - 1] as bigint))).toBe(true);
    expect([revisions[0], revisions.at(-1)]).toEqual([start, end]);
  }
});

describe('the server watches with which one client watch catches up', () => {
  test('deliver events in order, no matter which of them receives events first, and end at an event beyond their range', async () => {
    const etcd = await clientOf(async (stream) => {
      const [first, second, third, fourth, last] = await divided(stream);
      stream.send({ ...header(), watchId: third, events: [put(3_500n), put(4_500n)] });
      stream.send({ ...header(), watchId: second, events: [put(2_200n), put(3_500n)] });
      stream.send({ ...header(), watchId: fourth, events: [put(4_500n)] });
      stream.send({ ...header(), watchId: first, events: [put(1_500n), put(2_200n)] });
      // The server sends this live event to both parts that are left, but only the last part delivers it.
      for (const watchId of [fourth, last]) stream.send({ ...header(), watchId, events: [put(5_001n)] });
    });
    const watch = etcd.watch(prefix(''), { startRevision: 1n });
    expect((await take(watch, 1_005)).slice(1_000)).toEqual([1_500n, 2_200n, 3_500n, 4_500n, 5_001n]);
  });

  test('pass on the reads that wait, past server watches that end without events', async () => {
    let onDivided = (_sendRest: () => void): void => {};
    const whenDivided = new Promise<() => void>((resolve) => {
      onDivided = resolve;
    });
    const etcd = await clientOf(async (stream) => {
      const [first, second, third, fourth] = await divided(stream);
      onDivided(() => {
        stream.send({ ...header(), watchId: second, events: [put(3_500n)] });
        stream.send({ ...header(), watchId: third, events: [put(4_500n)] });
        stream.send({ ...header(), watchId: fourth, events: [put(3_900n), put(4_000n)] });
        stream.send({ ...header(), watchId: first, events: [put(2_200n)] });
        stream.send({ ...header(), watchId: fourth, events: [put(4_100n)] });
      });
    });
    const watch = etcd.watch(prefix(''), { startRevision: 1n });
    await take(watch, 1_000, 'stay');
    const sendRest = await whenDivided;
    const reads = Array.from({ length: 3 }, () => batchesOf(watch).next());
    sendRest();
    const batches = await Promise.all(reads);
    expect(batches.map(({ done, value }) => [done, value?.revision])).toEqual([
      [false, 3_900n],
      [false, 4_000n],
      [false, 4_100n],
    ]);
  });

  test('do not deliver events while a server watch for earlier revisions may still receive events', async () => {
    let sendRest = (): void => {};
    const etcd = await clientOf(async (stream) => {
      const [first, second] = await divided(stream);
      stream.send({ ...header(), watchId: second, events: [put(2_200n), put(3_500n)] });
      stream.send({ ...header(), watchId: first, events: [put(1_500n)] });
      sendRest = () => stream.send({ ...header(), watchId: first, events: [put(1_600n), put(2_200n)] });
    });
    const batches = etcd.watch(prefix(''), { startRevision: 1n }).batches();
    for (let taken = 0; taken < 1_001; taken += 1) await batches.next();
    const next = batches.next();
    sendRest();
    expect([(await next).value?.revision, (await batches.next()).value?.revision]).toEqual([1_600n, 2_200n]);
  });

  test('all end when one of them fails, but only after the events before the error have been delivered', async () => {
    const etcd = await clientOf(async (stream) => {
      const [first, second] = await divided(stream);
      stream.send({ ...header(), watchId: first, events: [put(1_500n)] });
      stream.send({ ...header(), watchId: second, canceled: true, compactRevision: 4_000n });
    });
    const batches = etcd.watch(prefix(''), { startRevision: 1n }).batches();
    for (let taken = 0; taken < 1_001; taken += 1) await batches.next();
    expect(await errorOf(batches.next())).toMatchObject({ reason: 'Compacted', compactRevision: 4_000n });
    expect((await batches.next()).done).toBe(true);
  });

  test('all end with their stream when the caller closes the client watch', async () => {
    let isCanceled = false;
    const etcd = await clientOf(async (stream) => {
      // A client of grpc-js drops the requests that it has not written when it cancels a stream.
      void stream.canceled.then(() => {
        isCanceled = true;
      });
      await divided(stream);
    });
    const watch = etcd.watch(prefix(''), { startRevision: 1n });
    await take(watch, 1_000, 'stay');
    await watch.close();
    await expect.poll(() => isCanceled).toBe(true);
  });

  test('do not deliver twice the event at the first revision of the next server watch (S5)', async () => {
    const etcd = await clientOf(async (stream) => {
      const [first, second, third, fourth, last] = await divided(stream);
      // The store's last event is the first one of the last part, so it also ends the part before.
      stream.send({ ...header(), watchId: first, events: [put(1_951n)] });
      stream.send({ ...header(), watchId: second, events: [put(1_951n), put(2_901n)] });
      stream.send({ ...header(), watchId: third, events: [put(2_901n), put(3_851n)] });
      stream.send({ ...header(), watchId: fourth, events: [put(3_851n), put(4_801n)] });
      stream.send({ ...header(), watchId: last, events: [put(4_801n)] });
      for (const watchId of [fourth, last]) stream.send({ ...header(), watchId, events: [put(5_001n)] });
    });
    const watch = etcd.watch(prefix(''), { startRevision: 1n });
    expect((await take(watch, 1_005)).slice(1_000)).toEqual([1_951n, 2_901n, 3_851n, 4_801n, 5_001n]);
  });
});

/**
 * Plays a server at revision 5,000 that creates the first part. Its first response is full and ends at revision 1,000,
 * so the client creates four more parts, and each part except the last has 950 revisions. Returns the watch IDs of all
 * parts in order.
 */
async function divided(stream: Stream): Promise<readonly bigint[]> {
  const first = await create(stream);
  stream.send({ ...header(), watchId: first, created: true });
  const events = Array.from({ length: 1_000 }, (_, index) => put(BigInt(index) + 1n));
  stream.send({ ...header(), watchId: first, events });
  const ids = [first];
  for (let part = 1; part <= 4; part += 1) {
    ids.push(await create(stream));
    stream.send({ ...header(), watchId: ids[part] as bigint, created: true });
  }
  return ids;
}

type Stream = ScriptedStream<WatchRequest, WatchResponse>;

/**
 * Returns a client of a server that plays `play` on the stream to which the client moves a watch that is behind. When
 * the watch has caught up, it returns to the shared stream, where the server sends revision 5,001.
 */
async function clientOf(play: (stream: Stream) => Promise<void>): Promise<ReturnType<typeof openClient>> {
  let streams = 0;
  const script = async (stream: Stream): Promise<void> => {
    streams += 1;
    if (streams === 2) return play(stream);
    for (;;) {
      const { requestUnion } = await stream.receive();
      if (requestUnion?.case !== 'createRequest') continue;
      const { watchId, startRevision } = requestUnion.value;
      stream.send({ ...header(), watchId, created: true });
      if (startRevision > 1n && startRevision <= 5_001n) stream.send({ ...header(), watchId, events: [put(5_001n)] });
    }
  };
  return openClient({ endpoints: [await scriptedServer(scriptedStream(methods.watch.watch, script))] });
}

async function create(stream: Stream): Promise<bigint> {
  const { requestUnion } = await stream.receive();
  if (requestUnion?.case !== 'createRequest') throw new Error(`expected a create, got ${requestUnion?.case}`);
  return requestUnion.value.watchId;
}

function header(): Init<Pick<WatchResponse, 'header'>> {
  return { header: { revision: 5_000n } };
}

function put(modRevision: bigint): NonNullable<Init<WatchResponse>['events']>[number] {
  return { kv: { key: new TextEncoder().encode('key'), modRevision } };
}

async function take(watch: Watch, count: number, then: 'stay' | 'break' = 'break'): Promise<bigint[]> {
  const revisions: bigint[] = [];
  const batches = batchesOf(watch);
  while (revisions.length < count) revisions.push((await batches.next()).value?.revision as bigint);
  if (then === 'break') await watch.close();
  return revisions;
}

/** Returns the greatest number of watches that the client had at the server at the same time. */
function atOnce(sent: readonly { readonly request: unknown }[]): number {
  let [open, most] = [0, 0];
  for (const { request } of sent) {
    const kind = (request as WatchRequest).requestUnion?.case;
    if (kind === 'createRequest') open += 1;
    if (kind === 'cancelRequest') open -= 1;
    most = Math.max(most, open);
  }
  return most;
}
