import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Mutex, Session } from '../../../src/concurrency.js';
import { Client as CoreClient } from '../../../src/core.js';
import type { WatchRequest, WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import * as kvMethods from '../../../src/gen/methods/kv.js';
import * as leaseMethods from '../../../src/gen/methods/lease.js';
import * as watchMethods from '../../../src/gen/methods/watch.js';
import { type Client, collectStats, type Interceptor, type Stats } from '../../../src/index.js';
import type { OutgoingStream, StreamCall, StreamHandler } from '../../../src/wire/transport.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { canary, expectNoCanary, plant, watchOutput } from '../../support/canaries.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { VirtualClock } from '../../support/virtual-clock.js';

watchOutput();

const SEED = 20_260_731;
const PUT = '/etcdserverpb.KV/Put';
const RANGE = '/etcdserverpb.KV/Range';
const WATCH = watchMethods.watch.path;
const KEEP_ALIVE = leaseMethods.leaseKeepAlive.path;
/** A time in milliseconds that is longer than any call in these tests takes. */
const LONG_MS = 50_000;

const KEY = canary('key');
const VALUE = canary('value');

/** What a put in the seeded sequence does, and the reason with which it fails. */
const PUTS: Readonly<Record<string, { readonly put: (etcd: Client) => Promise<unknown>; readonly reason?: string }>> = {
  succeeds: { put: (etcd) => etcd.put(KEY, VALUE) },
  'names an unknown lease': { put: (etcd) => etcd.put(KEY, VALUE, { lease: 12_345n }), reason: 'LeaseNotFound' },
  'is canceled before it is sent': {
    put: (etcd) => etcd.put(KEY, VALUE, { signal: AbortSignal.abort() }),
    reason: 'Canceled',
  },
  'is canceled after it was started': {
    put: (etcd) => {
      const controller = new AbortController();
      const putting = etcd.put(KEY, VALUE, { signal: controller.signal });
      controller.abort();
      return putting;
    },
    reason: 'Canceled',
  },
  'times out': { put: (etcd) => etcd.put(KEY, VALUE, { timeoutMs: 1e-6 }), reason: 'DeadlineExceeded' },
};

describe('the stats of a seeded sequence of calls', () => {
  test('count every call exactly, by its result, when calls succeed, fail, are canceled and time out', async () => {
    const stats = collectStats();
    const etcd = openClient({ interceptors: [stats] });
    const sequence = fc.sample(fc.constantFrom(...Object.keys(PUTS)), { seed: SEED, numRuns: 300 });
    const errors: Record<string, number> = {};
    let succeeded = 0;
    await Promise.all(
      sequence.map(async (name) => {
        const { put, reason } = PUTS[name] as (typeof PUTS)[string];
        const result = await put(etcd).then(
          () => undefined,
          (error: { readonly reason: string }) => error.reason,
        );
        expect(result, name).toBe(reason);
        if (reason === undefined) succeeded += 1;
        else errors[reason] = (errors[reason] ?? 0) + 1;
      }),
    );
    const { calls, streams } = stats.snapshot();
    const failed = sequence.length - succeeded;
    expect(calls[PUT]).toMatchObject({
      ...{ started: sequence.length, succeeded, failed, errors, inFlight: 0, queued: 0, retries: 0 },
      latency: { count: sequence.length },
    });
    expect(Object.keys(errors).sort()).toEqual(['Canceled', 'DeadlineExceeded', 'LeaseNotFound']);
    expect(Object.keys(calls)).toEqual([PUT]);
    expect(streams).toEqual({});
  });

  test('count the calls of several clients that share the stats', async () => {
    const stats = collectStats();
    const clients = [openClient({ interceptors: [stats] }), openClient({ interceptors: [stats] })];
    await Promise.all(clients.map((etcd) => etcd.put(KEY, VALUE)));
    await using core = new CoreClient({ endpoints: clients[0]?.endpoints ?? [], interceptors: [stats] });
    await core.put(KEY, VALUE);
    expect(stats.snapshot().calls[PUT]).toMatchObject({ started: 3, succeeded: 3, attempts: 3 });
  });
});

describe('the stats of calls to a paused member', () => {
  test('show which calls are in flight and which are queued, until the member answers', async () => {
    const { endpoints, members } = await ownEtcd();
    const stats = collectStats();
    const etcd = openClient({ endpoints, interceptors: [stats], maxInFlight: 2, timeoutMs: LONG_MS });
    await etcd.get(KEY);
    members[0]?.pause();
    const reading = Promise.all(Array.from({ length: 5 }, () => etcd.get(KEY)));
    expect(stats.snapshot().calls[RANGE]).toMatchObject({ started: 6, succeeded: 1, inFlight: 2, queued: 3 });
    const given = new AbortController();
    const abandoned = errorOf(etcd.get(KEY, { signal: given.signal }));
    expect(stats.snapshot().calls[RANGE]).toMatchObject({ queued: 4 });
    given.abort();
    await abandoned;
    expect(stats.snapshot().calls[RANGE]).toMatchObject({ inFlight: 2, queued: 3, errors: { Canceled: 1 } });
    members[0]?.resume();
    await reading;
    expect(stats.snapshot().calls[RANGE]).toMatchObject({
      started: 7,
      succeeded: 6,
      failed: 1,
      inFlight: 0,
      queued: 0,
    });
  });

  test('show a call as queued while the client waits for its first connection', async () => {
    const { endpoints, members } = await ownEtcd();
    const stats = collectStats();
    const etcd = openClient({ endpoints, interceptors: [stats], connectTimeoutMs: LONG_MS, timeoutMs: LONG_MS });
    members[0]?.pause();
    const reading = etcd.get(KEY);
    expect(stats.snapshot().calls[RANGE]).toMatchObject({ attempts: 1, inFlight: 0, queued: 1 });
    members[0]?.resume();
    await reading;
    expect(stats.snapshot().calls[RANGE]).toMatchObject({ attempts: 1, succeeded: 1, inFlight: 0, queued: 0 });
  });
});

describe('the stats of a killed member', () => {
  test('show the retries of a read, and streams that were opened again with their watches and leases', async () => {
    const { members, endpoints } = await ownEtcd({ members: 3 });
    const stats = collectStats();
    const etcd = openClient({ endpoints, interceptors: [stats], balance: 'in-order', timeoutMs: LONG_MS });
    await using session = await Session.open(etcd, { ttl: 60 });
    const alive = etcd.lease.keepAlive(session.leaseId);
    await alive.renewed();
    const watches = [etcd.watch(unique()), etcd.watch(unique())];
    await Promise.all(watches.map((watch) => watch.created()));
    expect(stats.snapshot()).toMatchObject({
      streams: { [WATCH]: { opened: 1, open: 1, failed: 0, sent: 2, received: 2 } },
      ...{ watches: 2, leases: 1 },
    });
    await members[0]?.kill();
    await etcd.get(KEY);
    await expect.poll(() => stats.snapshot().watches).toBe(2);
    const { streams, leases } = stats.snapshot();
    const { opened = 0, open, failed = 0 } = streams[WATCH] ?? {};
    expect(open).toBe(1);
    expect(opened).toBeGreaterThanOrEqual(2);
    // Each stream but the open one has failed.
    expect(failed).toBe(opened - 1);
    expect(streams[KEEP_ALIVE]?.failed).toBeGreaterThanOrEqual(1);
    expect(leases).toBe(1);
    // The watch reads a key to check the cluster. The read may not have made an attempt yet.
    await expect.poll(() => stats.snapshot().calls[RANGE]).toMatchObject({ inFlight: 0, queued: 0 });
    const { started = 0, attempts = 0, retries = 0 } = stats.snapshot().calls[RANGE] ?? {};
    expect(retries).toBe(attempts - started);
  });

  test('count each retry as a further attempt when the first endpoint refuses connections', async () => {
    const { endpoints } = await ownEtcd();
    const stats = collectStats();
    const all = ['http://127.0.0.1:1', ...endpoints];
    const etcd = openClient({ endpoints: all, interceptors: [stats], balance: 'in-order' });
    await etcd.put(KEY, VALUE);
    expect(stats.snapshot().calls[PUT]).toMatchObject({ started: 1, succeeded: 1, failed: 0, attempts: 2, retries: 1 });
  });
});

describe('the number of watches', () => {
  test('follows watches that are created, refused and closed', async () => {
    const stats = collectStats();
    const { endpoints } = await ownEtcd();
    const etcd = openClient({ endpoints, interceptors: [stats] });
    const { header } = await etcd.put(KEY, VALUE);
    await etcd.put(KEY, VALUE);
    await etcd.compact(header.revision + 1n);
    const [first, second] = [etcd.watch(KEY), etcd.watch(KEY)];
    await Promise.all([first.created(), second.created()]);
    expect(await errorOf(etcd.watch(KEY, { startRevision: 1n }).batches().next())).toMatchObject({
      reason: 'Compacted',
    });
    expect(stats.snapshot().watches).toBe(2);
    await first.close();
    await expect.poll(() => stats.snapshot().watches).toBe(1);
    await etcd.close();
    expect(stats.snapshot()).toMatchObject({ watches: 0, streams: { [WATCH]: { opened: 1, open: 0, failed: 0 } } });
  });
});

describe('the number of leases', () => {
  test('counts a lease from its first renewal until the client revokes it', async () => {
    const stats = collectStats();
    const etcd = openClient({ interceptors: [stats] });
    const leases = await Promise.all([1, 2].map(() => etcd.lease.grant({ ttl: 600 })));
    expect(stats.snapshot().leases).toBe(0);
    for (const { id } of leases) await etcd.lease.keepAlive(id).renewed();
    expect(stats.snapshot().leases).toBe(2);
    await etcd.lease.revoke(leases[0]?.id as bigint);
    expect(stats.snapshot().leases).toBe(1);
    // Another client revokes the other lease, and this client learns it from the answer to a renewal.
    await openClient().lease.revoke(leases[1]?.id as bigint);
    await errorOf(etcd.lease.keepAliveOnce(leases[1]?.id as bigint));
    expect(stats.snapshot().leases).toBe(0);
  });

  test('no longer counts a lease whose TTL has passed since its latest renewal', () => {
    const clock = new VirtualClock();
    try {
      const stats = collectStats();
      const [stream, handler] = openFake(stats, leaseMethods.leaseKeepAlive);
      for (const id of [1n, 2n]) stream.send({ id });
      for (const id of [1n, 2n]) handler.message({ header: undefined, id, ttl: 10n });
      clock.block(9_999);
      expect(stats.snapshot().leases).toBe(2);
      stream.send({ id: 2n });
      handler.message({ header: undefined, id: 2n, ttl: 10n });
      clock.block(1);
      expect(stats.snapshot().leases).toBe(1);
      clock.block(10_000);
      expect(stats.snapshot().leases).toBe(0);
    } finally {
      clock.restore();
    }
  });
});

describe('the stats of streams of a hostile server', () => {
  const id = fc.bigInt(-1n, 3n);
  const flag = fc.boolean();
  const watchMessage = fc.oneof(
    { weight: 10, arbitrary: fc.constant<'create'>('create') },
    { weight: 20, arbitrary: fc.record({ watchId: id, created: flag, canceled: flag }) },
    { weight: 1, arbitrary: fc.constantFrom<'end' | 'cancel'>('end', 'cancel') },
  );

  test('never count more watches than the client has created, and none after the end of the stream', () => {
    fc.assert(
      fc.property(fc.array(watchMessage, { maxLength: 40 }), (messages) => {
        const stats = collectStats();
        const [stream, handler] = openFake(stats, watchMethods.watch);
        let created = 0;
        let isOver = false;
        for (const message of messages) {
          if (message === 'create') {
            stream.send({ requestUnion: { case: 'createRequest', value: {} } } as WatchRequest);
            created += 1;
          } else if (message === 'end') handler.end(undefined);
          else if (message === 'cancel') stream.cancel();
          else handler.message(message as WatchResponse);
          isOver ||= message === 'end' || message === 'cancel';
          const { watches, streams } = stats.snapshot();
          expect(watches).toBeGreaterThanOrEqual(0);
          expect(watches).toBeLessThanOrEqual(isOver ? 0 : created);
          expect(streams[WATCH]).toMatchObject({ opened: 1, open: isOver ? 0 : 1, failed: 0 });
        }
      }),
      { seed: SEED, numRuns: 300 },
    );
  });

  test('count no lease that the client did not ask for, and count a repeated answer once', () => {
    const stats = collectStats();
    const [stream, handler] = openFake(stats, leaseMethods.leaseKeepAlive);
    const answer = (leaseId: bigint, ttl: bigint): void => handler.message({ header: undefined, id: leaseId, ttl });
    answer(1n, 60n);
    expect(stats.snapshot().leases).toBe(0);
    stream.send({ id: 1n });
    answer(1n, 60n);
    answer(1n, 60n);
    answer(2n, 60n);
    expect(stats.snapshot().leases).toBe(1);
    // An answer that comes late, after the lease was found to be lost, does not bring the lease back.
    stream.send({ id: 1n });
    answer(1n, 0n);
    answer(1n, 60n);
    expect(stats.snapshot().leases).toBe(0);
  });

  test('keep no more leases than exist when leases expire and others are renewed', () => {
    const clock = new VirtualClock();
    try {
      const stats = collectStats();
      const [stream, handler] = openFake(stats, leaseMethods.leaseKeepAlive);
      for (let leaseId = 1n; leaseId <= 10_000n; leaseId += 1n) {
        stream.send({ id: leaseId });
        handler.message({ header: undefined, id: leaseId, ttl: 1n });
        clock.block(10);
      }
      expect(stats.snapshot().leases).toBe(99);
    } finally {
      clock.restore();
    }
  });
});

test('a call whose request is sent several times counts once as in flight, and no longer after its end', async () => {
  const stats = collectStats();
  let sendAgain: (() => void) | undefined;
  const call = { method: kvMethods.put, request: {}, timeoutMs: LONG_MS, deadline: LONG_MS };
  const response = await stats.unary?.(call, async ({ observer }) => {
    observer?.sent?.();
    observer?.sent?.();
    expect(stats.snapshot().calls[PUT]).toMatchObject({ inFlight: 1, queued: 0 });
    sendAgain = () => observer?.sent?.();
    return kvMethods.put.response.create();
  });
  expect(response).toBeDefined();
  sendAgain?.();
  expect(stats.snapshot().calls[PUT]).toMatchObject({ started: 1, succeeded: 1, inFlight: 0, queued: 0 });
});

test('the functions that an outer interceptor sets on a call are still called', async () => {
  const called: string[] = [];
  const outer: Interceptor = {
    unary: (call, next) =>
      next({
        ...call,
        observer: {
          attempt: () => void called.push('attempt'),
          sent: () => void called.push('sent'),
          retry: () => void called.push('retry'),
        },
      }),
    stream: (call, handler, next) =>
      next({ ...call, observer: { attempt: () => void called.push('stream attempt') } }, handler),
  };
  const { endpoints } = await ownEtcd();
  const etcd = openClient({
    endpoints: ['http://127.0.0.1:1', ...endpoints],
    interceptors: [outer, collectStats()],
    balance: 'in-order',
  });
  await etcd.put(KEY, VALUE);
  await etcd.watch(KEY).created();
  expect(called).toEqual(['attempt', 'retry', 'attempt', 'sent', 'stream attempt']);
});

test('a stream to an endpoint that the client does not have counts as failed', () => {
  const stats = collectStats();
  const etcd = openClient({ interceptors: [stats] });
  expect(() => etcd.raw.watch.watch({ endpoint: 'http://127.0.0.1:1' })).toThrow('endpoint');
  expect(stats.snapshot().streams[WATCH]).toMatchObject({ opened: 1, open: 0, errors: { InvalidInput: 1 } });
});

test('a call that an inner interceptor rejects with an error other than an EtcdError counts with reason `Other`', async () => {
  const stats = collectStats();
  const failing: Interceptor = { unary: () => Promise.reject(new TypeError(VALUE)) };
  const etcd = openClient({ interceptors: [stats, failing] });
  await expect(etcd.put(KEY, VALUE)).rejects.toThrow(TypeError);
  expect(stats.snapshot().calls[PUT]).toMatchObject({ failed: 1, errors: { Other: 1 }, attempts: 0, queued: 0 });
});

test('a snapshot does not change after it was taken, becomes JSON, and contains no key, value, password or token', async () => {
  const { endpoints } = await authEtcd();
  plant(USER.password);
  const seesToken: Interceptor = {
    unary: (call, next) => {
      if (call.metadata?.token !== undefined) plant(call.metadata.token);
      return next(call);
    },
  };
  const stats = collectStats();
  const etcd = openClient({ endpoints, auth: USER, interceptors: [stats, seesToken] });
  const name = `app/${KEY}`;
  await using session = await Session.open(etcd);
  await (await new Mutex(session, name).lock()).release();
  await etcd.put(name, VALUE);
  const watch = etcd.watch(name, { startRevision: 1n, prevKv: true });
  await watch.batches().next();
  expect(await errorOf(etcd.put(KEY, VALUE))).toMatchObject({ reason: 'PermissionDenied' });
  const snapshot = stats.snapshot();
  const json = JSON.stringify(snapshot);
  await etcd.put(name, VALUE);
  expect(JSON.stringify(snapshot)).toBe(json);
  expect(JSON.parse(json)).toEqual(snapshot);
  expect(snapshot.calls['/etcdserverpb.Auth/Authenticate']).toMatchObject({ started: 1 });
  expectNoCanary(snapshot, stats);
});

/** Opens a stream through the stats. Returns the stream, and the handler to which a server's messages go. */
function openFake<Request, Response>(
  { stream: open }: Stats,
  method: StreamCall<Request, Response>['method'],
): [OutgoingStream<Request>, StreamHandler<Response>] {
  let inner: StreamHandler<Response> | undefined;
  const none = (): void => {};
  const handler: StreamHandler<Response> = { message: none, end: none };
  const stream = open?.({ method }, handler, (_, given) => {
    inner = given as StreamHandler<unknown> as StreamHandler<Response>;
    return { send: none, end: none, cancel: none, pause: none, resume: none };
  });
  return [stream as OutgoingStream<Request>, inner as StreamHandler<Response>];
}
