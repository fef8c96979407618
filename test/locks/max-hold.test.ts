import { expect, test } from 'vitest';
import { op } from '../../src/index.js';
import { Election, lead, Mutex, RWMutex, Session, withLock } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';

test('`signal` aborts after `maxHoldMs`, and the next contender gets the lock when the holder releases it', async () => {
  const [etcd, name] = [openClient(), unique('limited')];
  // The TTL is long, so that only the release frees the lock.
  const held = await new Mutex(await Session.open(etcd, { ttl: 600 }), name).lock({ maxHoldMs: 200 });
  let isFree = false;
  const next = new Mutex(await Session.open(etcd), name).lock().finally(() => {
    isFree = true;
  });
  await queueLength(etcd, name, 2);
  expect(held.valid()).toBe(true);
  await expect.poll(() => held.signal.aborted).toBe(true);
  expect(held.signal.reason).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
  expect(held.signal.reason.message).toContain('maxHoldMs = 200');
  const error = await errorOf(held.txn({ then: [op.put(name, 'late')] }));
  expect(error).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
  expect(await etcd.get(name)).toBeUndefined();
  await queueLength(etcd, name, 2);
  expect(isFree).toBe(false);
  await held.release();
  expect((await next).token > held.token).toBe(true);
});

test('the next contender gets a lock after `maxHoldMs` although the holder never releases the lock and its session continues', async () => {
  const [etcd, name] = [openClient(), unique('limited')];
  const session = await Session.open(etcd, { ttl: 2 });
  const held = await new Mutex(session, name).lock({ maxHoldMs: 100 });
  const next = await new Mutex(await Session.open(etcd), name).lock();
  expect(next.valid()).toBe(true);
  expect(held.valid()).toBe(false);
  expect(session.valid()).toBe(true);
});

test('a caller of the same session waits until a holder with `maxHoldMs` has released the lock', async () => {
  const [etcd, name] = [openClient(), unique('limited')];
  const mutex = new Mutex(await Session.open(etcd, { ttl: 600 }), name);
  const held = await mutex.lock({ maxHoldMs: 50 });
  await expect.poll(() => held.valid()).toBe(false);
  expect(await mutex.tryLock()).toBeUndefined();
  await held.release();
  expect((await mutex.tryLock())?.valid()).toBe(true);
});

test('`maxHoldMs` also limits a lock of `tryLock`, a read lock and a write lock of an RWMutex, and a leadership', async () => {
  const session = await Session.open(openClient());
  const name = unique('limited');
  const limit = { maxHoldMs: 100 };
  const lock = new RWMutex(session, `${name}-rw`);
  const holds = [
    await new Mutex(session, name).tryLock(limit),
    await lock.readLock(limit),
    await lock.tryReadLock(limit),
    await new RWMutex(session, `${name}-w`).lock(limit),
    await new Election(session, `${name}-election`).campaign('me', limit),
  ];
  await expect.poll(() => holds.map((held) => held?.valid())).toEqual([false, false, false, false, false]);
  expect(session.valid()).toBe(true);
});

test('a hold that ends before `maxHoldMs` ends with its own reason, and a later hold is not affected', async () => {
  const session = await Session.open(openClient());
  const name = unique('limited');
  const released = await new Mutex(session, name).lock({ maxHoldMs: 100 });
  await released.release();
  const later = await new Mutex(session, name).lock();
  const other = await new Mutex(session, `${name}-other`).lock({ maxHoldMs: 100 });
  await expect.poll(() => other.valid()).toBe(false);
  expect(released.signal.reason).toMatchObject({ reason: 'LockReleased' });
  expect(later.valid()).toBe(true);
});

test('`withLock` rejects when its action has run for longer than `maxHoldMs`, even if the action ends without an error', async () => {
  const [etcd, name] = [openClient(), unique('limited')];
  const action = ({ signal }: { readonly signal: AbortSignal }) =>
    new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('done')));
  expect(await errorOf(withLock(etcd, name, { maxHoldMs: 100 }, action))).toMatchObject({ reason: 'LockLost' });
  await queueLength(etcd, name, 0);
});

test('`lead` ends a term after `maxHoldMs`, lets another candidate lead, and campaigns again', async () => {
  const [etcd, name] = [openClient(), unique('limited')];
  const terms: string[] = [];
  const stop = new AbortController();
  const candidate = (id: string) =>
    lead(etcd, name, { value: id, maxHoldMs: 100, signal: stop.signal }, async ({ signal }) => {
      terms.push(id);
      if (terms.length >= 4) return stop.abort();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    });
  await Promise.all([candidate('a'), candidate('b')]);
  expect(new Set(terms)).toEqual(new Set(['a', 'b']));
});
