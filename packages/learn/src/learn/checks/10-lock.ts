import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { inspectLock, Mutex, Session } from '../../../../../src/locks.js';
import { assertNoHolder, assertNoWaiters, checks, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/10-lock.js') & typeof import('../../../course/answers/10-lock.js');

export const LOCK = checks<Chapter>((check) => {
  check(
    'lock',
    PROGRAM,
    'lets five processes in one at a time, in the order of their tokens',
    async ({ lock }, { address }) => {
      const name = newName();
      let holders = 0;
      const tokens: bigint[] = [];
      await Promise.all(
        Array.from({ length: 5 }, async () => {
          const held = await lock(address, name);
          holders += 1;
          assert.equal(holders, 1);
          tokens.push(held.token);
          await pause(20);
          holders -= 1;
          await held.unlock();
        }),
      );
      assert.deepEqual(
        tokens,
        tokens.toSorted((a, b) => Number(a - b)),
      );
    },
  );
  check(
    'lock',
    PROGRAM,
    "makes a Mutex of etcdwire wait, which uses the same keys as Go's client and etcdctl",
    async ({ lock }, { address, etcd }) => {
      const name = newName();
      const held = await lock(address, name);
      await using session = await Session.open(etcd);
      const waiting = new Mutex(session, name).lock();
      while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
      assert.equal((await inspectLock(etcd, name)).holder?.token, held.token);
      await held.unlock();
      await (await waiting).release();
    },
  );
  check(
    'lock',
    PROGRAM,
    'refuses the write of a holder that has lost the lock',
    async ({ lock }, { address, etcd }) => {
      const name = newName();
      const held = await lock(address, name);
      assert.equal(await held.put(`${name}-value`, 'first'), true);
      await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
      assert.equal(await held.put(`${name}-value`, 'stale'), false);
      assert.equal((await etcd.get(`${name}-value`))?.text(), 'first');
    },
  );
  check('withLock', 1, 'releases the lock also if the action throws', async ({ withLock }, { address, etcd }) => {
    const name = newName();
    assert.equal(await withLock(address, name, async () => 'result'), 'result');
    const failing = withLock(address, name, async () => {
      throw new Error('failed');
    });
    await assert.rejects(failing, /failed/);
    await assertNoHolder(etcd, name);
  });
  check(
    'tryLock',
    2,
    'resolves with undefined if the lock is held, and leaves nothing in the queue',
    async ({ tryLock }, { address, etcd }) => {
      const name = newName();
      const held = await tryLock(address, name);
      assert.ok(held !== undefined);
      assert.equal((await tryLock(address, name))?.token, undefined, 'tryLock resolved with a token');
      await assertNoWaiters(etcd, name);
      await held.unlock();
    },
  );
  check('lockUntil', 3, 'leaves the queue when the signal aborts', async ({ lockUntil }, { address, etcd }) => {
    const name = newName();
    const held = await lockUntil(address, name, new AbortController().signal);
    const stop = new AbortController();
    const waiting = lockUntil(address, name, stop.signal);
    while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
    stop.abort(new Error('stopped'));
    await assert.rejects(waiting, /stopped/);
    await assertNoWaiters(etcd, name);
    await held.unlock();
  });
  check(
    'lockUntil',
    3,
    'does not resolve without the lock if the lease of a waiter ends',
    async ({ lockUntil }, { address, etcd }) => {
      const name = newName();
      const { signal } = new AbortController();
      const held = await lockUntil(address, name, signal);
      const waiting = lockUntil(address, name, signal).catch(() => undefined);
      while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
      await etcd.lease.revoke((await inspectLock(etcd, name)).waiters[0]?.leaseId ?? 0n);
      await held.unlock();
      const result = await waiting;
      if (result === undefined) return; // The function has thrown an error.
      const { holder } = await inspectLock(etcd, name);
      assert.equal(holder?.token, result.token, 'lockUntil resolved although its key was no longer in the queue');
    },
  );
});
