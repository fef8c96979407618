import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { compare, type Interceptor, op } from '../../src/index.js';
import { Held, hold } from '../../src/locks/held.js';
import { leaveQueue } from '../../src/locks/lock-queue.js';
import { Mutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { lock, NEVER, proxied, queueLength } from '../support/locks.js';
import { ownEtcd } from '../support/own-etcd.js';
import { recordingTransport } from '../support/recording-transport.js';

describe('the release of a lock', () => {
  test("deletes only the holder's own key, not a newer key of the same name (S23)", async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const held = await lock(etcd, name);
    await etcd.delete(held.key);
    await etcd.put(held.key, 'newer');
    await held.release();
    expect((await etcd.get(held.key))?.text()).toBe('newer');
  });

  test('does not delete the key of a newer lock when a copy of the release request arrives late (S25)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const first = await new Mutex(session, name).lock();
    await first.release();
    const second = await new Mutex(session, name).lock();
    expect(second.key).toBe(first.key);
    await leaveQueue(etcd, first.key, first.token, NEVER);
    expect((await etcd.get(second.key))?.createRevision).toBe(second.token);
  });

  test('does not delete the key of a newer lock when the client repeats the release after a lost answer (S25)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const held = await lock(etcd, name);
    const next = lock(direct, name);
    await queueLength(direct, name, 2);
    const lost = proxy.loseNextAnswer(containing(held.key));
    await held.release();
    await lost;
    const newer = await next;
    expect((await direct.get(newer.key))?.createRevision).toBe(newer.token);
    expect(newer.valid()).toBe(true);
  });

  test("aborts the holder's signal at once, and may be repeated", async () => {
    const held = await lock(openClient(), unique('lock'));
    const unlocking = held.release();
    expect(held.signal.aborted).toBe(true);
    await Promise.all([unlocking, held.release()]);
    await held[Symbol.asyncDispose]();
  });
});

describe('a transaction of the holder of a lock (S23)', () => {
  test('succeeds while the lock is held, and returns one typed response for each operation', async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    const result = await held.txn({
      if: [compare.version(key, '==', 0n)],
      then: [op.put(key, 'by the holder'), op.get(key)],
      else: [],
    });
    expect(result.succeeded && result.responses[1]?.text()).toBe('by the holder');
    const again = await held.txn({ if: [compare.version(key, '==', 0n)], else: [op.get(key)] });
    expect(!again.succeeded && again.responses[0]?.text()).toBe('by the holder');
  });

  test('is refused without a request when it reads with a revision beside a write', async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    const reading = held.txn({ then: [op.put(key, 'x'), op.get(key, { revision: 1n })] });
    expect(await errorOf(reading)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(held.valid()).toBe(true);
  });

  test("is rejected without effect when the holder's key no longer exists", async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    await openClient().txn({ then: [op.delete(held.key)] });
    const error = await errorOf(held.txn({ then: [op.put(key, 'stale')] }));
    expect(error).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    expect(await etcd.get(key)).toBeUndefined();
    expect(held.valid()).toBe(false);
  });

  test("is rejected without effect when the holder's key has a newer create revision, even before the watch says so", async () => {
    // Drops all messages of watches, so that the client does not learn of the change.
    const silent: Interceptor = {
      stream: (call, handler, next) =>
        next(
          call,
          call.method.path === methods.watch.watch.path ? { ...handler, message: () => {}, end: () => {} } : handler,
        ),
    };
    const [other, key] = [openClient(), unique()];
    const session = await Session.open(other, { ttl: 60 });
    const inner = openClient({ interceptors: [silent] });
    const held = await new Mutex(await Session.open(inner, { lease: session.leaseId }), unique('lock')).lock();
    await other.delete(held.key);
    await other.put(held.key, '', { lease: session.leaseId });
    const error = await errorOf(held.txn({ then: [op.put(key, 'stale')] }));
    expect(error).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    expect(await other.get(key)).toBeUndefined();
  });
});

test('a lock that was lost and never released does not block the next `lock` call of the same session (S22)', async () => {
  const etcd = openClient();
  const mutex = new Mutex(await Session.open(etcd), unique('lock'));
  const lost = await mutex.lock();
  await etcd.delete(lost.key);
  const again = await mutex.lock({ maxWaitMs: 10_000 });
  expect([lost.valid(), again.valid()]).toEqual([false, true]);
});

test("a holder's signal aborts when another client deletes the holder's key", async () => {
  const held = await lock(openClient(), unique('lock'));
  const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)));
  await openClient().delete(held.key);
  expect(await told).toMatchObject({ reason: 'LockLost' });
});

test('the acquisition of a lock rejects when the session ends before the acquisition completes', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const session = await Session.open(etcd);
  const [lease, key] = [session.leaseId, `${name}/k`];
  await session.close();
  let left = 0;
  const own = { key, prefix: `${name}/`, lease, createRevision: 5n, modRevision: 5n, seenAt: 5n };
  const begun = errorOf(() =>
    hold(Held, session, name, own, () => {
      left += 1;
    }),
  );
  expect(await begun).toMatchObject({ reason: 'KeepAliveClosed' });
  await expect.poll(() => left).toBe(1);
});

test("a holder's signal still aborts after a compaction when another client deletes the holder's key", async () => {
  const { endpoints } = await ownEtcd();
  const { transport, sent } = recordingTransport();
  const [etcd, direct] = [openClient({ endpoints, transport }), openClient({ endpoints })];
  await direct.put('a', 'x');
  const held = await lock(etcd, 'lock');
  for (let puts = 0; puts < 3; puts += 1) await direct.put('a', 'x');
  await direct.compact((await direct.put('a', 'x')).header.revision);
  await pause(1_000);
  const creations = sent.filter(
    ({ path, request }) =>
      path === methods.watch.watch.path &&
      (request as { requestUnion: { case: string } }).requestUnion.case === 'createRequest',
  );
  expect(creations.length).toBeLessThanOrEqual(2);
  expect(held.valid()).toBe(true);
  await direct.delete(held.key);
  await expect.poll(() => held.signal.aborted).toBe(true);
});
