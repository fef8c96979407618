import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { checks, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/09-queue.js') & typeof import('../../../course/answers/09-queue.js');

export const QUEUE = checks<Chapter>((check) => {
  check('enter', PROGRAM, 'puts the key once, also if it is called again', async ({ enter }, { connect, etcd }) => {
    const { id } = await etcd.lease.grant({ ttl: 100 });
    const key = `${newName()}/${id.toString(16)}`;
    const revision = await enter(connect(), key, id);
    assert.equal(await enter(connect(), key, id), revision);
    assert.deepEqual([(await etcd.get(key))?.createRevision, (await etcd.get(key))?.version], [revision, 1n]);
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
      for (const key of ['a', 'b', 'c']) revisions.push(await enter(connection, `${name}/${key}`, id));
      let hasTurn = false;
      const waiting = waitForTurn(address, connection, name, revisions[2] ?? 0n).then(() => {
        hasTurn = true;
      });
      await pause(200);
      await etcd.delete(`${name}/b`);
      await pause(300);
      assert.equal(hasTurn, false, 'waitForTurn resolved while an older key existed');
      await etcd.delete(`${name}/a`);
      await waiting;
    },
  );
  check('create', 1, 'puts a key only once', async ({ create }, { connect, etcd }) => {
    const key = newName();
    const connection = connect();
    const [a, b] = await Promise.all([create(connection, key, 'a'), create(connection, key, 'b')]);
    assert.notEqual(a, b);
    assert.equal((await etcd.get(key))?.text(), a ? 'a' : 'b');
  });
  check('increment', 2, 'loses none of 20 concurrent increments', async ({ increment }, { connect, etcd }) => {
    const key = newName();
    const connection = connect();
    await Promise.all(Array.from({ length: 20 }, () => increment(connection, key)));
    assert.equal((await etcd.get(key))?.text(), '20');
  });
  check('queueOf', 3, 'lists the queue in the order of creation', async ({ queueOf }, { connect, etcd }) => {
    const name = newName();
    for (const key of ['c', 'a', 'b']) await etcd.put(`${name}/${key}`, '');
    assert.deepEqual(
      await queueOf(connect(), name),
      ['c', 'a', 'b'].map((key) => `${name}/${key}`),
    );
  });
});
