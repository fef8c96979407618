import { describe, expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { EtcdError, prefix } from '../../src/index.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { lock, proxied, queueLength } from '../support/locks.js';

describe('an acquire whose answer is lost (S24)', () => {
  test('finds its own key again, and leaves no orphan in the queue', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer(containing(name));
    const held = await new Mutex(session, name).lock();
    await lost;
    expect((await direct.range(prefix(`${name}/`))).kvs).toMatchObject([{ createRevision: held.token }]);
    await held.unlock();
    expect((await direct.range(prefix(`${name}/`))).count).toBe(0n);
  });

  test('and that is cancelled at the same time leaves no orphan either', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const stop = new AbortController();
    void proxy.loseNextAnswer(containing(name)).then(() => stop.abort());
    const outcome = new Mutex(session, name).lock({ signal: stop.signal }).then(
      (held) => held.unlock(),
      () => {},
    );
    await outcome;
    await expect.poll(async () => (await direct.range(prefix(`${name}/`))).count).toBe(0n);
    await (await lock(direct, name)).unlock();
  });
});

describe('a waiter whose answer or watch is lost', () => {
  test('waits for its turn all the same (S24)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const first = await lock(direct, name);
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer(containing(name));
    const second = new Mutex(session, name).lock();
    await lost;
    const watches = proxy.holdNextRequest(containing(first.key));
    await Promise.race([watches, second.then(() => expect.fail('the lock was granted to two'))]);
    await first.unlock();
    expect((await second).token).toBeGreaterThan(first.token);
  });

  test('and whose predecessor leaves meanwhile waits for the one before that (S18)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const holder = await lock(direct, name);
    const session = await Session.open(direct);
    const stop = new AbortController();
    const between = new Mutex(session, name).lock({ signal: stop.signal });
    between.catch(() => {});
    await queueLength(direct, name, 2);
    const watches = proxy.holdNextRequest(containing(`${name}/${session.leaseId.toString(16)}`));
    const last = lock(etcd, name, { timeoutMs: 10_000 });
    await watches;
    proxy.blackhole();
    stop.abort();
    await expect(between).rejects.toMatchObject({ reason: 'Canceled' });
    await queueLength(direct, name, 2);
    const watchesHolder = proxy.holdNextRequest(containing(holder.key));
    proxy.heal();
    await Promise.race([watchesHolder, last]);
    await holder.unlock();
    expect((await last).token).toBeGreaterThan(holder.token);
  });
});

describe('a session that guards its key, since a put of it is in doubt', () => {
  test('takes free locks with tryLock as before, and keeps none that nobody holds', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const mutex = new Mutex(session, name);
    session.seat(`${name}/${session.leaseId.toString(16)}`).guard();
    for (let round = 0; round < 20; round += 1) {
      await (await mutex.lock()).unlock();
      const held = await mutex.tryLock();
      expect(held?.valid()).toBe(true);
      await held?.unlock();
    }
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0n);
  });
});

describe('an acquire that comes through late (S24)', () => {
  test('when the lock was taken otherwise and released, leaves no orphan in the queue', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const key = `${name}/${session.leaseId.toString(16)}`;
    const truth = direct.watch(key);
    await truth.created();
    const events = truth[Symbol.asyncIterator]();
    const next = async (): Promise<string | undefined> => (await events.next()).value?.type;
    const held = proxy.holdNextRequest(containing(name));
    await (await new Mutex(session, name).lock()).unlock();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    (await held)();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    expect(session.valid()).toBe(true);
    await (await new Mutex(session, name).lock()).unlock();
  });
});

test('a wait that nobody answered says what failed last', async () => {
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
  expect(await errorOf(mutex.lock({ timeoutMs: 300 }))).toMatchObject({
    reason: 'DeadlineExceeded',
    message: expect.stringContaining('lock not done within timeoutMs = 300; last failure: nobody is there'),
    cause: { reason: 'ConnectFailed' },
  });
});
