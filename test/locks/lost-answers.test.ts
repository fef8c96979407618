import { describe, expect, test } from 'vitest';
import { EtcdError, prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { lock, proxied, queueLength } from '../support/locks.js';

describe('a `lock` call whose answer from the server is lost (S24)', () => {
  test('finds the queue key that the first attempt has put, and leaves no second key in the queue', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer(containing(name));
    const held = await new Mutex(session, name).lock();
    await lost;
    expect((await direct.range(prefix(`${name}/`))).kvs).toMatchObject([{ createRevision: held.token }]);
    await held.release();
    expect((await direct.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('leaves no key in the queue when the caller cancels the call at the same time', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const stop = new AbortController();
    void proxy.loseNextAnswer(containing(name)).then(() => stop.abort());
    const outcome = new Mutex(session, name).lock({ signal: stop.signal }).then(
      (held) => held.release(),
      () => {},
    );
    await outcome;
    await expect.poll(async () => (await direct.range(prefix(`${name}/`))).count).toBe(0);
    await (await lock(direct, name)).release();
  });
});

describe('a waiter for a lock', () => {
  test('still waits for the queue keys before its own key when an answer from the server is lost (S24)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const first = await lock(direct, name);
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer(containing(name));
    const second = new Mutex(session, name).lock();
    await lost;
    const watches = proxy.holdNextRequest(containing(first.key));
    await Promise.race([watches, second.then(() => expect.fail('the lock was granted to two'))]);
    await first.release();
    expect((await second).token).toBeGreaterThan(first.token);
  });

  test('waits for the remaining contender ahead when its direct predecessor leaves while the waiter is disconnected (S18)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const holder = await lock(direct, name);
    const session = await Session.open(direct);
    const stop = new AbortController();
    const between = new Mutex(session, name).lock({ signal: stop.signal });
    between.catch(() => {});
    await queueLength(direct, name, 2);
    const watches = proxy.holdNextRequest(containing(`${name}/${session.leaseId.toString(16)}`));
    const last = lock(etcd, name, { maxWaitMs: 10_000 });
    await watches;
    proxy.blackhole();
    stop.abort();
    await expect(between).rejects.toMatchObject({ reason: 'Canceled' });
    await queueLength(direct, name, 2);
    const watchesHolder = proxy.holdNextRequest(containing(holder.key));
    proxy.heal();
    await Promise.race([watchesHolder, last]);
    await holder.release();
    expect((await last).token).toBeGreaterThan(holder.token);
  });
});

test('a late put of the queue key of a lock has no effect after a second attempt has acquired and released the lock (S24)', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('lock');
  const session = await Session.open(etcd);
  const key = `${name}/${session.leaseId.toString(16)}`;
  const held = proxy.holdNextRequest(containing(name));
  const locking = new Mutex(session, name).lock();
  const letGo = await held;
  await (await locking).release();
  const { header } = await direct.range(key);
  letGo();
  // The second lock gives the late put time to reach the server.
  await (await new Mutex(session, name).lock()).release();
  const events = direct.watch(key, { startRevision: header.revision + 1n });
  const seen: string[] = [];
  for await (const event of events) if (seen.push(event.type) === 2) break;
  expect(seen).toEqual(['put', 'delete']);
  expect((await direct.range(prefix(`${name}/`))).count).toBe(0);
});

test('the error of a `lock` call that times out names the last failure when no server answered', async () => {
  const refused = { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' } as const;
  const etcd = openClient({
    interceptors: [
      {
        unary: async (call, next) => {
          if (call.method.path.endsWith('/Txn')) throw new EtcdError('nobody is there', refused);
          return next(call);
        },
      },
    ],
  });
  const mutex = new Mutex(await Session.open(etcd), unique('lock'));
  expect(await errorOf(mutex.lock({ maxWaitMs: 300 }))).toMatchObject({
    reason: 'DeadlineExceeded',
    message: expect.stringMatching(/^lock did not finish within maxWaitMs = 300, .*; last failure: nobody is there/),
    cause: { reason: 'ConnectFailed' },
  });
});
