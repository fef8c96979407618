import { once } from 'node:events';
import { EtcdError } from '../../../../../src/index.js';
import { inspectLock, Mutex, Session } from '../../../../../src/locks.js';
import { lock as lockOfChapter10 } from '../../../course/10-lock.js';
import { callsIn } from '../../../course/12-break-it.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { startFaultProxy } from '../../../course/fault-proxy.js';
import {
  assertNoHolder,
  assertNoWaiters,
  assertRejects,
  assertResult,
  assertThat,
  checks,
  newName,
  observedProxy,
  PROGRAM,
  resultOf,
  untilWaiting,
} from '../check.js';

type Chapter = typeof import('../../../course/11-etcdwire.js') &
  typeof import('../../../course/answers/11-etcdwire.js');

export const LIBRARY = checks<Chapter>((check) => {
  check('lock', PROGRAM, 'waits in one queue with the lock of chapter 10', async ({ lock }, { address, etcd }) => {
    const name = newName();
    const first = await lockOfChapter10(address, name);
    const waiting = lock(address, name);
    await untilWaiting(etcd, name);
    await first.unlock();
    const second = await resultOf('lock, after the release of the lock of chapter 10', () => waiting, 'the lock');
    assertThat(second.token > first.token, `lock: got the token ${second.token} after ${first.token}, expected more`);
    await resultOf('unlock()', () => second.unlock());
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
      const held = await resultOf('lock, which loses the first response', () => lock(proxy.address, name), 'the lock');
      const token = async () => (await inspectLock(etcd, name)).holder?.token;
      await assertResult('the token of the holder, as a client sees it that reads the queue', token, held.token);
      await assertNoWaiters(etcd, name);
      await resultOf('unlock()', () => held.unlock());
      proxy.close();
    },
  );
  check('lock', PROGRAM, 'aborts its signal when the lease is revoked', async ({ lock }, { address, etcd }) => {
    const name = newName();
    const held = await resultOf('lock', () => lock(address, name), 'the lock');
    await assertResult('put of the holder', () => held.put(`${name}-value`, 'first'), true);
    const isSignal = () => held.signal instanceof AbortSignal;
    await assertResult('whether the property signal of the lock is an AbortSignal', isSignal, true);
    const aborted = once(held.signal, 'abort');
    await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
    await assertResult('put after the end of the lease', () => held.put(`${name}-value`, 'stale'), false);
    await resultOf('the signal, after the end of the lease', () => aborted, 'that it aborts');
    await assertResult('isHeld() after the end of the lease', () => held.isHeld(), false);
    await resultOf('unlock()', () => held.unlock());
  });
  check('lock', PROGRAM, 'throws if the response to a write is lost', async ({ lock }, { address }) => {
    const name = newName();
    const proxy = await startProxy(address);
    const held = await resultOf('lock', () => lock(proxy.address, name), 'the lock');
    proxy.loseResponse();
    const put = () => held.put(`${name}-value`, 'new');
    await assertRejects('put, whose response is lost', put, { outcome: 'unknown' });
    await resultOf('unlock()', () => held.unlock());
    proxy.close();
  });
  check('addLine', 1, 'loses none of ten lines that are added at once', async ({ addLine }, { address, etcd }) => {
    const name = newName();
    const lines = Array.from({ length: 10 }, (_, index) => `line ${index}`);
    const added = async () => {
      await Promise.all(lines.map((line) => addLine(address, name, `${name}-lines`, line)));
      return (await etcd.get(`${name}-lines`))?.text().trimEnd().split('\n').toSorted();
    };
    await assertResult('the sorted lines after ten concurrent calls of addLine', added, lines);
  });
  check('addLine', 1, 'lets etcd refuse the write if the lock was lost', async ({ addLine }, { address }) => {
    const name = newName();
    const proxies = await startFaultProxy(address);
    await resultOf('addLine', () => addLine(proxies.address, name, `${name}-lines`, 'a line'));
    const { atEtcd } = await proxies.stop();
    const writes = callsIn(atEtcd).filter(({ requests: [request] }) =>
      JSON.stringify(request?.message).includes('a line'),
    );
    const [write] = writes;
    const compare = write?.requests[0]?.message.compare;
    const message = `addLine wrote with a ${write?.method} that has no condition, expected held.txn`;
    assertThat(write?.method === 'Txn' && Array.isArray(compare) && compare.length > 0, message);
  });
  check(
    'lockWithin',
    2,
    'resolves with undefined if the lock is held, and leaves nothing in the queue',
    async ({ lockWithin }, { address, etcd }) => {
      const name = newName();
      const free = 'lockWithin of a lock that is free';
      const held = await resultOf(free, () => lockWithin(address, name, 5_000), 'the lock');
      assertThat(held !== undefined, `${free}: resolved with undefined, expected the lock`);
      const second = async () => (await lockWithin(address, name, 300))?.token;
      await assertResult('the token that lockWithin returns for a lock that is held', second, undefined);
      await assertNoWaiters(etcd, name);
      await resultOf('unlock()', () => held.unlock());
      await assertNoHolder(etcd, name);
    },
  );
  check('lockWithin', 2, 'leaves no connection open if the lock is held', async ({ lockWithin }, { address, etcd }) => {
    const name = newName();
    await using session = await Session.open(etcd);
    await using _held = await new Mutex(session, name).lock();
    await using proxy = await observedProxy(address);
    const token = async () => (await lockWithin(proxy.address, name, 300))?.token;
    await assertResult('the token that lockWithin returns for a lock that is held', token, undefined);
    const open = () => proxy.openInTheEnd();
    await assertResult('the connections that are open after lockWithin has resolved with undefined', open, 0);
  });
  check(
    'runUntilDone',
    3,
    'runs the action again if the lock was lost, and passes other errors on',
    async ({ runUntilDone }, { address, etcd }) => {
      const name = newName();
      const tokens: (bigint | undefined)[] = [];
      const losesLock = async (signal: AbortSignal) => {
        const { holder } = await inspectLock(etcd, name);
        tokens.push(holder?.token);
        if (tokens.length > 1) return;
        await etcd.lease.revoke(holder?.leaseId ?? 0n);
        if (!signal.aborted) await once(signal, 'abort');
      };
      const what = 'runUntilDone of an action that loses its lock in the first run';
      await assertResult(what, () => runUntilDone(address, name, losesLock), 2);
      const [first, second] = tokens;
      const message = `${what}: the tokens of the runs are ${first} and ${second}, expected a greater one in the second`;
      assertThat(first !== undefined && second !== undefined && second > first, message);
      const failing = () =>
        runUntilDone(address, name, async () => {
          throw new Error('failed');
        });
      await assertRejects('runUntilDone of an action that throws "failed"', failing, { message: 'failed' });
    },
  );
  check(
    'runUntilDone',
    3,
    'passes an EtcdError of the action on, but not an error after the loss of the lock',
    async ({ runUntilDone }, { address, etcd }) => {
      const name = newName();
      let runs = 0;
      let thrown: unknown;
      const failing = () =>
        runUntilDone(address, name, async () => {
          runs += 1;
          if (runs === 1) await etcd.lease.revoke(12_345n);
        }).catch((error) => {
          thrown = error;
          throw error;
        });
      const what = 'runUntilDone of an action that throws an EtcdError while it has the lock';
      await assertRejects(what, failing);
      assertThat(thrown instanceof EtcdError, `${what}: threw "${thrown}", expected the error of the action`);
      await assertResult(`the runs of ${what.replace('runUntilDone of ', '')}`, () => runs, 1);
      const stopping = () =>
        runUntilDone(address, name, async (signal) => {
          if (runs++ > 1) return;
          await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
          if (!signal.aborted) await once(signal, 'abort');
          throw new Error('stopped');
        });
      await assertResult('runUntilDone of an action that throws an error after it has lost the lock', stopping, 2);
    },
  );
});
