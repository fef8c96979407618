import { setTimeout as pause } from 'node:timers/promises';
import { inspectLock, Mutex, Session } from '../../../../../src/locks.js';
import {
  assertNoHolder,
  assertNoWaiters,
  assertRejects,
  assertResult,
  assertThat,
  checks,
  newName,
  PROGRAM,
  resultOf,
  untilWaiting,
} from '../check.js';
import { mistakeIn } from '../orders.js';

type Chapter = typeof import('../../../course/10-lock.js') & typeof import('../../../course/answers/10-lock.js');

/** How many random orders of requests, releases and lost leases the check plays. */
const ORDERS = 20;

export const LOCK = checks<Chapter>((check) => {
  check(
    'lock',
    PROGRAM,
    'lets five clients in one at a time, in the order of their tokens',
    async ({ lock }, { address }) => {
      const name = newName();
      let holders = 0;
      const tokens: bigint[] = [];
      const takeTurn = async () => {
        const held = await lock(address, name);
        holders += 1;
        assertThat(holders === 1, `lock: ${holders} clients have the lock at once`);
        tokens.push(held.token);
        await pause(20);
        holders -= 1;
        await held.unlock();
      };
      await resultOf('five clients, each of which takes the lock and releases it', () =>
        Promise.all([1, 2, 3, 4, 5].map(takeTurn)),
      );
      const sorted = tokens.toSorted((a, b) => Number(a - b));
      await assertResult('the tokens in the order of the holders', () => tokens, sorted);
    },
  );
  check(
    'lock',
    PROGRAM,
    "makes a Mutex of etcdwire wait, which uses the same keys as Go's client and etcdctl",
    async ({ lock }, { address, etcd }) => {
      const name = newName();
      const held = await resultOf('lock', () => lock(address, name), 'the lock');
      const { holder } = await inspectLock(etcd, name);
      const key = `${name}/${holder?.leaseId.toString(16)}`;
      await assertResult('the key of the holder', () => String(holder?.kv.key), key);
      await using session = await Session.open(etcd);
      const waiting = new Mutex(session, name).lock();
      waiting.catch(() => {}); // A step that fails ends the session.
      await untilWaiting(etcd, name);
      const token = async () => (await inspectLock(etcd, name)).holder?.token;
      await assertResult('the token of the holder, as a client sees it that reads the queue', token, held.token);
      await resultOf('unlock()', () => held.unlock());
      await (await resultOf('the Mutex, after unlock()', () => waiting, 'the lock')).release();
    },
  );
  check(
    'lock',
    PROGRAM,
    'refuses the write of a holder that has lost the lock',
    async ({ lock }, { address, etcd }) => {
      const name = newName();
      const held = await resultOf('lock', () => lock(address, name), 'the lock');
      await assertResult('put of the holder', () => held.put(`${name}-value`, 'first'), true);
      await etcd.lease.revoke((await inspectLock(etcd, name)).holder?.leaseId ?? 0n);
      await assertResult('put after the end of the lease', () => held.put(`${name}-value`, 'stale'), false);
      const value = async () => (await etcd.get(`${name}-value`))?.text();
      await assertResult('the value of the key after both', value, 'first');
    },
  );
  check('lock', PROGRAM, `has one holder at a time in ${ORDERS} random orders`, async ({ lock }) => {
    for (let number = 1; number <= ORDERS; number += 1) {
      const what = `lock in the random order ${number}`;
      const mistake = await resultOf(what, () => mistakeIn(lock, number), 'one holder at a time');
      assertThat(mistake === undefined, `${what}:\n${mistake}`);
    }
  });
  check('withLock', 1, 'releases the lock also if the action throws', async ({ withLock }, { address, etcd }) => {
    const name = newName();
    let [passed, token]: (bigint | undefined)[] = [];
    const action = async (given: bigint) => {
      [passed, token] = [given, (await inspectLock(etcd, name)).holder?.token];
      return 'result';
    };
    await assertResult(
      "withLock of an action that resolves with 'result'",
      () => withLock(address, name, action),
      'result',
    );
    assertThat(token !== undefined, 'withLock ran the action without the lock: no client held it');
    await assertResult('the token that withLock has passed to the action', () => passed, token);
    await assertNoHolder(etcd, name);
    const failing = () =>
      withLock(address, name, async () => {
        throw new Error('failed');
      });
    await assertRejects('withLock of an action that throws "failed"', failing, { message: 'failed' });
    await assertNoHolder(etcd, name);
  });
  check(
    'tryLock',
    2,
    'resolves with undefined if the lock is held, and leaves nothing in the queue',
    async ({ tryLock }, { address, etcd }) => {
      const name = newName();
      const held = await resultOf('tryLock of a lock that is free', () => tryLock(address, name), 'the lock');
      assertThat(held !== undefined, 'tryLock of a lock that is free: resolved with undefined, expected the lock');
      const second = async () => (await tryLock(address, name))?.token;
      await assertResult('the token that tryLock returns for a lock that is held', second, undefined);
      await assertNoWaiters(etcd, name);
      await resultOf('unlock()', () => held.unlock());
      await assertNoHolder(etcd, name);
    },
  );
  check('lockUntil', 3, 'leaves the queue when the signal aborts', async ({ lockUntil }, { address, etcd }) => {
    const name = newName();
    const { signal } = new AbortController();
    const held = await resultOf('lockUntil of a lock that is free', () => lockUntil(address, name, signal), 'the lock');
    const stop = new AbortController();
    const waiting = lockUntil(address, name, stop.signal);
    waiting.catch(() => {});
    await untilWaiting(etcd, name);
    stop.abort(new Error('stopped'));
    const what = 'lockUntil, whose signal aborts with the reason "stopped" while it waits';
    await assertRejects(what, () => waiting, { message: 'stopped' });
    await assertNoWaiters(etcd, name);
    const aborted = AbortSignal.abort(new Error('stopped'));
    const late = () => lockUntil(address, name, aborted);
    await assertRejects('lockUntil with a signal that has aborted before', late, { message: 'stopped' });
    await resultOf('unlock()', () => held.unlock());
    await assertNoHolder(etcd, name);
  });
  check(
    'lockUntil',
    3,
    'does not resolve without the lock if the lease of a waiter ends',
    async ({ lockUntil }, { address, etcd }) => {
      const name = newName();
      const { signal } = new AbortController();
      const held = await resultOf(
        'lockUntil of a lock that is free',
        () => lockUntil(address, name, signal),
        'the lock',
      );
      const waiting = lockUntil(address, name, signal).catch(() => undefined);
      await untilWaiting(etcd, name);
      await etcd.lease.revoke((await inspectLock(etcd, name)).waiters[0]?.leaseId ?? 0n);
      await held.unlock();
      const result = await resultOf('lockUntil, after the end of its lease and the release of the lock', () => waiting);
      if (result === undefined) return; // The function has thrown an error.
      const { holder } = await inspectLock(etcd, name);
      const message = 'lockUntil resolved although its lease had ended, and its key was no longer in the queue';
      assertThat(holder?.token === result.token, message);
    },
  );
});
