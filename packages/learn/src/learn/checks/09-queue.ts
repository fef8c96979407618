import { setTimeout as pause } from 'node:timers/promises';
import { callsIn } from '../../../course/12-break-it.js';
import { startFaultProxy } from '../../../course/fault-proxy.js';
import { assertResult, assertThat, checks, newName, PROGRAM, resultOf } from '../check.js';

type Chapter = typeof import('../../../course/09-queue.js') & typeof import('../../../course/answers/09-queue.js');

export const QUEUE = checks<Chapter>((check) => {
  check('enter', PROGRAM, 'puts the key once, also if it is called again', async ({ enter }, { connect, etcd }) => {
    const { id } = await etcd.lease.grant({ ttl: 100 });
    const key = `${newName()}/${id.toString(16)}`;
    const revision = await resultOf('enter', () => enter(connect(), key, id), 'a revision');
    await etcd.put(newName(), '');
    await assertResult('enter, called again after another change', () => enter(connect(), key, id), revision);
    const numbers = async () => {
      const kv = await etcd.get(key);
      return { createRevision: kv?.createRevision, version: kv?.version, lease: kv?.lease };
    };
    await assertResult('the key in etcd', numbers, { createRevision: revision, version: 1n, lease: id });
  });
  check(
    'waitForTurn',
    PROGRAM,
    'waits for all older keys, also if the key directly ahead is deleted first',
    async ({ enter, waitForTurn }, { address, connect, etcd }) => {
      const name = newName();
      const { id } = await etcd.lease.grant({ ttl: 100 });
      const connection = connect();
      const revisions: bigint[] = [];
      await enter(connection, `${name}x/other`, id);
      for (const key of ['a', 'b', 'c']) revisions.push(await enter(connection, `${name}/${key}`, id));
      let hasTurn = false;
      const waiting = waitForTurn(address, connection, name, revisions[2] ?? 0n).then(() => {
        hasTurn = true;
      });
      await pause(200);
      const early = `waitForTurn with the name '${name}' resolved at once, although '${name}/a' and '${name}/b' are older`;
      assertThat(!hasTurn, early);
      await etcd.delete(`${name}/b`);
      await pause(300);
      assertThat(
        !hasTurn,
        'waitForTurn resolved after the key directly ahead was deleted, although the first key exists',
      );
      await etcd.delete(`${name}/a`);
      await resultOf('waitForTurn, after all older keys were deleted', () => waiting);
    },
  );
  check(
    'waitForTurn',
    PROGRAM,
    'watches the key directly ahead, and misses no change between the read and the watch',
    async ({ enter, waitForTurn }, { address, connect, etcd }) => {
      const name = newName();
      const { id } = await etcd.lease.grant({ ttl: 100 });
      const connection = connect();
      const revisions: bigint[] = [];
      for (const key of ['a', 'b', 'c']) revisions.push(await enter(connection, `${name}/${key}`, id));
      const proxies = await startFaultProxy(address, 'delay=500ms rpc=Watch'); // The changes overtake the watches.
      const waiting = waitForTurn(proxies.address, connection, name, revisions[2] ?? 0n);
      await pause(200);
      await etcd.delete(`${name}/b`);
      await pause(800);
      await etcd.delete(`${name}/a`);
      await resultOf('waitForTurn, whose watches reach etcd after the changes', () => waiting);
      const watches = callsIn((await proxies.stop()).atClient).filter(({ method }) => method === 'Watch');
      const keys = watches.map(({ requests: [first] }) => (first?.message.create_request as { key?: string })?.key);
      await assertResult('the keys that waitForTurn has watched', () => keys, [`${name}/b`, `${name}/a`]);
    },
  );
  check('create', 1, 'puts a key only once', async ({ create }, { connect, etcd }) => {
    const key = newName();
    const value = async () => (await etcd.get(key))?.text();
    await assertResult('create of a key that does not exist', () => create(connect(), key, 'a'), true);
    await assertResult('the value of the key after create', value, 'a');
    await assertResult('create of a key that exists', () => create(connect(), key, 'b'), false);
    await assertResult('the value of the key after the second create', value, 'a');
  });
  check('increment', 2, 'loses none of 20 concurrent increments', async ({ increment }, { connect, etcd }) => {
    const key = newName();
    const connection = connect();
    const numbers = Array.from({ length: 20 }, (_, index) => index + 1);
    const all = async () => {
      const sums = await Promise.all(numbers.map(() => increment(connection, key)));
      return sums.toSorted((a, b) => a - b);
    };
    await assertResult('the sorted results of 20 concurrent calls of increment', all, numbers);
    await assertResult('the number in the key after them', async () => (await etcd.get(key))?.text(), '20');
  });
  check('increment', 2, 'counts a number that another client has put', async ({ increment }, { connect, etcd }) => {
    const key = newName();
    await etcd.put(key, '1');
    await etcd.put(key, '41');
    await assertResult('increment of 41', () => increment(connect(), key), 42);
  });
  check('queueOf', 3, 'lists the queue in the order of creation', async ({ queueOf }, { connect, etcd }) => {
    const name = newName();
    await etcd.put(`${name}x/other`, '');
    for (const key of ['c', 'a', 'b', 'c']) await etcd.put(`${name}/${key}`, '');
    const expected = ['c', 'a', 'b'].map((key) => `${name}/${key}`);
    await assertResult(
      'queueOf a queue of which the first key was put again',
      () => queueOf(connect(), name),
      expected,
    );
  });
});
