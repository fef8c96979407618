import { expect, test } from 'vitest';
import { Mutex, ReentrantMutex, Session } from '../../src/concurrency/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';

test('an owner takes it again at once, and holds it until it has unlocked as often', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const me = {};
  const [first, second] = [await mutex.lock(me), await mutex.lock(me)];
  expect([first.count, second.count]).toEqual([1, 2]);
  expect(second.held.token).toBe(first.held.token);
  await second.unlock();
  await second.unlock();
  expect(first.held.valid()).toBe(true);
  expect(await new Mutex(await Session.open(etcd), name).tryLock()).toBeUndefined();
  await first.unlock();
  expect(first.held.valid()).toBe(false);
  await queueLength(etcd, name, 0);
});

test('owners are told apart by identity, also within one session', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const [a, b] = [{ id: 1 }, { id: 1 }];
  const held = await mutex.lock(a);
  expect(await errorOf(mutex.lock(b, { timeoutMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  const waiting = mutex.lock(b);
  await held.unlock();
  expect((await waiting).held.token).toBeGreaterThan(held.held.token);
});

test('an owner that asks twice at the same time gets one lock; if the first gives up, the second goes on', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const other = await new Mutex(await Session.open(etcd), name).lock();
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const stop = new AbortController();
  const first = errorOf(mutex.lock('me', { signal: stop.signal }));
  const second = mutex.lock('me');
  await queueLength(etcd, name, 2);
  stop.abort();
  expect(await first).toMatchObject({ reason: 'Canceled' });
  await other.unlock();
  const [held, again] = [await second, await mutex.lock('me')];
  expect(again.held).toBe(held.held);
});

test('a lock that was lost is had anew, and unlocking the lost one leaves the new one alone', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new ReentrantMutex(await Session.open(etcd), name);
  const lost = await mutex.lock('me');
  await etcd.delete(lost.held.key);
  await expect.poll(() => lost.held.valid()).toBe(false);
  const anew = await mutex.lock('me');
  expect([anew.count, anew.held.token > lost.held.token]).toEqual([1, true]);
  await lost.unlock();
  expect(anew.held.valid()).toBe(true);
});

test('an owner that is none is refused', async () => {
  const mutex = new ReentrantMutex(await Session.open(openClient()), unique('lock'));
  for (const owner of [null, undefined, 5]) {
    expect(await errorOf(mutex.lock(owner as never))).toMatchObject({ reason: 'InvalidInput' });
  }
});
