import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest';
import { AsyncQueue } from '../../src/base/queues.js';
import { monotonicMs } from '../../src/base/timers.js';
import { type Client, compare, op, prefix, type Watch, type WatchEvent } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { queueLength } from '../support/locks.js';
import { watchers } from '../support/metrics.js';
import { ownEtcd } from '../support/own-etcd.js';
import { type NodeCall, nodePeer } from '../support/peers/node-peer.js';
import { PROXIES, type ProxyName, type ProxyProcess, useProxy } from '../support/peers/proxies.js';
import { expectAsTold, putMany } from '../support/peers/puts.js';
import { batchesOf } from '../support/watch-events.js';

// These tests put real proxies between the client and etcd. Each proxy has its own HTTP/2 implementation.

const NOTHING = new Uint8Array();

/** For each proxy, the settings that allow only one open stream, small windows and small buffers. */
const TIGHT: Record<ProxyName, string> = {
  nginx: 'http2_max_concurrent_streams 1; http2_chunk_size 1k; grpc_buffer_size 4k;',
  nghttpx: [
    'frontend-http2-max-concurrent-streams=1',
    'frontend-http2-window-size=1023',
    'frontend-http2-connection-window-size=65535',
    'frontend-http2-decoder-dynamic-table-size=0',
    'frontend-http2-encoder-dynamic-table-size=64',
    'padding=255',
  ].join('\n'),
  HAProxy: ['max-concurrent-streams 1', 'initial-window-size 1000', 'header-table-size 4096']
    .map((setting) => `  tune.h2.${setting}`)
    .join('\n'),
};

describe.each(Object.keys(PROXIES) as ProxyName[])('through the proxy %s,', (name) => {
  const startProxy = useProxy(name);
  let proxy: ProxyProcess;
  let etcd: Client;

  beforeEach(async () => {
    proxy = await startProxy();
    etcd = openClient({ endpoints: [proxy.endpoint] });
  });

  test('a value of 1 MB is written and read', async () => {
    const [key, value] = [unique(), new Uint8Array(randomBytes(1_000_000))];
    await etcd.put(key, value);
    expect(Buffer.from(value).equals((await etcd.get(key))?.value ?? NOTHING)).toBe(true);
  });

  test('a get of a missing key returns undefined', async () => {
    expect(await etcd.get(unique())).toBeUndefined();
  });

  test('an error from etcd keeps its reason', async () => {
    expect(await errorOf(etcd.put(unique(), 'x', { lease: 987_654_321n }))).toMatchObject({
      reason: 'LeaseNotFound',
      code: 'NotFound',
      outcome: 'rejected',
    });
    expect(await errorOf(etcd.range('a', { revision: 2n ** 60n }))).toMatchObject({
      reason: 'FutureRev',
      code: 'OutOfRange',
      outcome: 'rejected',
    });
  });

  test('each of 500 concurrent gets receives its own response', async () => {
    const keys = await fill(unique(), 500);
    const values = await Promise.all(keys.map(async (key) => (await etcd.get(key))?.text()));
    expect(values).toEqual(keys.map((key) => `value of ${key}`));
  });

  test('a transaction returns its full response', async () => {
    const key = unique();
    const put = { if: [compare.version(key, '==', 0n)], then: [op.put(key, 'first')], else: [op.get(key)] } as const;
    expect((await etcd.txn(put)).succeeded).toBe(true);
    const second = await etcd.txn(put);
    expect(second.succeeded ? undefined : second.responses[0]?.text()).toBe('first');
  });

  test('a watch receives 1,000 puts, each once and in order', async () => {
    const key = unique();
    const watch = etcd.watch(prefix(`${key}/`));
    await watch.created();
    await putMany(openClient(), key, { count: 1_000, lanes: 50 });
    const events = await take(watch, 1_000);
    const inOrder = [...(await openClient().range(prefix(`${key}/`))).kvs].sort((a, b) =>
      Number(a.modRevision - b.modRevision),
    );
    expect(events.map((event) => event.key)).toEqual(inOrder.map((kv) => kv.key));
  });

  test('a watch catches up on several MB of events without splitting a revision', async () => {
    const { key, value, revisions } = await fillRevisions(6, 20);
    const watch = etcd.watch(prefix(`${key}/`), { startRevision: revisions[0] });
    const batches: [bigint, number][] = [];
    for await (const { revision, events } of watch.batches()) {
      expect(events.every((event) => event.type === 'put' && value.equals(event.kv.value))).toBe(true);
      if (batches.push([revision, events.length]) === revisions.length) break;
    }
    expect(batches).toEqual(revisions.map((revision) => [revision, 20]));
  });

  test('a raw watch receives fragments when it requests fragments', async () => {
    const { key, value, revisions } = await fillRevisions(6, 20);
    const stream = etcd.raw.watch.watch();
    const [start, end] = [`${key}/`, `${key}0`].map((text) => Buffer.from(text));
    const request = { key: start, rangeEnd: end, startRevision: revisions[0], fragment: true };
    stream.send({ requestUnion: { case: 'createRequest', value: request } });
    let [events, fragments] = [0, 0];
    for await (const response of stream) {
      expect(response.events.every(({ kv }) => value.equals(kv?.value ?? NOTHING))).toBe(true);
      events += response.events.length;
      if (response.fragment) fragments += 1;
      if (events === 120) break;
    }
    expect(fragments).toBeGreaterThan(0);
  });

  test('closing a watch also cancels the watch at etcd', async () => {
    const { endpoints } = await ownEtcd();
    const own = openClient({ endpoints: [(await startProxy({ backend: endpoints[0] as string })).endpoint] });
    const watch = own.watch('a');
    await watch.created();
    expect(await watchers(endpoints)).toBe(1);
    await watch.close();
    await expect.poll(() => watchers(endpoints)).toBe(0);
    // The connection still works after the cancellation.
    await own.put('a', 'b');
  });

  test('a watch resumes without a gap when the connection between the proxy and etcd breaks', async () => {
    const behind = await faultProxy(inject('endpoints')[0] as string);
    const broken = openClient({ endpoints: [(await startProxy({ backend: behind.endpoint })).endpoint] });
    const key = unique();
    const watch = broken.watch(prefix(`${key}/`));
    await watch.created();
    await putMany(openClient(), key, { count: 10, lanes: 1 });
    await take(watch, 5);
    behind.dropConnections();
    await putMany(openClient(), `${key}/more`, { count: 10, lanes: 1 });
    const rest = await take(watch, 15);
    expect(rest.map((event) => event.key)).toEqual([
      ...Array.from({ length: 5 }, (_, index) => `${key}/${index + 5}`),
      ...Array.from({ length: 10 }, (_, index) => `${key}/more/${index}`),
    ]);
  });

  test('a lease stays alive over several renewals', async () => {
    const lease = await etcd.lease.grant({ ttl: 2 });
    const kept = etcd.lease.keepAlive(lease);
    onTestFinished(() => kept.close());
    // The client renews the lease every third of the TTL. After two renewals, the lease expires later than 1.5 TTLs
    // after the grant.
    const twiceRenewed = lease.sentAt + 1_500 * lease.ttl;
    await expect.poll(() => monotonicMs() + kept.remainingMs()).toBeGreaterThan(twiceRenewed);
    expect((await openClient().lease.timeToLive(lease.id)).grantedTtl).toBeGreaterThan(0);
  });

  test('a lock passes from one client to another client', async () => {
    const other = openClient({ endpoints: [proxy.endpoint] });
    const lock = unique('lock');
    const first = await new Mutex(await Session.open(etcd), lock).lock();
    const waiting = new Mutex(await Session.open(other), lock).lock();
    await queueLength(openClient(), lock, 2);
    await first.release();
    const second = await waiting;
    expect(second.token).toBeGreaterThan(first.token);
    expect(second.signal.aborted).toBe(false);
    await second.release();
  });

  test('a scan returns each of 5,000 keys once and in order', async () => {
    const key = unique();
    const keys = await fill(key, 5_000);
    const scanned: string[] = [];
    for await (const kv of etcd.scan(prefix(`${key}/`))) scanned.push(kv.key);
    expect(scanned).toEqual([...keys].sort());
  });

  test('all calls succeed when the proxy allows one open stream and has small windows and small buffers', async () => {
    const { endpoint } = await startProxy({ settings: TIGHT[name] });
    const tight = openClient({ endpoints: [endpoint] });
    const key = unique();
    const told = await putMany(tight, key, { count: 100, lanes: 30 });
    expect(await expectAsTold(openClient(), key, told)).toBe(0);
    expect([...told.values()].filter((error) => error !== undefined)).toEqual([]);
    const value = randomBytes(200_000);
    await tight.put(key, value);
    expect(value.equals((await tight.get(key))?.value ?? NOTHING)).toBe(true);
  });

  test.each([
    ['killed', (killed: ProxyProcess) => killed.kill()],
    ['terminated with SIGTERM', (stopped: ProxyProcess) => stopped.signal('SIGTERM')],
  ])('a put fails with outcome "unknown" when the proxy is %s during the call', async (_, end) => {
    const arrivals = new AsyncQueue<NodeCall>();
    const silent = await nodePeer((call) => arrivals.push(call));
    const ended = await startProxy({ backend: silent.endpoint });
    const putting = errorOf(openClient({ endpoints: [ended.endpoint] }).put('a', 'b'));
    await arrivals.next();
    await end(ended);
    expect(await putting).toMatchObject({ code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  });

  // When HAProxy gives up on a request, it sends REFUSED_STREAM although it has forwarded the request:
  // haproxy/haproxy#1495 and #3414.
  test('a put fails with outcome "unknown" when the proxy gives up and etcd applies the put later', async () => {
    const behind = await faultProxy(inject('endpoints')[0] as string);
    const key = unique();
    const held = behind.holdNextRequest(containing(key));
    const putting = errorOf(
      openClient({ endpoints: [(await startProxy({ backend: behind.endpoint })).endpoint] }).put(key, 'late'),
    );
    const release = await held;
    expect(await putting).toMatchObject({ outcome: 'unknown' });
    expect(await openClient().get(key)).toBeUndefined();
    release();
    await expect.poll(async () => (await openClient().get(key))?.version).toBe(1n);
  });

  test('no put is applied twice while the connection between the proxy and etcd breaks again and again', async () => {
    const behind = await faultProxy(inject('endpoints')[0] as string);
    const broken = openClient({ endpoints: [(await startProxy({ backend: behind.endpoint })).endpoint] });
    const key = unique();
    const told = await putMany(broken, key, {
      count: 1_000,
      lanes: 20,
      onPut: (done) => {
        if (done % 100 === 0) behind.dropConnections();
      },
    });
    await expectAsTold(openClient(), key, told);
  });

  test('a get is repeated when its response is lost between etcd and the proxy', async () => {
    const behind = await faultProxy(inject('endpoints')[0] as string);
    const key = unique();
    await openClient().put(key, 'read');
    const lost = behind.loseNextAnswer(containing(key));
    const reader = openClient({ endpoints: [(await startProxy({ backend: behind.endpoint })).endpoint] });
    expect((await reader.get(key))?.text()).toBe('read');
    await lost;
  });

  test('calls fail with code `Unavailable` when the proxy cannot reach its backend', async () => {
    const { endpoint } = await startProxy({ backend: 'http://127.0.0.1:1' });
    const alone = openClient({ endpoints: [endpoint] });
    expect(await errorOf(alone.put('a', 'b', { timeoutMs: 10_000 }))).toMatchObject({
      code: 'Unavailable',
      // A status from a proxy never proves that the request did not reach etcd.
      outcome: 'unknown',
      endpoint,
    });
    const key = unique();
    await openClient().put(key, 'elsewhere');
    expect((await openClient({ endpoints: [endpoint, ...inject('endpoints')] }).get(key))?.text()).toBe('elsewhere');
  });

  test('calls finish or move to another endpoint while the proxy shuts down gracefully', async () => {
    const key = unique();
    const both = openClient({ endpoints: [proxy.endpoint, ...inject('endpoints')] });
    const told = await putMany(both, key, {
      count: 1_000,
      lanes: 20,
      onPut: (done) => {
        if (done === 200) proxy.signal(PROXIES[name].gracefulSignal);
      },
    });
    expect(await expectAsTold(openClient(), key, told)).toBe(0);
    await proxy.exited;
  });
});

describe('through the proxy nginx,', () => {
  const startProxy = useProxy('nginx');

  test.for([
    ['made one after another', 1],
    ['made at once', 1_000],
  ] as const)(
    '1,000 puts %s are applied once each when every connection ends after 100 requests',
    async ([, lanes]) => {
      const proxy = await startProxy({ settings: 'keepalive_requests 100;' });
      const key = unique();
      const told = await putMany(openClient({ endpoints: [proxy.endpoint] }), key, { count: 1_000, lanes });
      expect(await expectAsTold(openClient(), key, told)).toBe(0);
      expect([...told.values()].filter((error) => error !== undefined)).toEqual([]);
      const connections = proxy.log('access').matchAll(/^(\d+) .*KV.Put 200$/gm);
      expect(new Set([...connections].map(([, connection]) => connection)).size).toBeGreaterThanOrEqual(10);
    },
  );

  test.for([
    ['etcd sends nothing', 'grpc_read_timeout 1s;'],
    ['the client sends nothing', 'client_body_timeout 1s;'],
  ] as const)('a watch loses no event when nginx repeatedly ends the watch stream because %s', async ([, settings]) => {
    const proxy = await startProxy({ settings });
    const key = unique();
    const watch = openClient({ endpoints: [proxy.endpoint] }).watch(prefix(`${key}/`));
    await watch.created();
    for (let round = 0; round < 2; round += 1) {
      const cuts = (): number => (proxy.log('access').match(/Watch/g) ?? []).length;
      await expect.poll(cuts).toBeGreaterThan(round);
      await putMany(openClient(), `${key}/${round}`, { count: 3, lanes: 1 });
      const events = await take(watch, 3);
      expect(events.map((event) => event.key)).toEqual([0, 1, 2].map((index) => `${key}/${round}/${index}`));
    }
  });

  test('a put fails with outcome "unknown" when nginx times out while nginx waits for the response of etcd', async () => {
    const silent = await nodePeer(() => {});
    const proxy = await startProxy({ backend: silent.endpoint, settings: 'grpc_read_timeout 1s;' });
    expect(await errorOf(openClient({ endpoints: [proxy.endpoint] }).put('a', 'b'))).toMatchObject({
      code: 'Unavailable',
      outcome: 'unknown',
      problem: expect.stringContaining('504'),
    });
  });

  test('a request that is too long for nginx fails with the HTTP status that nginx returns', async () => {
    const etcd = openClient({ endpoints: [(await startProxy({ settings: 'client_max_body_size 100k;' })).endpoint] });
    expect(await errorOf(etcd.put(unique(), new Uint8Array(200_000)))).toMatchObject({
      code: 'Unknown',
      outcome: 'unknown',
      problem: expect.stringContaining('413'),
    });
    await etcd.put(unique(), new Uint8Array(50_000));
  });
});

/** Puts `count` keys under `name`, bypassing the proxy. Returns the keys in the order of the puts. */
async function fill(name: string, count: number): Promise<string[]> {
  const etcd = openClient();
  const keys = Array.from({ length: count }, (_, index) => `${name}/${index}`);
  for (let first = 0; first < count; first += 100) {
    const puts = keys.slice(first, first + 100).map((key) => op.put(key, `value of ${key}`));
    await etcd.txn({ then: puts });
  }
  return keys;
}

/**
 * Makes `count` transactions, bypassing the proxy. Each transaction puts the same value of 50 kB under `keys` keys.
 * Returns the prefix of the keys, the value and the revisions of the transactions.
 */
async function fillRevisions(
  count: number,
  keys: number,
): Promise<{ key: string; value: Buffer; revisions: readonly bigint[] }> {
  const etcd = openClient();
  const [key, value] = [unique(), randomBytes(50_000)];
  const revisions: bigint[] = [];
  for (let revision = 0; revision < count; revision += 1) {
    const puts = Array.from({ length: keys }, (_, index) => op.put(`${key}/${index}`, value));
    revisions.push((await etcd.txn({ then: puts })).header.revision);
  }
  return { key, value, revisions };
}

/** Takes the next events of a watch, and leaves the watch open. */
async function take(watch: Watch, count: number): Promise<WatchEvent[]> {
  const events: WatchEvent[] = [];
  while (events.length < count) {
    const { value, done } = await batchesOf(watch).next();
    if (done) throw new Error(`the watch ended after ${events.length} events`);
    events.push(...value.events);
  }
  return events;
}
