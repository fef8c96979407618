import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Client, prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { DoubleBarrier } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { answerLost, deletes, puts, stagedTransport } from '../../support/transactions.js';

// These tests delay one participant's transaction and let another event happen first. A round begins when the last
// participant puts the ready key (`NAME/ready`).

test('a DoubleBarrier starts no round when the key of the last participant is deleted just before that participant would start the round', async () => {
  const [direct, name] = [openClient(), unique('barrier')];
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (puts(ops, `${name}/ready`)) {
        const { kvs } = await direct.range(prefix(`${name}/waiters/`), {
          sort: { target: 'createRevision', order: 'desc' },
        });
        await direct.delete(kvs[0]?.key as string);
      }
      return send();
    },
  });
  const [a, b] = [await participant(direct, name), await participant(openClient({ transport }), name)];
  const waiting = errorOf(a.enter({ maxWaitMs: 1_500 }));
  await expect.poll(async () => (await direct.range(prefix(`${name}/waiters/`))).count).toBe(1);
  expect(await errorOf(b.enter())).toMatchObject({ reason: 'LockLost' });
  expect(await direct.get(`${name}/ready`)).toBeUndefined();
  expect(await waiting).toMatchObject({ reason: 'DeadlineExceeded' });
});

test('a participant whose `enter` call has failed does not remain in the round of a DoubleBarrier', async () => {
  const [direct, name] = [openClient(), unique('barrier')];
  let held = false;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (deletes(ops, `${name}/waiters/`) && !held) {
        held = true;
        await pause(1_500);
      }
      return send();
    },
  });
  const [a, b] = [await participant(openClient({ transport }), name), await participant(direct, name)];
  const entering = errorOf(a.enter({ maxWaitMs: 200 }));
  await expect.poll(() => held).toBe(true);
  await b.enter();
  expect(await entering).toMatchObject({ reason: 'DeadlineExceeded' });
  await b.leave({ maxWaitMs: 5_000 });
});

test("a delayed put of a participant's key has no effect after the participant has left the DoubleBarrier", async () => {
  const [direct, name] = [openClient(), unique('barrier')];
  let letGo: (() => Promise<unknown>) | undefined;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (letGo !== undefined || !puts(ops, `${name}/waiters/`)) return send();
      letGo = send;
      throw answerLost();
    },
  });
  const both = [await participant(openClient({ transport }), name), await participant(direct, name)];
  await Promise.all(both.map((barrier) => barrier.enter()));
  await Promise.all(both.map((barrier) => barrier.leave()));
  expect(await letGo?.()).toMatchObject({ succeeded: false });
  expect((await direct.range(prefix(`${name}/`))).kvs.map((kv) => kv.key)).toEqual([`${name}/epoch`]);
});

async function participant(etcd: Client, name: string): Promise<DoubleBarrier> {
  return new DoubleBarrier(await Session.open(etcd), name, 2);
}
