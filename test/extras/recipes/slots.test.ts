import { expect, test } from 'vitest';
import { prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { type Slot, Slots } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

test('each of 20 callers of `Slots.take` in several sessions gets a different number from 0 to 19', async () => {
  const [etcd, name] = [openClient(), unique('slots')];
  const sessions = await Promise.all(Array.from({ length: 4 }, () => Session.open(etcd)));
  const taken = await Promise.all(
    Array.from({ length: 20 }, (_, index) => new Slots(sessions[index % 4] as Session, name, 20).take()),
  );
  const numbers = taken.map(({ number }) => number).toSorted((a, b) => a - b);
  expect(numbers).toEqual(Array.from({ length: 20 }, (_, index) => index));
  expect(taken.every(({ held }) => held.valid())).toBe(true);
});

test('`Slots.take` returns the smallest free number, and waits while no number is free', async () => {
  const [etcd, name] = [openClient(), unique('slots')];
  const slots = new Slots(await Session.open(etcd), name, 3);
  const taken = [await slots.take(), await slots.take(), await slots.take()] as [Slot, Slot, Slot];
  expect(taken.map(({ number }) => number)).toEqual([0, 1, 2]);
  expect(await slots.tryTake()).toBeUndefined();
  expect(await errorOf(slots.take({ maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken', outcome: 'rejected' });
  const other = new Slots(await Session.open(openClient()), name, 3).take();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/gate/`))).count).toBe(1);
  await taken[1].release();
  expect((await other).number).toBe(1);
  await taken[2].release();
  await taken[0].release();
  expect((await slots.tryTake())?.number).toBe(0);
});

test('a number of `Slots` is free again when the lease of its holder ends, and the holder then knows that it has lost the number', async () => {
  const [etcd, name] = [openClient(), unique('slots')];
  const session = await Session.open(etcd);
  const lost = await new Slots(session, name, 1).take();
  const next = new Slots(await Session.open(openClient()), name, 1).take();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/gate/`))).count).toBe(1);
  await etcd.lease.revoke(session.leaseId);
  expect((await next).number).toBe(0);
  await expect.poll(() => lost.held.signal.aborted).toBe(true);
});
