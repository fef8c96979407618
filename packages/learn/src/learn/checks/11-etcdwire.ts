import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { EtcdError } from '../../../../../src/index.js';
import { inspectLock, Mutex, Session } from '../../../../../src/locks.js';
import { lock as lockOfChapter10 } from '../../../course/10-lock.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { assertNoHolder, assertNoWaiters, checks, newName, observedProxy, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/11-etcdwire.js') &
  typeof import('../../../course/answers/11-etcdwire.js');

export const LIBRARY = checks<Chapter>((check) => {
  check('lock', PROGRAM, 'waits in one queue with the lock of chapter 10', async ({ lock }, { address, etcd }) => {
    const name = newName();
    const first = await lockOfChapter10(address, name);
    const waiting = lock(address, name);
    while ((await inspectLock(etcd, name)).waiters.length === 0) await pause(10);
    await first.unlock();
    const second = await waiting;
    assert.ok(second.token > first.token);
    await second.unlock();
    await assertNoHolder(etcd, name);
  });
  check(
    'lock',
    PROGRAM,
    'gets the lock with one key in the queue if a response is lost',
    async ({ lock }, { address, etcd }) => {
      const name = newName();
      const proxy = await startProxy(address);
      proxy.loseResponse('/etcdserverpb.KV/Txn');
      const held = await lock(proxy.address, name);
      assert.equal((await inspectLock(etcd, name)).holder?.token, held.token);
      await assertNoWaiters(etcd, name);
      await held.unlock();
      proxy.close();
    },
  );
  check('lock', PROGRAM, 'aborts its signal when the lease is revoked', async ({ lock }, { address, etcd }) => {
    const name = newName();
    const held = await lock(address, name);
    assert.equal(await held.put(`${name}-value`, 'first'), true);
    const aborted = once(held.signal, 'abort');
    await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
    assert.equal(await held.put(`${name}-value`, 'stale'), false);
    await aborted;
    assert.equal(held.isHeld(), false);
    await held.unlock();
  });
  check('addLine', 1, 'loses none of ten lines that are added at once', async ({ addLine }, { address, etcd }) => {
    const name = newName();
    const lines = Array.from({ length: 10 }, (_, index) => `line ${index}`);
    await Promise.all(lines.map((line) => addLine(address, name, `${name}-lines`, line)));
    const written = (await etcd.get(`${name}-lines`))?.text().trimEnd().split('\n');
    assert.deepEqual(written?.toSorted(), lines);
  });
  check(
    'lockWithin',
    2,
    'resolves with undefined if the lock is held, and leaves nothing in the queue',
    async ({ lockWithin }, { address, etcd }) => {
      const name = newName();
      const held = await lockWithin(address, name, 5_000);
      assert.ok(held !== undefined);
      assert.equal((await lockWithin(address, name, 300))?.token, undefined, 'lockWithin resolved with a token');
      await assertNoWaiters(etcd, name);
      await held.unlock();
      await assertNoHolder(etcd, name);
    },
  );
  check('lockWithin', 2, 'leaves no connection open if the lock is held', async ({ lockWithin }, { address, etcd }) => {
    const name = newName();
    await using session = await Session.open(etcd);
    await using _held = await new Mutex(session, name).lock();
    await using proxy = await observedProxy(address);
    assert.equal((await lockWithin(proxy.address, name, 300))?.token, undefined, 'lockWithin resolved with a token');
    const open = await proxy.openInTheEnd();
    assert.equal(open, 0, `${open} connection(s) still open after lockWithin has resolved with undefined`);
  });
  check(
    'runUntilDone',
    3,
    'runs the action again if the lock was lost, and passes other errors on',
    async ({ runUntilDone }, { address, etcd }) => {
      const name = newName();
      const tokens: (bigint | undefined)[] = [];
      const runs = await runUntilDone(address, name, async (signal) => {
        const { holder } = await inspectLock(etcd, name);
        tokens.push(holder?.token);
        if (tokens.length > 1) return;
        await etcd.lease.revoke(holder?.leaseId ?? 0n);
        if (!signal.aborted) await once(signal, 'abort');
      });
      assert.equal(runs, 2);
      assert.ok((tokens[1] ?? 0n) > (tokens[0] ?? 0n), 'the second run did not have a greater token');
      const failing = runUntilDone(address, name, async () => {
        throw new Error('failed');
      });
      await assert.rejects(failing, /failed/);
    },
  );
  check(
    'runUntilDone',
    3,
    'passes an EtcdError of the action on, but not an error after the loss of the lock',
    async ({ runUntilDone }, { address, etcd }) => {
      const name = newName();
      let runs = 0;
      const failing = runUntilDone(address, name, async () => {
        runs += 1;
        if (runs === 1) await etcd.lease.revoke(12_345n);
      });
      const error = await failing.catch((thrown) => thrown);
      assert.ok(error instanceof EtcdError, `the action threw an EtcdError, but runUntilDone resolved with ${error}`);
      assert.equal(runs, 1, 'runs of an action that threw an EtcdError while it had the lock');
      const stopped = await runUntilDone(address, name, async (signal) => {
        if (runs++ > 1) return;
        await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
        if (!signal.aborted) await once(signal, 'abort');
        throw new Error('stopped');
      }).catch((thrown) =>
        assert.fail(`runUntilDone threw ${thrown}, which the action threw after the loss of the lock`),
      );
      assert.equal(stopped, 2, 'runs of an action that threw an error after it had lost the lock');
    },
  );
});
