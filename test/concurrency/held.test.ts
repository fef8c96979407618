import { describe, expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { leaveQueue } from '../../src/concurrency/queue-entry.js';
import { compare, op } from '../../src/index.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { lock, NEVER, proxied, queueLength } from '../support/locks.js';

describe('releasing', () => {
  test('deletes only the own key: one put anew under the same name stays (S23)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const held = await lock(etcd, name);
    await etcd.delete(held.key);
    await etcd.put(held.key, 'newer');
    await held.unlock();
    expect((await etcd.get(held.key))?.text()).toBe('newer');
  });

  test('repeated late does not delete a newer lock (S25)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const first = await new Mutex(session, name).lock();
    await first.unlock();
    const second = await new Mutex(session, name).lock();
    expect(second.key).toBe(first.key);
    await leaveQueue(etcd, first.key, first.token, NEVER);
    expect((await etcd.get(second.key))?.createRevision).toBe(second.token);
  });

  test('whose answer is lost, with the lock taken again before the retry, leaves the newer lock (S25)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const held = await lock(etcd, name);
    const next = lock(direct, name);
    await queueLength(direct, name, 2);
    const lost = proxy.loseNextAnswer(containing(held.key));
    await held.unlock();
    await lost;
    const newer = await next;
    expect((await direct.get(newer.key))?.createRevision).toBe(newer.token);
    expect(newer.valid()).toBe(true);
  });

  test('aborts the signal first, and may be done twice', async () => {
    const held = await lock(openClient(), unique('lock'));
    const unlocking = held.unlock();
    expect(held.signal.aborted).toBe(true);
    await Promise.all([unlocking, held.unlock()]);
    await held[Symbol.asyncDispose]();
  });
});

describe('writing under a lock (S23)', () => {
  test('carries the comparison of the token, and types the answer by the operations', async () => {
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

  test('is refused to a holder whose key is gone, and nothing is written', async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    await openClient().txn({ then: [op.delete(held.key)] });
    const error = await errorOf(held.txn({ then: [op.put(key, 'stale')] }));
    expect(error).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    expect(await etcd.get(key)).toBeUndefined();
    expect(held.valid()).toBe(false);
  });

  test('a holder that lost the lock and never released it does not stand in the way of its session (S22)', async () => {
    const etcd = openClient();
    const mutex = new Mutex(await Session.open(etcd), unique('lock'));
    const lost = await mutex.lock();
    await etcd.delete(lost.key);
    const again = await mutex.lock({ timeoutMs: 10_000 });
    expect([lost.valid(), again.valid()]).toEqual([false, true]);
  });

  test('a holder whose key is deleted by somebody is told', async () => {
    const held = await lock(openClient(), unique('lock'));
    const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)));
    await openClient().delete(held.key);
    expect(await told).toMatchObject({ reason: 'LockLost' });
  });
});
