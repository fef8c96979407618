import { expect, test } from 'vitest';
import { prefix } from '../../src/index.js';
import { type Held, Semaphore, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied } from '../support/locks.js';
import { answerLost, puts, transactions } from '../support/transactions.js';

test('a Semaphore grants at most the configured number of permits at a time, in the order of the permit tokens', async () => {
  const [etcd, name] = [openClient(), unique('semaphore')];
  const tokens: bigint[] = [];
  let [inside, most] = [0, 0];
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const permit = await new Semaphore(await Session.open(etcd), name, 3).acquire();
      inside += 1;
      most = Math.max(most, inside);
      tokens.push(permit.token);
      await expect.poll(() => most).toBe(3);
      await etcd.get(name);
      inside -= 1;
      await permit.release();
    }),
  );
  expect(most).toBe(3);
  expect(tokens).toEqual([...tokens].sort((a, b) => Number(a - b)));
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(0);
});

test('a session may hold several permits of a Semaphore, and the next waiter gets a permit when any permit is released', async () => {
  const [etcd, name] = [openClient(), unique('semaphore')];
  const semaphore = new Semaphore(await Session.open(etcd), name, 3);
  const permits = [await semaphore.acquire(), await semaphore.acquire(), await semaphore.acquire()];
  expect(await semaphore.tryAcquire()).toBeUndefined();
  expect(await errorOf(semaphore.acquire({ maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
  const next = semaphore.acquire();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(4);
  await (permits[1] as Held).release();
  expect((await next).valid()).toBe(true);
  expect(await semaphore.tryAcquire()).toBeUndefined();
  await (permits[0] as Held).release();
  await expect.poll(async () => (await semaphore.tryAcquire()) !== undefined).toBe(true);
});

test('`tryAcquire` returns a free permit immediately after another contender has acquired a permit', async () => {
  const [etcd, name] = [openClient(), unique('semaphore')];
  const [a, b] = [await Session.open(etcd), await Session.open(openClient())];
  for (let count = 0; count < 10; count += 1) {
    expect(await new Semaphore(count % 2 === 0 ? a : b, name, 10).tryAcquire()).toBeDefined();
  }
  expect(await new Semaphore(a, name, 10).tryAcquire()).toBeUndefined();
});

test('a Semaphore grants permits in the order of the `acquire` calls, both across sessions and within one session', async () => {
  const [etcd, name] = [openClient(), unique('semaphore')];
  const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
  const first = await new Semaphore(a, name, 1).acquire();
  const keys = async (): Promise<number> => (await etcd.range(prefix(`${name}/`))).count;
  // The semaphore releases its gate in the background. Without the key of the gate, each call below adds one key.
  await expect.poll(keys).toBe(1);
  const served: string[] = [];
  const asked = [];
  for (const [who, session] of [
    ['1', a],
    ['2', a],
    ['3', b],
    ['4', a],
  ] as const) {
    const asking = new Semaphore(session, name, 1).acquire().then(async (permit) => {
      served.push(who);
      await permit.release();
    });
    asked.push(asking);
    await expect.poll(keys).toBe(asked.length + 1);
  }
  await first.release();
  await Promise.all(asked);
  expect(served).toEqual(['1', '2', '3', '4']);
});

test('a Semaphore grants the permit of a closed session to the next waiter', async () => {
  const [etcd, name] = [openClient(), unique('semaphore')];
  const lost = await Session.open(etcd);
  await new Semaphore(lost, name, 1).acquire();
  const next = new Semaphore(await Session.open(etcd), name, 1).acquire();
  await lost.close();
  expect((await next).valid()).toBe(true);
});

test('a Semaphore deletes the key of a permit when the answer to the put of the key is lost and the caller cancels the `acquire` call (S24)', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('semaphore');
  const stop = new AbortController();
  const session = await Session.open(etcd);
  const permit = `${name}/permits/${session.leaseId.toString(16)}`;
  void proxy.loseNextAnswer(containing(permit)).then(() => stop.abort());
  const semaphore = new Semaphore(session, name, 1);
  expect(await errorOf(semaphore.acquire({ signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
  await expect.poll(async () => (await direct.range(prefix(`${name}/`))).count).toBe(0);
});

test('an `acquire` call takes only one permit when the answer to the put of the permit is lost (S24)', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = unique('semaphore');
  const session = await Session.open(etcd);
  const semaphore = new Semaphore(session, name, 2);
  const lost = proxy.loseNextAnswer(containing(`${name}/permits/${session.leaseId.toString(16)}`));
  const permit = await semaphore.acquire();
  await lost;
  const { kvs } = await direct.range(prefix(`${name}/permits/`));
  expect(kvs).toMatchObject([{ createRevision: permit.token }]);
  await permit.release();
  await expect.poll(async () => (await direct.range(prefix(`${name}/`))).count).toBe(0);
});

test('a Semaphore refuses an invalid number of permits', async () => {
  const session = await Session.open(openClient());
  for (const permits of [0, -1, 1.5, Number.NaN]) {
    expect(await errorOf(() => new Semaphore(session, 'x', permits))).toMatchObject({ reason: 'InvalidInput' });
  }
});

test('an `acquire` call leaves no permit behind when the answer to its put is lost, and another client has deleted the guard', async () => {
  const [other, name] = [openClient(), unique('semaphore')];
  let isLost = true;
  const losing = transactions(async (ops, send) => {
    const answer = await send();
    if (isLost || !puts(ops, `${name}/permits/`)) return answer;
    isLost = true;
    await other.delete(prefix(`etcdwire/guards/${session.leaseId.toString(16)}-`));
    throw answerLost();
  });
  const session = await Session.open(openClient({ interceptors: [losing] }));
  const semaphore = new Semaphore(session, name, 1);
  // The next write uses the guard of this one.
  await (await semaphore.acquire()).release();
  isLost = false;
  expect(await errorOf(semaphore.acquire())).toMatchObject({ reason: 'LockLost' });
  expect(isLost).toBe(true);
  expect(await new Semaphore(await Session.open(other), name, 1).tryAcquire()).toBeDefined();
});
