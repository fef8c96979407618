import { expect, test } from 'vitest';
import { prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { Queue } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { answerLost, deletes, stagedTransport } from '../../support/transactions.js';

test('`dequeue` does not return an item that another consumer takes first', async () => {
  const [direct, name] = [openClient(), unique('queue')];
  let taken = 0;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (deletes(ops, `${name}/`) && taken++ === 0)
        await direct.delete((await direct.range(prefix(`${name}/`))).kvs[0]?.key as string);
      return send();
    },
  });
  const etcd = openClient({ transport });
  const session = await Session.open(etcd);
  const queue = new Queue(etcd, name);
  await queue.enqueue('first');
  await queue.enqueue('second');
  expect((await queue.dequeue(session, { maxWaitMs: 5_000 })).text()).toBe('second');
});

test('`dequeue` rejects with outcome unknown when the session ends before the server answers the deletion of the item', async () => {
  const name = unique('queue');
  let session: Session | undefined;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (!deletes(ops, `${name}/`)) return send();
      void session?.close();
      throw answerLost();
    },
  });
  const etcd = openClient({ transport });
  session = await Session.open(etcd);
  const queue = new Queue(etcd, name);
  await queue.enqueue('x');
  expect(await errorOf(queue.dequeue(session))).toMatchObject({ outcome: 'unknown' });
});
