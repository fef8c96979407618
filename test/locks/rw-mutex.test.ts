import { expect, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { RWMutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied, queueLength } from '../support/locks.js';
import { watchers } from '../support/metrics.js';
import { ownEtcd } from '../support/own-etcd.js';

async function rwMutex(etcd: Client, name: string): Promise<RWMutex> {
  return new RWMutex(await Session.open(etcd), name);
}

test('readers share an RWMutex, and a writer excludes readers and other writers', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  let [reading, writing, most] = [0, 0, 0];
  await Promise.all(
    Array.from({ length: 12 }, async (_, index) => {
      const mutex = await rwMutex(etcd, name);
      for (let round = 0; round < 3; round += 1) {
        const held = await (index % 4 === 0 ? mutex.lock() : mutex.readLock());
        if (index % 4 === 0) writing += 1;
        else reading += 1;
        most = Math.max(most, reading);
        expect(writing <= 1 && (writing === 0 || reading === 0)).toBe(true);
        await etcd.get(name);
        if (index % 4 === 0) writing -= 1;
        else reading -= 1;
        await held.release();
      }
    }),
  );
  expect(most).toBeGreaterThan(1);
  expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
});

test('a writer of an RWMutex waits for earlier readers, and a later reader waits for the writer', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const [r1, r2] = [await (await rwMutex(etcd, name)).readLock(), await (await rwMutex(etcd, name)).readLock()];
  const order: string[] = [];
  const writer = (await rwMutex(etcd, name)).lock().then((held) => {
    order.push('writer');
    return held;
  });
  await queueLength(etcd, name, 3);
  const reader = (await rwMutex(etcd, name)).readLock().then((held) => {
    order.push('reader');
    return held;
  });
  await queueLength(etcd, name, 4);
  expect(await (await rwMutex(etcd, name)).tryReadLock()).toBeUndefined();
  await r2.release();
  expect(await (await rwMutex(etcd, name)).tryLock()).toBeUndefined();
  expect(order).toEqual([]);
  await r1.release();
  await (await writer).release();
  await (await reader).release();
  expect(order).toEqual(['writer', 'reader']);
});

test("an RWMutex uses the same keys as Go's RWMutex, NAME/read/… and NAME/write/…", async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const mutex = await rwMutex(etcd, name);
  const read = await mutex.readLock();
  expect(read.key.startsWith(`${name}/read/`)).toBe(true);
  const { id: lease } = await etcd.lease.grant({ ttl: 60 });
  await read.release();
  // In Go, the name of a contender's key ends with the time in nanoseconds.
  await etcd.put(`${name}/write/1700000000000000001`, '', { lease });
  expect(await mutex.tryReadLock()).toBeUndefined();
  await etcd.delete(`${name}/write/1700000000000000001`);
  await etcd.put(`${name}/read/1700000000000000002`, '', { lease });
  expect(await mutex.tryLock()).toBeUndefined();
  expect(await mutex.tryReadLock()).toBeDefined();
  await etcd.lease.revoke(lease);
});

test('a session may hold several read locks, and a write lock of the same session must wait until the read locks are released', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const mutex = await rwMutex(etcd, name);
  const [a, b] = [await mutex.readLock(), await mutex.readLock()];
  expect(b.token).toBeGreaterThan(a.token);
  expect(await errorOf(mutex.lock({ maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
  await queueLength(etcd, name, 2);
  await Promise.all([a.release(), b.release()]);
  expect((await mutex.lock()).valid()).toBe(true);
});

test('canceled `readLock` calls leave no key and at most one watch on the server', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  const name = unique('rw');
  const mutex = await rwMutex(etcd, name);
  const writer = await (await rwMutex(direct, name)).lock();
  for (let round = 0; round < 5; round += 1) {
    const stop = new AbortController();
    const lost = proxy.loseNextAnswer(containing(`${name}/read/`)).then(() => stop.abort());
    expect(await errorOf(mutex.readLock({ signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
    await lost;
  }
  await queueLength(direct, name, 1);
  await expect.poll(() => watchers(endpoints)).toBeLessThanOrEqual(2);
  await writer.release();
});

test('the put of a canceled `readLock` call has no effect when it arrives late (S24)', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('rw');
  const mutex = await rwMutex(etcd, name);
  const stop = new AbortController();
  const held = proxy.holdNextRequest(containing(`${name}/read/`));
  const reading = errorOf(mutex.readLock({ signal: stop.signal }));
  const letGo = await held;
  stop.abort();
  expect(await reading).toMatchObject({ reason: 'Canceled' });
  const { header } = await direct.range(name);
  letGo();
  const changes = direct.watch(prefix(`${name}/`), { startRevision: header.revision + 1n });
  await changes.created();
  await (await mutex.lock()).release();
  const seen: (string | undefined)[] = [];
  for await (const event of changes) if (seen.push(event.key.split('/').at(-2)) === 2) break;
  expect(seen).toEqual(['write', 'write']);
});

test('a reader whose session ends just before the writer releases the lock does not acquire the lock (S20)', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const writer = await (await rwMutex(etcd, name)).lock();
  const session = await Session.open(etcd);
  const waiting = errorOf(new RWMutex(session, name).readLock());
  await queueLength(etcd, name, 2);
  await openClient().lease.revoke(session.leaseId);
  await writer.release();
  expect((await waiting).reason).toMatch(/LockLost|LeaseExpired/);
});
