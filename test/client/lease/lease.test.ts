import { expect, inject, test } from 'vitest';
import { pause } from '../../../src/base/timers.js';
import { type Interceptor, type Lease, op } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { containing } from '../../../src/testing/index.js';
import type { TransportFactory } from '../../../src/transport.js';
import { defaultTransport } from '../../../src/wire/default-transport.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { aborted } from '../../support/signals.js';

test('a lease can be granted, read, listed and revoked', async () => {
  const { lease } = openClient();
  const granted = await lease.grant({ ttl: 60 });
  expect(granted.ttl).toBe(60);
  expect(await lease.timeToLive(granted.id)).toMatchObject({ grantedTtl: 60 });
  expect((await lease.list()).ids).toContain(granted.id);
  await lease.revoke(granted.id);
  expect((await lease.list()).ids).not.toContain(granted.id);
});

test('`timeToLive` returns no granted and no remaining TTL for a lease that does not exist (S13)', async () => {
  expect(await openClient().lease.timeToLive(123_456_789n)).toMatchObject({
    grantedTtl: undefined,
    remainingTtl: undefined,
    keys: [],
  });
});

test('`timeToLive` lists the keys of a lease when `keys` is set, and `revoke` deletes these keys', async () => {
  const etcd = openClient();
  const { id } = await etcd.lease.grant({ ttl: 60 });
  const key = unique();
  await etcd.put(key, 'x', { lease: id });
  const { keys } = await etcd.lease.timeToLive(id, { keys: true });
  expect(keys).toEqual([key]);
  await etcd.lease.revoke(id);
  expect(await etcd.get(key)).toBeUndefined();
});

test('every method with a lease argument accepts a lease ID, a Lease, a KeepAlive and a Session', async () => {
  const etcd = openClient();
  const key = unique();
  const lease = await etcd.lease.grant({ ttl: 60 });
  await using alive = etcd.lease.keepAlive(lease);
  await using session = await Session.open(etcd, { lease });
  for (const each of [lease.id, lease, alive, session]) {
    await etcd.put(key, 'x', { lease: each });
    expect((await etcd.get(key))?.lease).toBe(lease.id);
    await etcd.put(key, 'x');
    await etcd.txn({ then: [op.put(key, 'x', { lease: each })] });
    expect((await etcd.get(key))?.lease).toBe(lease.id);
    expect(await etcd.lease.timeToLive(each)).toMatchObject({ id: lease.id, grantedTtl: 60 });
    expect(await etcd.lease.keepAliveOnce(each)).toMatchObject({ id: lease.id, ttl: 60 });
    await using kept = etcd.lease.keepAlive(each);
    expect(kept.id).toBe(lease.id);
  }
  await etcd.lease.revoke(session);
  expect(await etcd.get(key)).toBeUndefined();
});

test('a put with the lease of a closed session rejects with LeaseNotFound', async () => {
  const etcd = openClient();
  const session = await Session.open(etcd, { ttl: 60 });
  await session.close();
  expect(await errorOf(etcd.put(unique(), 'x', { lease: session }))).toMatchObject({
    reason: 'LeaseNotFound',
    outcome: 'rejected',
  });
});

test('`grant` keeps the exact value of a lease ID above 2^53, and rejects when a lease already has the ID (S15, S37)', async () => {
  const { lease } = openClient();
  const id = 2n ** 62n + BigInt(Math.floor(Math.random() * 2 ** 40));
  expect((await lease.grant({ ttl: 60, id })).id).toBe(id);
  expect(await errorOf(lease.grant({ ttl: 60, id }))).toMatchObject({ reason: 'LeaseExist', outcome: 'rejected' });
  await lease.revoke(id);
});

test('the client repeats a grant whose response is lost, and uses the lease of the second grant (S15)', async () => {
  const proxy = await faultProxy(inject('endpoints')[0] as string);
  const direct = openClient();
  const before = new Set((await direct.lease.list()).ids);
  // The ttl field with the value 12345, as protobuf encodes it.
  const lost = proxy.loseNextAnswer(containing(Buffer.from([0x08, 0xb9, 0x60])));
  const granted = await openClient({ endpoints: [proxy.endpoint] }).lease.grant({ ttl: 12_345, allowLongTtl: true });
  await lost;
  expect(granted.ttl).toBe(12_345);
  const ttls = await Promise.all(
    (await direct.lease.list()).ids.filter((id) => !before.has(id)).map((id) => direct.lease.timeToLive(id)),
  );
  // Other tests use the server at the same time.
  const own = ttls.filter(({ grantedTtl }) => grantedTtl === 12_345).map(({ id }) => id);
  expect(own).toContain(granted.id);
  for (const id of own) await direct.lease.revoke(id);
});

test('a grant rejects with outcome unknown when an earlier attempt may have succeeded (S15)', async () => {
  const proxy = await faultProxy(inject('endpoints')[0] as string);
  // The ttl field with the value 12346, as protobuf encodes it.
  const lost = proxy.loseNextAnswer(containing(Buffer.from([0x08, 0xba, 0x60]))).then(() => proxy.close());
  const error = await errorOf(
    openClient({ endpoints: [proxy.endpoint] }).lease.grant({ ttl: 12_346, allowLongTtl: true, timeoutMs: 1_000 }),
  );
  await lost;
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
});

test('a late copy of a grant does not bring a revoked lease back (S15)', async () => {
  const copies: (() => Promise<unknown>)[] = [];
  const noting: Interceptor = {
    unary: (call, next) => {
      if (call.method.path.endsWith('/LeaseGrant')) copies.push(() => next(call));
      return next(call);
    },
  };
  const etcd = openClient({ interceptors: [noting] });
  const { id } = await etcd.lease.grant({ ttl: 60 });
  await etcd.lease.revoke(id);
  for (const copy of [...copies]) await copy();
  expect((await etcd.lease.timeToLive(id)).remainingTtl).toBeUndefined();
});

test.each([
  ['no `ttl`', { sentAt: 0 }],
  ['a `ttl` of 0', { ttl: 0, sentAt: 0 }],
  ['a `sentAt` in the future', { ttl: 10, sentAt: Number.MAX_SAFE_INTEGER }],
])('`keepAlive` refuses a lease with %s', async (_, part) => {
  const lease = { id: 5n, ...part } as Lease;
  expect(await errorOf(() => openClient().lease.keepAlive(lease))).toMatchObject({ reason: 'InvalidInput' });
});

test('the TTL of a lease counts from when the client sent the request, not from when the caller called `grant` (S14)', async () => {
  const transport: TransportFactory = (endpoint, options) => {
    const real = defaultTransport(endpoint, options);
    return {
      unary: async (call) => {
        await pause(2_000);
        return real.unary(call);
      },
      stream: (call, handler) => real.stream(call, handler),
      close: () => real.close(),
    };
  };
  const { lease } = openClient({ transport });
  const alive = lease.keepAlive(await lease.grant({ ttl: 2 }));
  expect(alive.valid()).toBe(true);
});

test('a lease that is kept alive outlives its TTL (S13)', async () => {
  const etcd = openClient();
  const lease = await etcd.lease.grant({ ttl: 2 });
  const key = unique();
  await etcd.put(key, 'alive', { lease: lease.id });
  const alive = etcd.lease.keepAlive(lease);
  expect(alive.valid()).toBe(true);
  // The test waits 4.5 s. Then the deadline must be later than 6 s (three times the TTL) after the start. Only
  // acknowledged renewals move the deadline.
  const end = performance.now() + 6_000;
  await expect.poll(() => performance.now() + alive.remainingMs() > end && performance.now() > end - 1_500).toBe(true);
  expect((await etcd.get(key))?.text()).toBe('alive');
  await alive.close();
});

test('a keepalive that is given only a lease ID is valid as soon as the server acknowledges its first renewal', async () => {
  const { lease } = openClient();
  const { id } = await lease.grant({ ttl: 60 });
  await using alive = lease.keepAlive(id);
  expect(alive.valid()).toBe(false);
  await expect.poll(() => alive.valid()).toBe(true);
  expect(alive.ttl).toBe(60);
});

test('a keepalive is lost with LeaseExpired when its lease ends on the server, and other keepalives stay valid (S13, S16)', async () => {
  const [etcd, other] = [openClient(), openClient()];
  const [lost, kept] = [await etcd.lease.grant({ ttl: 2 }), await etcd.lease.grant({ ttl: 2 })];
  const [losing, keeping] = [etcd.lease.keepAlive(lost), etcd.lease.keepAlive(kept)];
  await other.lease.revoke(lost.id);
  await aborted(losing.signal);
  expect(losing.signal.reason).toMatchObject({ reason: 'LeaseExpired' });
  expect(losing.valid()).toBe(false);
  expect(keeping.valid()).toBe(true);
});

test('a keepalive is lost with LeaseRevoked as soon as the program calls `revoke` for its lease (S16)', async () => {
  const { lease } = openClient();
  const alive = lease.keepAlive(await lease.grant({ ttl: 60 }));
  const revoking = lease.revoke(alive.id);
  expect(alive.valid()).toBe(false);
  expect(alive.signal.reason).toMatchObject({ reason: 'LeaseRevoked' });
  await revoking;
});

test('a keepalive is lost with LeaseUnreachable when no server answers before the deadline (S16)', async () => {
  const proxy = await faultProxy(inject('endpoints')[0] as string);
  const { lease } = openClient({ endpoints: [proxy.endpoint] });
  const alive = lease.keepAlive(await lease.grant({ ttl: 2 }));
  proxy.blackhole();
  await aborted(alive.signal);
  expect(alive.signal.reason).toMatchObject({ reason: 'LeaseUnreachable' });
});

test('a keepalive is lost with KeepAliveClosed when it is closed, and with ClientClosed when the client closes (S16)', async () => {
  const etcd = openClient();
  const lease = await etcd.lease.grant({ ttl: 60 });
  const [first, second] = [etcd.lease.keepAlive(lease), etcd.lease.keepAlive(lease)];
  await expect.poll(() => first.valid()).toBe(true);
  await first.close();
  expect(first.signal.reason).toMatchObject({ reason: 'KeepAliveClosed' });
  expect(second.valid()).toBe(true);
  const third = etcd.lease.keepAlive(lease.id);
  await expect.poll(() => third.valid()).toBe(true);
  await etcd.close();
  // Both keepalives are lost immediately, even if no renewal was due and no stream was open.
  expect([second, third].map(({ signal }) => signal.reason.reason)).toEqual(['ClientClosed', 'ClientClosed']);
});

test('a keepalive stays valid when the connection breaks several times', async () => {
  const proxy = await faultProxy(inject('endpoints')[0] as string);
  const { lease } = openClient({ endpoints: [proxy.endpoint] });
  const alive = lease.keepAlive(await lease.grant({ ttl: 3 }));
  const first = alive.remainingMs() + performance.now();
  for (let round = 1; round <= 4; round += 1) {
    proxy.dropConnections();
    await expect.poll(() => performance.now() + alive.remainingMs() > first + round * 1_000).toBe(true);
  }
  expect(alive.valid()).toBe(true);
});

test('`keepAliveOnce` renews a lease, and rejects with LeaseExpired when the lease does not exist', async () => {
  const { lease } = openClient();
  const { id } = await lease.grant({ ttl: 60 });
  await expect.poll(async () => (await lease.timeToLive(id)).remainingTtl).toBeLessThan(60);
  expect(await lease.keepAliveOnce(id)).toMatchObject({ id, ttl: 60 });
  await lease.revoke(id);
  expect(await errorOf(lease.keepAliveOnce(id))).toMatchObject({ reason: 'LeaseExpired' });
});

test('a lease counts as alive with a transport that does not report when it has sent the grant', async () => {
  const transport: TransportFactory = (endpoint, options) => {
    const inner = defaultTransport(endpoint, options);
    return {
      unary: (call) => inner.unary({ ...call, observer: undefined }),
      stream: (call, handler) => inner.stream(call, handler),
      close: () => inner.close(),
    };
  };
  const etcd = openClient({ transport });
  const before = performance.now();
  const lease = await etcd.lease.grant({ ttl: 60 });
  expect(lease.sentAt).toBeGreaterThanOrEqual(before);
  expect(etcd.lease.keepAlive(lease).valid()).toBe(true);
});

test('`keepAlive` refuses a lease with a ttl that `grant` cannot have returned', async () => {
  const etcd = openClient();
  const lease = await etcd.lease.grant({ ttl: 60 });
  for (const ttl of [Number.POSITIVE_INFINITY, Number.NaN, 0, -1, '60' as never])
    expect(await errorOf(() => etcd.lease.keepAlive({ ...lease, ttl }))).toMatchObject({ reason: 'InvalidInput' });
});
