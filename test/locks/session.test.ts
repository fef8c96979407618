import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { type Gap, Mutex, SelfHealingSession, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied } from '../support/locks.js';

// A gap is the time between the loss of a self-healing session's lease and the restoration of its registered keys with
// a new lease. An orphaned session is one that has ended without the revocation of its lease.

test('a session can use an existing lease, and revokes the lease when the session is closed', async () => {
  const etcd = openClient();
  const { id: lease } = await etcd.lease.grant({ ttl: 30 });
  const session = await Session.open(etcd, { lease });
  expect([session.leaseId, session.valid()]).toEqual([lease, true]);
  const held = await new Mutex(session, unique('lock')).lock();
  expect(held.key.endsWith(`/${lease.toString(16)}`)).toBe(true);
  await session.close();
  expect((await etcd.lease.timeToLive(lease)).remainingTtl).toBeUndefined();
});

test('`Session.open` rejects when the given lease does not exist or no server confirms the lease in time', async () => {
  const etcd = openClient();
  expect(await errorOf(Session.open(etcd, { lease: 12_345n }))).toMatchObject({ reason: 'LeaseExpired' });
  const nobody = openClient({ endpoints: ['http://127.0.0.1:1'], timeoutMs: 200 });
  for (const options of [{ timeoutMs: 100 }, {}]) {
    expect(await errorOf(Session.open(nobody, { lease: 5n, ...options }))).toMatchObject({
      reason: 'DeadlineExceeded',
    });
  }
  expect(await errorOf(Session.open(etcd, { lease: 5n, ttl: 5 }))).toMatchObject({ reason: 'InvalidInput' });
});

test('an orphaned session leaves its lease and its locks to the next session that uses the lease', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const session = await Session.open(etcd, { ttl: 30 });
  const held = await new Mutex(session, name).lock();
  await session.orphan();
  expect([session.valid(), held.valid(), held.signal.reason.reason]).toEqual([false, false, 'KeepAliveClosed']);
  expect((await etcd.get(held.key))?.createRevision).toBe(held.token);
  await (await Session.open(etcd, { lease: session.leaseId })).close();
  expect(await etcd.get(held.key)).toBeUndefined();
});

test("a session ends at once when a `lock` call finds that the session's lease no longer exists", async () => {
  const etcd = openClient();
  const session = await Session.open(etcd, { ttl: 60 });
  await openClient().lease.revoke(session.leaseId);
  expect(await errorOf(new Mutex(session, unique('lock')).lock())).toMatchObject({ reason: 'LeaseNotFound' });
  expect([session.valid(), session.signal.reason.reason]).toEqual([false, 'LeaseNotFound']);
});

test('a self-healing session puts its registered keys again after the loss of its lease, and reports the loss and the recovery', async () => {
  const [etcd, name] = [openClient(), unique('service')];
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  await session.register(`${name}/a`, 'A');
  await session.register(`${name}/b`, 'B');
  await session.register(`${name}/left`, 'x');
  await session.unregister(`${name}/left`);
  const before = session.leaseId;
  await openClient().lease.revoke(before);
  const gaps = session.gaps();
  expect((await gaps.next()).value).toMatchObject({ type: 'lost', cause: { reason: 'LeaseExpired' } });
  const healed = (await gaps.next()).value as Extract<Gap, { type: 'healed' }>;
  expect(healed).toMatchObject({ type: 'healed', leaseId: session.leaseId, taken: [] });
  expect(healed.restored).toHaveLength(2);
  expect(session.leaseId).not.toBe(before);
  for (const [key, value] of [
    ['a', 'A'],
    ['b', 'B'],
  ] as const) {
    const kv = await etcd.get(`${name}/${key}`);
    expect([kv?.text(), kv?.lease]).toEqual([value, session.leaseId]);
  }
  expect(await etcd.get(`${name}/left`)).toBeUndefined();
  await session.close();
  expect(await etcd.get(`${name}/a`)).toBeUndefined();
  expect(await gaps.next()).toMatchObject({ done: true });
});

test('a self-healing session does not replace a key that another client has put while the session had no lease', async () => {
  const { etcd, direct, proxy } = await proxied();
  const key = unique('service');
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  await session.register(key, 'mine');
  proxy.blackhole();
  await direct.lease.revoke(session.leaseId);
  await direct.put(key, 'theirs');
  proxy.heal();
  proxy.dropConnections();
  const gaps = session.gaps();
  await gaps.next();
  expect((await gaps.next()).value).toMatchObject({ type: 'healed', restored: [] });
  expect((await direct.get(key))?.text()).toBe('theirs');
  await session.unregister(key);
  await session.close();
  expect((await direct.get(key))?.text()).toBe('theirs');
});

test('a self-healing session distinguishes registered keys by their bytes, even if the keys are not UTF-8', async () => {
  const [etcd, name] = [openClient(), unique('service')];
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  const keys = [0xf1, 0xf2].map((byte) => Buffer.concat([Buffer.from(name), Buffer.from([byte])]));
  for (const key of keys) await session.register(key, 'x');
  await session.register(Buffer.from(`${name}-left`), 'x');
  await session.unregister(`${name}-left`);
  await openClient().lease.revoke(session.leaseId);
  for await (const gap of session.gaps()) if (gap.type === 'healed') break;
  expect((await etcd.range(prefix(name))).kvs.map(({ lease }) => lease)).toEqual([session.leaseId, session.leaseId]);
  await session.close();
});

test('a self-healing session deletes a key when the caller repeats a timed-out `unregister` call', async () => {
  const { etcd, direct, proxy } = await proxied();
  const key = unique('service');
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  await session.register(key, 'x');
  proxy.blackhole();
  expect(await errorOf(session.unregister(key, { maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  proxy.heal();
  proxy.dropConnections();
  await session.unregister(key);
  expect(await direct.get(key)).toBeUndefined();
  await session.close();
  await session.unregister(key);
});

test('a delayed put of a registered key restores neither an older value nor an unregistered key', async () => {
  const { etcd, direct, proxy } = await proxied();
  const key = unique('service');
  const session = await SelfHealingSession.open(etcd, { ttl: 30 });
  const held = proxy.holdNextRequest(containing('old value'));
  const registering = session.register(key, 'old value');
  const release = await held;
  await registering;
  await session.register(key, 'new value');
  release();
  await direct.put(unique(), 'x');
  expect((await direct.get(key))?.text()).toBe('new value');

  const heldAgain = proxy.holdNextRequest(containing('third value'));
  const third = session.register(`${key}3`, 'third value');
  const releaseAgain = await heldAgain;
  await third;
  await session.unregister(`${key}3`);
  releaseAgain();
  await expect.poll(() => direct.get(`${key}3`)).toBeUndefined();
});

test('a key that is registered while a self-healing session has no lease exists after the session has a new lease', async () => {
  const { etcd, direct, proxy } = await proxied();
  const key = unique('service');
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  const gaps = session.gaps();
  proxy.blackhole();
  await direct.lease.revoke(session.leaseId);
  expect((await gaps.next()).value).toMatchObject({ type: 'lost' });
  const registering = session.register(key, 'x');
  expect(await errorOf(session.register(key, 'x', { maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  proxy.heal();
  proxy.dropConnections();
  await registering;
  expect((await direct.get(key))?.lease).toBe(session.leaseId);
  await session.close();
});

test('`register` of a self-healing session waits for the next lease when the current lease no longer exists', async () => {
  const [etcd, key] = [openClient(), unique('service')];
  const session = await SelfHealingSession.open(etcd, { ttl: 60 });
  await openClient().lease.revoke(session.leaseId);
  await session.register(key, 'x');
  expect((await etcd.get(key))?.lease).toBe(session.leaseId);
  await session.close();
  expect(session.signal.aborted).toBe(true);
  expect(await errorOf(session.register(key, 'y'))).toMatchObject({ reason: 'KeepAliveClosed' });
});

describe('a closing client', () => {
  test('frees the locks of its sessions and of the sessions of its namespaces when their holders release them', async () => {
    const [etcd, other, name] = [openClient(), openClient(), unique('lock')];
    const [own, inside] = [await Session.open(etcd), await Session.open(etcd.namespace(`${name}/in/`))];
    const held = [await new Mutex(own, `${name}/own`).lock(), await new Mutex(inside, 'lock').lock()];
    const closing = etcd.close();
    expect(held.map(({ signal }) => signal.aborted && signal.reason.reason)).toEqual(['ClientClosed', 'ClientClosed']);
    // Two queue keys, and the guard of the session in the namespace.
    expect((await other.range(prefix(name), { countOnly: true })).count).toBe(3);
    for (const each of held) await each.release();
    await closing;
    expect((await other.range(prefix(name))).count).toBe(0);
    await own.close();
  });

  test.each([
    ['when `close` is called twice concurrently', (etcd: Client) => Promise.all([etcd.close(), etcd.close()])],
    [
      'when its session is closed concurrently',
      (etcd: Client, session: Session) => Promise.all([session.close(), etcd.close()]),
    ],
    [
      'when a listener of the session closes the client again',
      async (etcd: Client, session: Session) => {
        session.signal.addEventListener('abort', () => void etcd.close());
        await etcd.close();
      },
    ],
  ])('waits until the lease of its session is revoked %s', async (_, close) => {
    const { etcd, proxy } = await proxied();
    const session = await Session.open(etcd, { ttl: 60 });
    proxy.delay(30);
    await close(etcd, session);
    expect((await openClient().lease.timeToLive(session)).remainingTtl).toBeUndefined();
  });

  test('does not revoke the lease of an orphaned session', async () => {
    const [etcd, other] = [openClient(), openClient()];
    const session = await Session.open(etcd);
    await session.orphan();
    await etcd.close();
    expect((await other.lease.timeToLive(session)).remainingTtl).toBeGreaterThan(0);
    await other.lease.revoke(session.leaseId);
  });

  test('waits for at most 2 s when the server does not answer', async () => {
    const { etcd, proxy } = await proxied();
    await Session.open(etcd, { ttl: 60 });
    proxy.blackhole();
    const startedAt = performance.now();
    await etcd.close();
    // The client's close waits for at most 2 s. The session's own close would wait for 10 s.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

test('`close` of a namespace closes only the sessions of that namespace', async () => {
  const [etcd, pre] = [openClient(), `${unique()}/`];
  const inner = etcd.namespace(pre);
  const [own, inside] = [await Session.open(etcd), await Session.open(inner)];
  await inner.close();
  expect([own.valid(), inside.valid()]).toEqual([true, false]);
  expect((await etcd.lease.timeToLive(inside)).remainingTtl).toBeUndefined();
});

test('`Session.open` on a closed namespace rejects and leaves no lease', async () => {
  const [etcd, ttl] = [openClient(), 3_456];
  const inner = etcd.namespace(`${unique()}/`);
  await inner.close();
  expect(await errorOf(Session.open(inner, { ttl }))).toMatchObject({ reason: 'ClientClosed' });
  const { ids } = await etcd.lease.list();
  const leases = await Promise.all(ids.map((id) => etcd.lease.timeToLive(id)));
  expect(leases.filter((lease) => lease.grantedTtl === ttl)).toEqual([]);
});

test('a self-healing session ends when its client is closed', async () => {
  const etcd = openClient();
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  await etcd.close();
  await expect.poll(() => session.signal.aborted).toBe(true);
  expect(session.signal.reason).toMatchObject({ reason: 'ClientClosed' });
});

test("a `lock` call that has finished leaves no listener on the caller's signal", async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const session = await Session.open(etcd);
  const { signal } = new AbortController();
  const held = await new Mutex(session, name).lock({ signal });
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  await held.release();
});

test("`Session.open` with a lease rejects when the caller's signal has already aborted", async () => {
  const etcd = openClient();
  const { id } = await etcd.lease.grant({ ttl: 30 });
  const signal = AbortSignal.abort(new Error('enough'));
  expect(await errorOf(Session.open(etcd, { lease: id, signal }))).toMatchObject({ reason: 'Canceled' });
});

test('`close` of a session rejects when no server confirms the revocation of the lease in time', async () => {
  const { etcd, proxy } = await proxied();
  const session = await Session.open(etcd, { ttl: 60 });
  proxy.blackhole();
  expect(await errorOf(session.close())).toMatchObject({ reason: 'DeadlineExceeded' });
  proxy.heal();
});

test('a `lease.revoke` call that is not sent does not end the session', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const session = await Session.open(etcd);
  const held = await new Mutex(session, name).lock();
  const error = await errorOf(etcd.lease.revoke(session.leaseId, { signal: AbortSignal.abort() }));
  expect(error).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  expect([session.valid(), held.valid()]).toEqual([true, true]);
  await session.close();
  expect(await etcd.get(held.key)).toBeUndefined();
});
