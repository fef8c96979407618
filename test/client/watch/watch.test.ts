import { getEventListeners } from 'node:events';
import { describe, expect, inject, test } from 'vitest';
import type { WatchRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { type Client, op, prefix, type Watch, type WatchBatch } from '../../../src/index.js';
import type { FaultProxy } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';
import { batchesOf, valueText } from '../../support/watch-events.js';

describe('a watch', () => {
  test('delivers puts and deletes in order, with the previous key-value pair when `prevKv` is set', async () => {
    const etcd = openClient();
    const key = unique();
    const watch = etcd.watch(key, { prevKv: true });
    await watch.created();
    await etcd.put(key, 'one');
    await etcd.put(key, 'two');
    await etcd.delete(key);
    const events = (await take(watch, 3)).flatMap((batch) => batch.events);
    expect(events.map((event) => [event.type, valueText(event), event.prevKv?.text()])).toEqual([
      ['put', 'one', undefined],
      ['put', 'two', 'one'],
      ['delete', '', 'two'],
    ]);
  });

  test('delivers a deletion with its key and revision, and without a value', async () => {
    const etcd = openClient();
    const key = unique();
    await etcd.put(key, 'x');
    const watch = etcd.watch(key);
    await watch.created();
    const { header } = await etcd.delete(key);
    const event = (await take(watch, 1))[0]?.events[0];
    if (event?.type !== 'delete') throw new Error(`expected a deletion, got ${event?.type}`);
    expect([event.key, event.modRevision, event.prevKv]).toEqual([key, header.revision, undefined]);
    // @ts-expect-error The type of a deletion has no `kv` either.
    expect(event.kv).toBeUndefined();
  });

  test('delivers a transaction of 128 puts as one batch (S5)', async () => {
    const etcd = openClient();
    const name = unique();
    const watch = etcd.watch(prefix(name));
    await watch.created();
    const puts = Array.from({ length: 128 }, (_, index) => op.put(`${name}/${index}`, 'x'));
    const { header } = await etcd.txn({ then: puts });
    const [batch] = await take(watch, 1);
    expect(batch).toMatchObject({ revision: header.revision });
    expect(batch?.events).toHaveLength(128);
  });

  test.each(['put', 'delete'] as const)(
    'delivers only events of type "%s" when the option `only` has this value',
    async (only) => {
      const etcd = openClient();
      const key = unique();
      const watch = etcd.watch(key, { only });
      await watch.created();
      for (let round = 0; round < 2; round += 1) {
        await etcd.put(key, 'x');
        await etcd.delete(key);
      }
      const events = (await take(watch, 2)).flatMap((batch) => batch.events);
      expect(events.map(({ type }) => type)).toEqual([only, only]);
    },
  );

  test('delivers past and then live events when it starts at a past revision (S3)', async () => {
    const etcd = openClient();
    const key = unique();
    const { header } = await etcd.put(key, '0');
    for (let index = 1; index < 5; index += 1) await etcd.put(key, String(index));
    const watch = etcd.watch(key, { startRevision: header.revision });
    const caughtUp = await take(watch, 5);
    await etcd.put(key, '5');
    const live = await take(watch, 1);
    expect(values([...caughtUp, ...live])).toEqual(['0', '1', '2', '3', '4', '5']);
  });

  test('is closed by a `break` in its iteration, and refuses a second iteration, which would take events from the first', async () => {
    const etcd = openClient();
    const key = unique();
    const watch = etcd.watch(key);
    const consumed = (async () => {
      for await (const _ of watch) break;
      return 'left';
    })();
    await watch.created();
    await etcd.put(key, 'x');
    const refused = { reason: 'InvalidInput', message: expect.stringContaining('open another watch') };
    expect(await errorOf(() => watch.batches())).toMatchObject(refused);
    expect(await consumed).toBe('left');
    expect(await errorOf(() => watch[Symbol.asyncIterator]())).toMatchObject(refused);
  });

  test('ends with reason `Canceled` and the abort reason as the cause when the caller aborts its signal', async () => {
    const stop = new AbortController();
    const watch = openClient().watch(unique(), { signal: stop.signal });
    const next = batchesOf(watch).next();
    stop.abort(new Error('enough'));
    expect(await errorOf(next)).toMatchObject({ reason: 'Canceled', cause: { message: 'enough' } });
  });

  test('ends its iteration without an error when the client is closed', async () => {
    const etcd = openClient();
    const watch = etcd.watch(unique());
    await watch.created();
    const background = (async () => {
      for await (const _event of watch);
      return 'ended';
    })();
    await etcd.close();
    expect(await background).toBe('ended');
  });

  test('rejects `created()` with `ClientClosed` when the client is closed before the creation', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const created = errorOf(etcd.watch('k').created());
    await etcd.close();
    expect(await created).toMatchObject({ reason: 'ClientClosed' });
  });

  test('ends with `ClientClosed` when the caller opens it after the client was closed', async () => {
    const etcd = openClient();
    await etcd.close();
    const watch = etcd.watch('k');
    expect(await errorOf(watch.created())).toMatchObject({ reason: 'ClientClosed' });
    expect(await errorOf(batchesOf(watch).next())).toMatchObject({ reason: 'ClientClosed' });
  });

  test('of a namespace ends as soon as the client is closed, even if the client can reach no server', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const watches = Array.from({ length: 20 }, (_, index) => etcd.namespace(`${index}/`).watch('k'));
    const ends = watches.map((watch) => batchesOf(watch).next());
    await errorOf(etcd.get('k', { timeoutMs: 300 }));
    await etcd.close();
    const soon = await Promise.race([Promise.all(ends), new Promise((resolve) => setImmediate(resolve, 'still open'))]);
    expect(soon).toMatchObject(watches.map(() => ({ done: true })));
  });

  test('ends with a `Compacted` error that contains `compactRevision` when its start revision is compacted (S6)', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const key = unique();
    await etcd.put(key, '1');
    const { header } = await etcd.put(key, '2');
    await etcd.compact(header.revision);
    const watch = etcd.watch(key, { startRevision: header.revision - 1n });
    expect(await errorOf(batchesOf(watch).next())).toMatchObject({
      reason: 'Compacted',
      compactRevision: header.revision,
    });
    expect(await batchesOf(watch).next()).toMatchObject({ done: true });
  });
});

describe('a stream with many watches (S1)', () => {
  test('delivers to each of 1,000 watches its own events when all watches are created at once', async () => {
    const etcd = openClient();
    const name = unique();
    const watches = Array.from({ length: 1_000 }, (_, index) => etcd.watch(`${name}/${index}`));
    await Promise.all(watches.map((watch) => watch.created()));
    for (let at = 0; at < 1_000; at += 100) {
      await etcd.txn({
        then: Array.from({ length: 100 }, (_, index) => op.put(`${name}/${at + index}`, String(at + index))),
      });
    }
    const got = await Promise.all(watches.map((watch) => take(watch, 1)));
    expect(got.map((batches) => values(batches)[0])).toEqual(watches.map((_, index) => String(index)));
  });

  test('receives watch ID -1 when the server refuses a creation, and a watch on another stream still delivers events', async () => {
    const etcd = openClient();
    const key = unique();
    const { revision } = (await etcd.put(key, 'x')).header;
    const good = etcd.watch(key, { startRevision: revision });
    // The client never uses an ID twice, so the test sends the creations over a raw stream.
    const raw = etcd.raw.watch.watch();
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    const create = (watchId: bigint): void =>
      raw.send({ requestUnion: { case: 'createRequest', value: { key: bytes(key), watchId } } });
    create(7n);
    create(7n);
    const first = await raw.next();
    const second = await raw.next();
    raw.cancel();
    expect(first.value).toMatchObject({ created: true, canceled: false, watchId: 7n });
    // The client relies on this behavior: the server also answers refused creations in order, with the ID -1.
    expect(second.value).toMatchObject({ canceled: true, watchId: -1n });
    expect(values(await take(good, 1))).toEqual(['x']);
  });
});

describe('a watch over a connection that breaks', () => {
  test('delivers each event once over ten broken connections (S2, S5)', async () => {
    const { through, direct, proxy } = await proxied();
    const key = unique();
    const watch = through.watch(key);
    await watch.created();
    const sent: string[] = [];
    const got: WatchBatch[] = [];
    for (let round = 0; round < 10; round += 1) {
      for (let index = 0; index < 5; index += 1) {
        sent.push(`${round}.${index}`);
        await direct.put(key, `${round}.${index}`);
        // Because of these other writes, the header of a catch-up response has a higher revision than its events.
        await direct.put(unique('other'), 'x');
      }
      got.push(...(await take(watch, round % 2 === 0 ? 5 : 3)));
      proxy.dropConnections();
    }
    got.push(...(await take(watch, sent.length - got.length)));
    expect(values(got)).toEqual(sent);
  });

  test('delivers a put that was made while the network was down, even if the watch had no event before (S3)', async () => {
    const { through, direct, proxy } = await proxied();
    const key = unique();
    const watch = through.watch(key);
    await watch.created();
    proxy.blackhole();
    await direct.put(key, 'written while cut off');
    proxy.heal();
    expect(values(await take(watch, 1))).toEqual(['written while cut off']);
  });

  test('delivers a transaction as one batch when the connection breaks while the transaction is delivered (S4)', async () => {
    const { through, direct, proxy } = await proxied();
    const name = unique();
    const watch = through.watch(prefix(name));
    await watch.created();
    const puts = Array.from({ length: 100 }, (_, index) => op.put(`${name}/${index}`, 'x'.repeat(10_000)));
    const batches = take(watch, 3);
    for (let round = 0; round < 3; round += 1) {
      await direct.txn({ then: puts });
      proxy.reset();
    }
    expect((await batches).map(({ events }) => events.length)).toEqual([100, 100, 100]);
  });

  test('ends with `Compacted` when its next revision is compacted while the network is down (S6)', async () => {
    const { through, direct, proxy } = await proxied((await ownEtcd()).endpoints);
    const key = unique();
    const watch = through.watch(key);
    await watch.created();
    proxy.blackhole();
    await direct.put(key, 'lost');
    const { header } = await direct.put(key, 'kept');
    await direct.compact(header.revision);
    proxy.heal();
    expect(await errorOf(batchesOf(watch).next())).toMatchObject({
      reason: 'Compacted',
      compactRevision: header.revision,
    });
  });
});

test('a watch whose request is too long ends, and another watch on the same stream survives a reconnect', async () => {
  const { through, direct, proxy } = await proxied();
  const key = unique();
  const good = through.watch(key);
  const bad = through.watch('x'.repeat(2_000_000));
  expect(await errorOf(batchesOf(bad).next())).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  await good.created();
  proxy.dropConnections();
  await direct.put(key, 'after');
  expect(values(await take(good, 1))).toEqual(['after']);
});

test('20 watches that share a signal add one listener to the signal, and remove the listener when they close', async () => {
  const etcd = openClient();
  const { signal } = new AbortController();
  const watches = Array.from({ length: 20 }, () => etcd.watch(unique(), { signal }));
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  await Promise.all(watches.map((watch) => watch.close()));
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('a watch delivers whole revisions when its catch-up exceeds the message limit and comes in fragments (S4)', async () => {
  const etcd = openClient({ maxReceiveBytes: 4 * 1024 * 1024 });
  const name = unique();
  const { header } = await etcd.put(name, 'start');
  const value = 'x'.repeat(1_000_000);
  for (let index = 0; index < 10; index += 1) {
    await etcd.txn({ then: [op.put(`${name}/a`, value), op.put(`${name}/b`, String(index))] });
  }
  const watch = etcd.watch(prefix(`${name}/`), { startRevision: header.revision + 1n });
  const batches = await take(watch, 10);
  expect(batches.map(({ events }) => [events.length, ...events.slice(1).map(valueText)])).toEqual(
    Array.from({ length: 10 }, (_, index) => [2, String(index)]),
  );
});

test('a slow consumer gets every event through a bounded buffer, and does not delay another watch (S11)', async () => {
  const { transport, sent } = recordingTransport();
  const etcd = openClient({ transport });
  const [slowKey, quickKey] = [unique('slow'), unique('quick')];
  const slow = etcd.watch(slowKey, { bufferBytes: 10_000 });
  const quick = etcd.watch(quickKey);
  await Promise.all([slow.created(), quick.created()]);
  const written: string[] = [];
  for (let index = 0; index < 100; index += 1) {
    written.push(`${index}:${'x'.repeat(1_000)}`);
    await etcd.put(slowKey, written[index] as string);
  }
  await etcd.put(quickKey, 'not held up');
  expect(values(await take(quick, 1))).toEqual(['not held up']);
  // The client has canceled the slow watch, and creates it again only after the consumer has caught up.
  const kinds = (): unknown[] => sent.flatMap(({ request }) => (request as WatchRequest).requestUnion?.case ?? []);
  expect(kinds()).toEqual(['createRequest', 'createRequest', 'cancelRequest']);
  expect(values(await take(slow, 100))).toEqual(written);
  expect(kinds().slice(3)).toContain('createRequest');
});

test('after a progress request, only watches with the option `progress` deliver a batch without events', async () => {
  const [etcd, key] = [openClient(), unique()];
  const [asked, other] = [etcd.watch(key, { progress: true }), etcd.watch(key)];
  await Promise.all([asked.created(), other.created()]);
  const { header } = await etcd.put(unique('elsewhere'), 'x');
  asked.requestProgress();
  const { value } = await batchesOf(asked).next();
  expect(value).toMatchObject({ events: [] });
  expect(value.revision).toBeGreaterThanOrEqual(header.revision);
  await etcd.put(key, 'y');
  expect(values(await take(other, 1))).toEqual(['y']);
  expect(values(await take(asked, 1))).toEqual(['y']);
  asked.requestProgress();
  expect((await batchesOf(asked).next()).value).toMatchObject({ events: [] });
});

interface Proxied {
  readonly through: Client;
  readonly direct: Client;
  readonly proxy: FaultProxy;
}

async function proxied(endpoints = inject('endpoints')): Promise<Proxied> {
  const proxy = await faultProxy(endpoints[0] as string);
  return { through: openClient({ endpoints: [proxy.endpoint] }), direct: openClient({ endpoints }), proxy };
}

async function take(watch: Watch, count: number): Promise<WatchBatch[]> {
  const batches = batchesOf(watch);
  const taken: WatchBatch[] = [];
  while (taken.length < count) {
    const { value, done } = await batches.next();
    if (done) throw new Error(`the watch ended after ${taken.length} of ${count} batches`);
    taken.push(value);
  }
  return taken;
}

function values(batches: readonly WatchBatch[]): string[] {
  return batches.flatMap(({ events }) => events.map(valueText));
}

test.each(['close', 'signal', 'client'])(
  'a loop over a watch gets no more events of a transaction after the end (%s)',
  async (end) => {
    const [etcd, start, stop] = [openClient(), `${unique('watch')}/`, new AbortController()];
    const watch = etcd.watch(prefix(start), { signal: stop.signal });
    await watch.created();
    await openClient().txn({ then: Array.from({ length: 100 }, (_, index) => op.put(`${start}${index}`, 'x')) });
    const ends = {
      close: () => watch.close(),
      signal: () => stop.abort(),
      client: () => etcd.close(),
    };
    let seen = 0;
    const reading = (async () => {
      for await (const _ of watch) if (++seen === 10) await ends[end as keyof typeof ends]();
    })();
    if (end === 'signal') expect(await errorOf(reading)).toMatchObject({ reason: 'Canceled' });
    else await reading;
    expect(seen).toBe(10);
  },
);
