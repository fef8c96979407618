import { expect, test } from 'vitest';
import { inspectLock, Mutex, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';

test('`inspectLock` shows the holder and the waiters in order, with their values, tokens and leases', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const sessions = await Promise.all([10, 20, 30].map((ttl) => Session.open(etcd, { ttl })));
  const [first, second, third] = sessions as [Session, Session, Session];
  const held = await new Mutex(first, name, { value: 'host-1' }).lock();
  const waiting = [new Mutex(second, name, { value: 'host-2' }).lock()];
  await expect.poll(async () => (await inspectLock(etcd, name)).waiters.length).toBe(1);
  waiting.push(new Mutex(third, name).lock());
  await expect.poll(async () => (await inspectLock(etcd, name)).waiters.length).toBe(2);
  const { holder, waiters } = await inspectLock(etcd, name);
  expect(holder).toMatchObject({ token: held.token, leaseId: first.leaseId });
  expect(holder?.kv.text()).toBe('host-1');
  expect(waiters.map(({ kv }) => kv.text())).toEqual(['host-2', '']);
  expect(waiters.map(({ leaseId }) => leaseId)).toEqual([second.leaseId, third.leaseId]);
  expect(holder?.remaining).toBeLessThanOrEqual(10);
  expect(waiters[1]?.remaining).toBeGreaterThan(10);
  await held.release();
  for (const each of waiting) await (await each).release();
  expect(await inspectLock(etcd, name)).toMatchObject({ holder: undefined, waiters: [] });
});

test('`inspectLock` shows a queue key without a lease', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  await etcd.put(`${name}/foreign`, 'no lease');
  expect((await inspectLock(etcd, name)).holder).toMatchObject({ leaseId: 0n, remaining: undefined });
});

test('`inspectLock` shows a contender whose lease has a negative ID, which another program chose', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const id = -1n - BigInt.asUintN(62, crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n);
  await etcd.raw.lease.leaseGrant({ id, ttl: 60n });
  await etcd.put(`${name}/${id.toString(16)}`, '', { lease: id });
  const { holder } = await inspectLock(etcd, name);
  expect(holder?.leaseId).toBe(id);
  expect(holder?.remaining).toBeGreaterThan(0);
  expect((await etcd.lease.list()).ids).toContain(id);
  await etcd.lease.revoke(id);
  expect(await inspectLock(etcd, name)).toMatchObject({ holder: undefined });
});
