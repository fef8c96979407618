import { createServer } from 'node:net';
import { expect, inject, onTestFinished, test, vi } from 'vitest';
import { type Client, EtcdError, type Interceptor, prefix } from '../../../src/index.js';
import { ExpiringKeys } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

const GRANT = '/etcdserverpb.Lease/LeaseGrant';
const PUT = '/etcdserverpb.KV/Put';

/** Returns an interceptor that counts the calls of a method. */
function counted(path: string): { readonly interceptor: Interceptor; count: number } {
  const counter = {
    count: 0,
    interceptor: {
      unary: (call, next) => {
        if (call.method.path === path) counter.count += 1;
        return next(call);
      },
    } satisfies Interceptor,
  };
  return counter;
}

async function leasesOf(etcd: Client, folder: string): Promise<Map<bigint, number>> {
  const { kvs } = await etcd.range(prefix(folder), { keysOnly: true });
  const leases = new Map<bigint, number>();
  for (const { lease } of kvs) leases.set(lease, (leases.get(lease) ?? 0) + 1);
  return leases;
}

test('expiring keys with TTLs of 10 to 19 s share leases, each of which lives for at least the TTL and at most a second longer', async () => {
  const [etcd, folder] = [openClient(), `${unique()}/`];
  const keys = new ExpiringKeys(etcd);
  await Promise.all(
    Array.from({ length: 400 }, (_, index) => keys.put(`${folder}${index}`, 'v', { ttl: 10 + (index % 10) })),
  );
  const leases = await leasesOf(etcd, folder);
  expect(leases.size).toBeLessThanOrEqual(10);
  expect(leases.has(0n)).toBe(false);
  for (let ttl = 10; ttl < 20; ttl += 1) {
    const lease = (await etcd.get(`${folder}${ttl - 10}`))?.lease ?? 0n;
    const { grantedTtl } = await etcd.lease.timeToLive(lease);
    expect([ttl, ttl + 1]).toContain(grantedTtl);
  }
});

test('concurrent calls of ExpiringKeys share a grant, and no lease gets more keys than `maxKeysPerLease`', async () => {
  const grants = counted(GRANT);
  const etcd = openClient({ interceptors: [grants.interceptor] });
  const folder = `${unique()}/`;
  const put = (keys: ExpiringKeys) =>
    Promise.all(Array.from({ length: 300 }, (_, index) => keys.put(`${folder}${index}`, 'v', { ttl: 600 })));
  await put(new ExpiringKeys(etcd));
  expect([grants.count, [...(await leasesOf(etcd, folder)).values()]]).toEqual([1, [300]]);
  await put(new ExpiringKeys(etcd, { maxKeysPerLease: 100 }));
  expect([grants.count, [...(await leasesOf(etcd, folder)).values()]]).toEqual([4, [100, 100, 100]]);
});

test('a later call of ExpiringKeys shares a lease that ends neither before nor long after the TTL of the call, and otherwise gets another lease', async () => {
  const [etcd, folder] = [openClient(), `${unique()}/`];
  const keys = new ExpiringKeys(etcd, { granularity: 0.5 });
  await keys.put(`${folder}a`, 'v', { ttl: 100 });
  await keys.put(`${folder}b`, 'v', { ttl: 120 });
  await keys.put(`${folder}c`, 'v', { ttl: 151 });
  await keys.put(`${folder}d`, 'v', { ttl: 99 });
  const { kvs } = await etcd.range(prefix(folder));
  const [a, b, c, d] = kvs.map(({ lease }) => lease);
  expect(b).toBe(a);
  expect(new Set([a, c, d]).size).toBe(3);
});

test('`put` of ExpiringKeys returns the previous key, `touch` keeps the value, and `persist` removes the lease', async () => {
  const [etcd, key] = [openClient(), unique()];
  const keys = new ExpiringKeys(etcd);
  expect(await keys.touch(key, { ttl: 60 })).toBe(false);
  expect(await keys.persist(key)).toBe(false);
  expect(await keys.remainingTtl(key)).toBeUndefined();
  await etcd.put(key, 'first');
  expect(await keys.remainingTtl(key)).toBe(Number.POSITIVE_INFINITY);
  const { prevKv } = await keys.put(key, 'second', { ttl: 60, prevKv: true });
  expect(prevKv?.text()).toBe('first');
  expect([59, 60, 61, 62, 63, 64, 65, 66]).toContain(await keys.remainingTtl(key));
  expect(await keys.touch(key, { ttl: 600 })).toBe(true);
  expect(await keys.remainingTtl(key)).toBeGreaterThan(590);
  expect(await keys.persist(key)).toBe(true);
  expect(await keys.remainingTtl(key)).toBe(Number.POSITIVE_INFINITY);
  expect(await keys.touch(key, { ttl: 30 })).toBe(true);
  expect(await keys.remainingTtl(key)).toBeLessThanOrEqual(33);
  expect((await etcd.get(key))?.text()).toBe('second');
});

test('a key with a TTL expires, even in a namespace, unless it was touched or persisted in the meantime', async () => {
  const [etcd, folder] = [openClient(), `${unique()}/`];
  const keys = new ExpiringKeys(etcd.namespace(folder));
  for (const key of ['expires', 'touched', 'persisted', 'put again']) await keys.put(key, 'v', { ttl: 1 });
  await keys.touch('touched', { ttl: 60 });
  await keys.persist('persisted');
  await etcd.put(`${folder}put again`, 'without a lease');
  await expect
    .poll(async () => (await etcd.range(prefix(folder))).kvs.map((kv) => kv.key.slice(folder.length)), {
      timeout: 15_000,
    })
    .toEqual(['persisted', 'put again', 'touched']);
});

test('a call of ExpiringKeys uses another lease when its lease was revoked or has never existed on the server', async () => {
  const [etcd, folder] = [openClient(), `${unique()}/`];
  const puts = counted(PUT);
  const keys = new ExpiringKeys(openClient({ interceptors: [puts.interceptor] }));
  await keys.put(`${folder}a`, 'v', { ttl: 60 });
  const [lost = 0n] = (await leasesOf(etcd, folder)).keys();
  await etcd.lease.revoke(lost);
  await etcd.put(`${folder}b`, 'v');
  await Promise.all([
    keys.put(`${folder}a`, 'v', { ttl: 60 }),
    keys.touch(`${folder}b`, { ttl: 60 }),
    ...Array.from({ length: 20 }, (_, index) => keys.put(`${folder}${index}`, 'v', { ttl: 60 })),
  ]);
  const leases = await leasesOf(etcd, folder);
  expect([...leases.values()]).toEqual([22]);
  expect(leases.has(lost)).toBe(false);
  // The client makes the first put, and then at most two attempts of each of the 21 other puts.
  expect(puts.count).toBeLessThanOrEqual(1 + 2 * 21);
});

test('a call of ExpiringKeys ends in time when the server refuses every lease, and its error says that nothing was written', async () => {
  let refused = 0;
  const interceptor: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path !== PUT) return next(call);
      refused += 1;
      throw new EtcdError('refused', { code: 'NotFound', reason: 'LeaseNotFound', outcome: 'rejected' });
    },
  };
  const keys = new ExpiringKeys(openClient({ interceptors: [interceptor] }));
  const error = await errorOf(keys.put(unique(), 'v', { ttl: 60, timeoutMs: 500 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'rejected' });
  expect(refused).toBeGreaterThan(1);
  expect(refused).toBeLessThan(50);
});

test('a call of ExpiringKeys rejects with outcome `rejected` when a server has refused its lease, and the next attempt was not sent', async () => {
  let puts = 0;
  const interceptor: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path !== PUT) return next(call);
      puts += 1;
      throw puts === 1
        ? new EtcdError('refused', { code: 'NotFound', reason: 'LeaseNotFound', outcome: 'rejected' })
        : new EtcdError('not connected', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' });
    },
  };
  const keys = new ExpiringKeys(openClient({ interceptors: [interceptor] }));
  const error = await errorOf(keys.put(unique(), 'v', { ttl: 60 }));
  expect([error.reason, error.outcome, puts]).toEqual(['ConnectFailed', 'rejected', 2]);
});

test('no call of ExpiringKeys uses a lease that may have ended while the machine was suspended', async () => {
  const [etcd, folder] = [openClient(), `${unique()}/`];
  const keys = new ExpiringKeys(etcd);
  await keys.put(`${folder}a`, 'v', { ttl: 60 });
  await keys.put(`${folder}b`, 'v', { ttl: 60 });
  // After a suspension, only the wall clock has advanced.
  const now = Date.now();
  const clock = vi.spyOn(Date, 'now').mockReturnValue(now + 30_000);
  onTestFinished(() => clock.mockRestore());
  await keys.put(`${folder}c`, 'v', { ttl: 60 });
  clock.mockReturnValue(now - 30_000);
  await keys.put(`${folder}d`, 'v', { ttl: 60 });
  const { kvs } = await etcd.range(prefix(folder));
  const [a, b, c, d] = kvs.map(({ lease }) => lease);
  expect(b).toBe(a);
  expect(c).not.toBe(a);
  // The wall clock is set back. This does not make a lease live longer.
  expect([a, c]).toContain(d);
});

test('expiring keys also share leases if the server grants longer TTLs than the client asks for', async () => {
  const grants = counted(GRANT);
  const interceptor: Interceptor = {
    unary: async (call, next) => {
      const { path } = call.method;
      if (path !== GRANT) return next(call);
      const request = call.request as unknown as { readonly ttl: bigint };
      return next({ ...call, request: { ...request, ttl: request.ttl < 15n ? 15n : request.ttl } as never });
    },
  };
  const etcd = openClient({ interceptors: [grants.interceptor, interceptor] });
  const [keys, folder] = [new ExpiringKeys(etcd), `${unique()}/`];
  for (let index = 0; index < 50; index += 1) await keys.put(`${folder}${index}`, 'v', { ttl: 1 + (index % 5) });
  expect(grants.count).toBeLessThanOrEqual(3);
});

test('while no server answers, each call of ExpiringKeys waits until its own limits end, and its error says that nothing was written', async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { readonly port: number };
  const etcd = openClient({ endpoints: [`http://127.0.0.1:${port}`] });
  const [keys, key] = [new ExpiringKeys(etcd), unique()];
  const stop = new AbortController();
  const aborted = errorOf(keys.put(key, 'v', { ttl: 60, signal: stop.signal }));
  const patient = keys.put(key, 'patient', { ttl: 60, timeoutMs: 60_000 });
  // The client connects again after it has seen that the first connection is closed.
  await expect.poll(() => connections).toBeGreaterThan(1);
  const late = errorOf(keys.put(key, 'v', { ttl: 60, timeoutMs: 200 }));
  expect(await late).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  expect((await late).message).toMatch(/^ExpiringKeys.put did not finish within timeoutMs = 200.*: /);
  stop.abort();
  expect(await aborted).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  expect(await errorOf(keys.put(key, 'v', { ttl: 60, signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
  server.close();
  etcd.setEndpoints(inject('endpoints'));
  await patient;
  expect((await etcd.get(key))?.text()).toBe('patient');
});

test('ExpiringKeys cancels a lease grant when no call waits for it, and the next call begins another grant', async () => {
  const { proxy, direct } = await proxied();
  const ends: unknown[] = [];
  const interceptor: Interceptor = {
    unary: async (call, next) => {
      const response = next(call);
      if (call.method.path === GRANT)
        response.then(
          () => ends.push('granted'),
          (error: EtcdError) => ends.push(error.reason),
        );
      return response;
    },
  };
  const etcd = openClient({ endpoints: [proxy.endpoint], interceptors: [interceptor] });
  await etcd.get('warm-up');
  const [keys, key] = [new ExpiringKeys(etcd), unique()];
  proxy.blackhole();
  const stop = new AbortController();
  const put = errorOf(keys.put(key, 'v', { ttl: 60, signal: stop.signal }));
  const late = errorOf(keys.put(key, 'v', { ttl: 60, timeoutMs: 100 }));
  expect(await late).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
  expect(ends).toEqual([]);
  stop.abort();
  expect(await put).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  await expect.poll(() => ends).toEqual(['Canceled']);
  proxy.heal();
  await keys.put(key, 'v', { ttl: 60 });
  expect(ends).toEqual(['Canceled', 'granted']);
  expect((await direct.get(key))?.text()).toBe('v');
});

test('`put` and `touch` of ExpiringKeys do not repeat a write whose answer was lost, unless the client has `retryWrites`', async () => {
  const { proxy, direct } = await proxied();
  const [key, other] = [unique(), unique()];
  const puts = counted(PUT);
  const etcd = openClient({ endpoints: [proxy.endpoint], interceptors: [puts.interceptor] });
  const keys = new ExpiringKeys(etcd);
  await keys.put(other, 'v', { ttl: 600 });
  proxy.oneWay('to-server');
  const error = errorOf(keys.put(key, 'lost', { ttl: 600 }));
  await expect.poll(async () => (await direct.get(key))?.text()).toBe('lost');
  proxy.dropConnections();
  proxy.heal();
  expect(await error).toMatchObject({ outcome: 'unknown' });
  expect(puts.count).toBe(2);
  const retried = new ExpiringKeys(openClient({ endpoints: [proxy.endpoint], retryWrites: true }));
  await retried.put(other, 'first', { ttl: 600 });
  proxy.oneWay('to-server');
  const result = retried.put(key, 'kept', { ttl: 600, prevKv: true });
  await expect.poll(async () => (await direct.get(key))?.text()).toBe('kept');
  proxy.dropConnections();
  proxy.heal();
  expect((await result).prevKv?.text()).toBe('lost');
  expect((await direct.get(key))?.version).toBe(2n);
});

test('expiring keys survive a restart of the server and a compaction, and later calls succeed', async () => {
  const { endpoints, members } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const keys = new ExpiringKeys(etcd);
  await keys.put('a', 'v', { ttl: 60 });
  await members[0]?.kill();
  const waiting = keys.put('b', 'v', { ttl: 300, timeoutMs: 60_000 });
  await members[0]?.start();
  const { header } = await waiting;
  await etcd.compact(header.revision);
  await keys.put('c', 'v', { ttl: 60 });
  expect((await etcd.range(prefix(''))).kvs.map((kv) => kv.key)).toEqual(['a', 'b', 'c']);
  expect(await keys.touch('a', { ttl: 30 })).toBe(true);
});

test('closing the client ends a call of ExpiringKeys that waits for a lease grant', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  const put = errorOf(new ExpiringKeys(etcd).put(unique(), 'v', { ttl: 60, timeoutMs: 60_000 }));
  await etcd.close({ drainMs: 50 });
  expect(await put).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
});

test('`put` of ExpiringKeys writes the original bytes when the caller overwrites its buffers while the call waits', async () => {
  const [etcd, name] = [openClient(), unique()];
  const [key, value] = [new TextEncoder().encode(name), new TextEncoder().encode('value')];
  const put = new ExpiringKeys(etcd).put(key, value, { ttl: 60 });
  key.fill(63);
  value.fill(63);
  await put;
  expect((await etcd.get(name))?.text()).toBe('value');
});

test('ExpiringKeys refuses wrong arguments, and the error names the argument', async () => {
  const etcd = openClient();
  const keys = new ExpiringKeys(etcd);
  for (const granularity of [-0.1, Number.NaN, Number.POSITIVE_INFINITY])
    expect(() => new ExpiringKeys(etcd, { granularity })).toThrow(/granularity: got/);
  expect(() => new ExpiringKeys(etcd, { maxKeysPerLease: 0 })).toThrow(/maxKeysPerLease: got/);
  for (const ttl of [0, 1.5, 9_000_000_001, undefined])
    expect(await errorOf(keys.put('k', 'v', { ttl } as never))).toMatchObject({
      reason: 'InvalidInput',
      message: expect.stringMatching(/^ttl: got/),
    });
});
