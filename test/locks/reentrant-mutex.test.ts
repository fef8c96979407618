import { expect, test } from 'vitest';
import { op } from '../../src/index.js';
import { Mutex, ReentrantMutex, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';

test('the owner of a ReentrantMutex acquires the mutex again at once, and keeps the mutex until the owner has released every hold', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const me = {};
  const [first, second] = [await mutex.lock(me), await mutex.lock(me)];
  expect([first.count, second.count]).toEqual([1, 2]);
  expect(second.token).toBe(first.token);
  await second.release();
  await second.release();
  expect(first.valid()).toBe(true);
  expect(await new Mutex(await Session.open(etcd), name).tryLock()).toBeUndefined();
  await first.release();
  expect(first.valid()).toBe(false);
  await queueLength(etcd, name, 0);
});

test('a ReentrantMutex treats two objects as different owners even if their contents are equal', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const [a, b] = [{ id: 1 }, { id: 1 }];
  const held = await mutex.lock(a);
  expect(await errorOf(mutex.lock(b, { maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
  const waiting = mutex.lock(b);
  await held.release();
  expect((await waiting).token).toBeGreaterThan(held.token);
});

test('a waiting `lock` call of a ReentrantMutex continues when another waiting call of the same owner is canceled', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const other = await new Mutex(await Session.open(etcd), name).lock();
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const stop = new AbortController();
  const first = errorOf(mutex.lock('me', { signal: stop.signal }));
  const second = mutex.lock('me');
  await queueLength(etcd, name, 2);
  stop.abort();
  expect(await first).toMatchObject({ reason: 'Canceled' });
  await other.release();
  const [held, again] = [await second, await mutex.lock('me')];
  expect([again.token, again.count]).toEqual([held.token, 2]);
});

test('the owner of a lost ReentrantMutex acquires the mutex again, and the release of the lost hold does not affect the new hold', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const lost = await mutex.lock('me');
  await etcd.delete(lost.key);
  await expect.poll(() => lost.valid()).toBe(false);
  const anew = await mutex.lock('me');
  expect([anew.count, anew.token > lost.token]).toEqual([1, true]);
  await lost.release();
  expect(anew.valid()).toBe(true);
});

test('a ReentrantMutex refuses an invalid owner', async () => {
  const mutex = new ReentrantMutex(await Session.open(openClient()), unique('lock'));
  for (const owner of [null, undefined, 5]) {
    expect(await errorOf(mutex.lock(owner as never))).toMatchObject({ reason: 'InvalidInput' });
  }
});

test('`tryLock` of a ReentrantMutex returns another hold to the owner that holds it, and undefined to every other caller', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const first = await mutex.tryLock('me');
  const second = await mutex.tryLock('me');
  expect([first?.count, second?.count, second?.token === first?.token]).toEqual([1, 2, true]);
  expect(await mutex.tryLock('you')).toBeUndefined();
  await first?.release();
  expect(await mutex.tryLock('you')).toBeUndefined();
  await second?.release();
  expect((await mutex.tryLock('you'))?.valid()).toBe(true);
});

test('a `lock` call of a ReentrantMutex acquires the lock even if a concurrent `tryLock` call of the same owner fails', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const other = await new Mutex(await Session.open(etcd), name).lock();
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const [trying, locking] = [mutex.tryLock('me'), mutex.lock('me')];
  expect(await trying).toBeUndefined();
  await queueLength(etcd, name, 2);
  await other.release();
  expect((await locking).count).toBe(1);
});

test('a ReentrantMutex rejects a transaction of the owner after the owner has released the mutex', async () => {
  const [etcd, name, key] = [openClient(), unique('lock'), unique()];
  const held = await new ReentrantMutex(await Session.open(etcd), name).lock('me');
  expect((await held.txn({ then: [op.put(key, 'by the owner')] })).succeeded).toBe(true);
  await held.release();
  expect(await errorOf(held.txn({ then: [op.put(key, 'stale')] }))).toMatchObject({ reason: 'LockReleased' });
  expect((await etcd.get(key))?.text()).toBe('by the owner');
  expect([held.key.startsWith(`${name}/`), held.signal.aborted]).toEqual([true, true]);
});

test.each(['lock', 'tryLock'] as const)(
  '`%s` of a ReentrantMutex never returns a hold that is released already',
  async (method) => {
    const [etcd, name] = [openClient(), unique('lock')];
    const mutex = new ReentrantMutex(await Session.open(etcd), name);
    // The last hold ends at different moments of the call.
    for (let turns = 0; turns < 20; turns += 1) {
      const first = await mutex.lock('me');
      const locking = mutex[method]('me');
      for (let turn = 0; turn < turns; turn += 1) await null;
      void first.release();
      const second = await locking;
      expect(second?.valid() ?? true, `after ${turns} turns`).toBe(true);
      await second?.release();
    }
  },
);
