import { describe, expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { EtcdError, prefix } from '../../src/index.js';
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

describe('a session that watches for a late put of its queue key', () => {
  test('acquires a free lock with `tryLock`, and leaves no key after the release', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const mutex = new Mutex(session, name);
    const key = `${name}/${session.leaseId.toString(16)}`;
    (await session.latePuts.use(key, session.signal)).release(key);
    for (let round = 0; round < 20; round += 1) {
      await (await mutex.lock()).release();
      const held = await mutex.tryLock();
      expect(held?.valid()).toBe(true);
      await held?.release();
    }
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });
});

describe('a late put of the queue key of a lock (S24)', () => {
  test('leaves no key in the queue after a second attempt has acquired and released the lock', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const key = `${name}/${session.leaseId.toString(16)}`;
    const truth = direct.watch(key);
    await truth.created();
    const events = truth[Symbol.asyncIterator]();
    const next = async (): Promise<string | undefined> => (await events.next()).value?.type;
    const held = proxy.holdNextRequest(containing(name));
    await (await new Mutex(session, name).lock()).release();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    (await held)();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    expect(session.valid()).toBe(true);
    await (await new Mutex(session, name).lock()).release();
  });
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
