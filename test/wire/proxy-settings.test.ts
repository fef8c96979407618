import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { monotonicMs } from '../../src/base/timers.js';
import { type Client, EtcdError, prefix, type Watch } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { authEtcd, ROOT } from '../support/auth-etcd.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { queueLength } from '../support/locks.js';
import { ownEtcd } from '../support/own-etcd.js';
import { ALL_PROXIES, type AnyProxyName, useProxy } from '../support/peers/proxies.js';
import { expectAsTold, putMany } from '../support/peers/puts.js';

// In these tests, proxies have the settings that operators use: short timeouts, few streams, small buffers, and error
// pages for requests that no server answers. Gets, puts, watches, leases and locks must behave as without a proxy.

const WATCHES = 9;
const RECONNECTS = 15;
/** The number of puts for each watch between two reconnects. */
const PUTS = 2;
/**
 * The TTL of the lease in seconds. The client renews the lease every third of the TTL. etcd answers a renewal only
 * after it has applied the writes before it, and a single write to a busy disk can take 2 s, so a TTL of 3 s would be
 * too short.
 */
const TTL = 6;
/** The timeout in milliseconds of calls that no server answers. */
const NO_ANSWER_MS = 3_000;
const NAMES = Object.keys(ALL_PROXIES) as AnyProxyName[];

interface Settings {
  /** Completes the names of tests, which begin with "through a proxy". */
  readonly what: string;
  /** The settings of each proxy, in the proxy's own syntax. */
  readonly of: Record<AnyProxyName, string>;
  /** The length in milliseconds of each pause when the test sends nothing. Default: 0. */
  readonly idleMs?: number;
}

const IDLE: Settings = {
  what: 'that closes connections and streams after a second without traffic',
  idleMs: 1_500,
  of: {
    nginx: 'grpc_read_timeout 1s; grpc_send_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s; send_timeout 1s;',
    nghttpx: [
      ...['frontend-http2-read-timeout=1s', 'stream-read-timeout=1s', 'stream-write-timeout=1s'],
      ...['backend-read-timeout=1s', 'backend-write-timeout=1s', 'backend-keep-alive-timeout=1s'],
    ].join('\n'),
    HAProxy: ['client', 'server', 'http-keep-alive', 'tunnel'].map((side) => `  timeout ${side} 1s`).join('\n'),
    // grpc-proxy has no idle timeout. Instead, it sends pings, and closes connections whose client does not answer.
    'grpc-proxy': '--grpc-keepalive-interval=1s --grpc-keepalive-timeout=1s',
  },
};

const SMALL_BUFFERS: Settings = {
  what: 'with small buffers and windows',
  of: {
    nginx: 'http2_chunk_size 1k; grpc_buffer_size 4k; client_body_buffer_size 1k; postpone_output 1460;',
    nghttpx: [
      ...['frontend-http2-window-size=1023', 'backend-request-buffer=1K', 'backend-response-buffer=1K', 'padding=255'],
      ...['frontend-http2-decoder-dynamic-table-size=0', 'frontend-http2-encoder-dynamic-table-size=64'],
    ].join('\n'),
    HAProxy: ['initial-window-size 1000', 'header-table-size 4096'].map((each) => `  tune.h2.${each}`).join('\n'),
    'grpc-proxy': '--max-send-bytes=1000000 --max-recv-bytes=1000000',
  },
};

function streams(limit: number): Settings {
  return {
    what: `with at most ${limit} streams for each connection`,
    of: {
      nginx: `http2_max_concurrent_streams ${limit};`,
      nghttpx: `frontend-http2-max-concurrent-streams=${limit}`,
      HAProxy: `  tune.h2.max-concurrent-streams ${limit}`,
      'grpc-proxy': `--max-concurrent-streams=${limit}`,
    },
  };
}

describe.each([IDLE, streams(10), streams(100), SMALL_BUFFERS])('through a proxy $what', ({ of, idleMs }) => {
  describe.each(NAMES)('%s', (name) => {
    const startProxy = useProxy(name);

    test('gets, puts, watches, a lease and a lock survive 15 reconnects', async () => {
      const { endpoint } = await startProxy({ settings: of[name] });
      await expectExact(endpoint, idleMs);
    });
  });
});

describe('through `etcd grpc-proxy` with authentication', () => {
  const startProxy = useProxy('grpc-proxy');

  test('the holder of a lock learns that its lease is not renewed while no other contender can hold the lock', async () => {
    const { endpoints, root } = await authEtcd();
    const { endpoint } = await startProxy({ backend: endpoints[0] as string });
    const etcd = openClient({ endpoints: [endpoint], auth: ROOT });
    const name = unique('lock');
    const session = await Session.open(etcd, { ttl: TTL });
    const held = await new Mutex(session, name).lock();
    const next = new Mutex(await Session.open(root, { ttl: 60 }), name).lock();
    const { reason } = await new Promise<AbortSignal>((resolve) => {
      held.signal.addEventListener('abort', () => resolve(held.signal), { once: true });
    });
    // The proxy answers no renewal at all, so the lease ends at its deadline, which is before its end at etcd.
    expect(reason).toMatchObject({ reason: 'LeaseUnreachable' });
    expect(held.valid()).toBe(false);
    await (await next).release();
  });
});

describe.each(NAMES)('through the proxy %s,', (name) => {
  const startProxy = useProxy(name);

  // A client has one connection to an endpoint. On this connection, all watches of the client share one stream, and all
  // its lease keepalives share another stream.
  test('when the limit is one stream, one client can watch, a second can keep a lease, and a third can make calls', async () => {
    const { endpoint } = await startProxy({ settings: streams(1).of[name] });
    const front = await faultProxy(endpoint);
    const clients = Array.from({ length: 3 }, () => openClient({ endpoints: [front.endpoint] }));
    const [watcher, keeper, caller] = clients as [Client, Client, Client];
    const direct = openClient();
    const key = unique('s');
    const prefixes = Array.from({ length: WATCHES }, (_, index) => `${key}/${index}/`);
    const seen = prefixes.map((each) => collect(watcher.watch(prefix(each))));
    await Promise.all(seen.map(({ created }) => created));
    const granted = await caller.lease.grant({ ttl: TTL });
    const lease = keeper.lease.keepAlive(granted);
    for (let round = 0; round < RECONNECTS; round += 1) {
      const name = `${prefixes[round % WATCHES]}${round}`;
      await expectAsTold(direct, name, await putMany(caller, name, { count: 5, lanes: 5 }));
      front.dropConnections();
    }
    await expectAll(direct, prefixes, seen);
    await expect.poll(() => monotonicMs() + lease.remainingMs()).toBeGreaterThan(granted.sentAt + 1_500 * TTL);
    const opened = await Session.open(watcher, { timeoutMs: 500 }).catch((error: unknown) => error);
    expect(opened instanceof Session || opened instanceof EtcdError).toBe(true);
  });

  test('calls fail while the server behind the proxy is down, and watches and locks continue when the server is back', async () => {
    const { endpoints, members } = await ownEtcd();
    const [member] = members;
    if (member === undefined) throw new Error('the tests did not start this server');
    const { endpoint } = await startProxy({ backend: endpoints[0] as string });
    const etcd = openClient({ endpoints: [endpoint] });
    const watch = etcd.watch(prefix('a/'));
    await watch.created();
    const lease = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: 2 }));
    const session = await Session.open(etcd, { ttl: 600 });
    const held = await new Mutex(session, 'lock').lock();
    await member.kill();
    const refused = await Promise.all([
      errorOf(etcd.get('a/1', { timeoutMs: NO_ANSWER_MS })),
      errorOf(etcd.put('a/1', 'x', { timeoutMs: NO_ANSWER_MS })),
      errorOf(Session.open(openClient({ endpoints: [endpoint] }), { timeoutMs: NO_ANSWER_MS })),
      errorOf(new Mutex(session, 'other').lock({ maxWaitMs: NO_ANSWER_MS })),
      errorOf(
        openClient({ endpoints: [endpoint] })
          .watch('b', { signal: AbortSignal.timeout(NO_ANSWER_MS) })
          .created(),
      ),
      new Promise((resolve) => lease.signal.addEventListener('abort', () => resolve(lease.signal.reason))),
    ]);
    expect(refused.filter((error) => !(error instanceof EtcdError))).toEqual([]);
    expect(held.valid()).toBe(true);
    await member.start();
    // The outcome of the failed put is unknown, so this put uses another key.
    await untilDone(() => etcd.put('a/2', 'y'));
    const events = watch[Symbol.asyncIterator]();
    for (;;) {
      const { value } = await events.next();
      if (value?.kv.key === 'a/2') break;
    }
    await held.release();
    expect(await etcd.get(held.key)).toBeUndefined();
  });
});

describe('through HAProxy with the option `http-buffer-request`,', () => {
  const startProxy = useProxy('HAProxy');

  // HAProxy waits for the end of a request before it forwards the request. A streaming request does not end, so its
  // first message never reaches the server.
  test('unary calls succeed, and watches and leases fail with a typed error', async () => {
    const { endpoint } = await startProxy({ settings: '  option http-buffer-request\n  timeout http-request 1s' });
    const etcd = openClient({ endpoints: [endpoint] });
    const key = unique();
    const told = await putMany(etcd, key, { count: 50, lanes: 10 });
    expect(await expectAsTold(openClient(), key, told)).toBe(0);
    const signal = AbortSignal.timeout(NO_ANSWER_MS);
    expect(await errorOf(etcd.watch(key, { signal }).created())).toMatchObject({ reason: 'Canceled' });
    const kept = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: 2 }));
    await new Promise((resolve) => kept.signal.addEventListener('abort', resolve));
    expect(kept.signal.reason).toMatchObject({ reason: 'LeaseUnreachable' });
  });
});

/**
 * Runs gets, puts, watches, a lease and a lock through this endpoint while the test breaks the connections again and
 * again. Compares the results with what etcd stores. Pauses twice for `idleMs` milliseconds.
 */
async function expectExact(endpoint: string, idleMs = 0): Promise<void> {
  const front = await faultProxy(endpoint);
  const [etcd, other, direct] = [[front.endpoint], [front.endpoint], inject('endpoints')].map((endpoints) =>
    openClient({ endpoints }),
  ) as [Client, Client, Client];
  const [key, lockName] = [unique('p'), unique('lock')];
  const prefixes = Array.from({ length: WATCHES }, (_, index) => `${key}/${index}/`);
  // grpc-proxy combines watches of the same keys into one watch at etcd. It confirms a watch that joins a combined
  // watch before it confirms other watches that were requested earlier. The watches of `neighbor` stay connected, and
  // the watches of the client `etcd` reconnect. So after each reconnect, the watches of `etcd` join the combined
  // watches.
  const neighbor = openClient({ endpoints: [endpoint] });
  const joined = prefixes.filter((_, index) => index % 2 === 1).map((each) => collect(neighbor.watch(prefix(each))));
  await Promise.all(joined.map(({ created }) => created));
  const seen = prefixes.map((each) => collect(etcd.watch(prefix(each))));
  await Promise.all(seen.map(({ created }) => created));
  const granted = await etcd.lease.grant({ ttl: TTL });
  const lease = etcd.lease.keepAlive(granted);
  const held = await new Mutex(await Session.open(etcd, { ttl: 60 }), lockName).lock();
  const waiting = new Mutex(await Session.open(other, { ttl: 60 }), lockName).lock();
  waiting.catch(() => {});
  await queueLength(direct, lockName, 2);
  for (let round = 0; round < RECONNECTS; round += 1) {
    const puts = prefixes.map((each) => putMany(etcd, `${each}${round}`, { count: PUTS, lanes: 1 }));
    if (round % 7 === 6) await pause(idleMs);
    // Break the connections while some of the puts are under way.
    if (round % 2 === 0) front.dropConnections();
    const told = await Promise.all(puts);
    if (round % 2 === 1) front.dropConnections();
    for (const [index, each] of told.entries()) await expectAsTold(direct, `${prefixes[index]}${round}`, each);
    const [first] = (await direct.range(prefix(`${key}/`), { limit: 1 })).kvs;
    expect((await untilDone(() => etcd.get(first?.key ?? key)))?.text()).toBe(first?.text());
  }
  await expectAll(direct, prefixes, seen);
  // The lease now lasts longer than its grant alone would allow, so the client has renewed it.
  await expect.poll(() => monotonicMs() + lease.remainingMs()).toBeGreaterThan(granted.sentAt + 1_500 * TTL);
  expect(lease.signal.reason).toBeUndefined();
  expect((await direct.lease.timeToLive(granted.id)).grantedTtl).toBeGreaterThan(0);
  expect(held.valid()).toBe(true);
  await held.release();
  const next = await waiting;
  expect(next.token).toBeGreaterThan(held.token);
  await next.release();
}

/** Expects that each watch delivers all keys of its prefix, each once, in the order of their revisions. */
async function expectAll(direct: Client, prefixes: readonly string[], seen: readonly Collected[]): Promise<void> {
  for (const each of prefixes) await direct.put(`${each}last`, 'x');
  for (const [index, { events }] of seen.entries()) {
    const { kvs } = await direct.range(prefix(prefixes[index] as string), {
      sort: { target: 'modRevision', order: 'asc' },
    });
    await expect.poll(() => events.length).toBeGreaterThanOrEqual(kvs.length);
    expect(events).toEqual(kvs.map((kv) => kv.key));
  }
}

interface Collected {
  readonly created: Promise<bigint>;
  readonly events: readonly string[];
}

/** Starts to collect the keys of a watch's events. */
function collect(watch: Watch): Collected {
  const events: string[] = [];
  const taking = (async () => {
    for await (const event of watch) events.push(event.key);
  })();
  taking.catch(() => {});
  onTestFinished(() => watch.close());
  return { created: watch.created(), events };
}

/** Repeats a call until it succeeds, because a proxy may refuse calls until the proxy reaches its server again. */
async function untilDone<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      await pause(50);
    }
  }
}
