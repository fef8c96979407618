import { expect, test } from 'vitest';
import { type Held, inspectLock, withLock, withLocks } from '../../src/locks.js';
import { randomNumbers } from '../load/rounds.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

test('`withLocks` passes the locks in the order of the names, and releases all of them', async () => {
  const etcd = openClient();
  const [a, b] = [unique('a'), unique('b')];
  const result = await withLocks(etcd, [b, a, b], async (held) => {
    expect(held.map(({ name }) => name)).toEqual([b, a, b]);
    expect(held[0]).toBe(held[2]);
    for (const name of [a, b]) expect((await inspectLock(etcd, name)).holder).toBeDefined();
    return 1;
  });
  expect(result).toBe(1);
  for (const name of [a, b]) expect((await inspectLock(etcd, name)).holder).toBeUndefined();
});

test('callers of `withLocks` that name the same locks in any order never deadlock, and exclude each other', async () => {
  const etcd = openClient();
  const names = Array.from({ length: 4 }, () => unique('lock'));
  const random = randomNumbers(1);
  const inside = new Set<string>();
  await Promise.all(
    Array.from({ length: 40 }, () => {
      const chosen = names.filter(() => random() < 0.6).sort(() => random() - 0.5);
      return withLocks(etcd, chosen.length === 0 ? names : chosen, async (held) => {
        for (const { name } of held) expect(inside.has(name)).toBe(false);
        for (const { name } of held) inside.add(name);
        await etcd.get('k');
        for (const { name } of held) inside.delete(name);
      });
    }),
  );
});

test('`withLocks` does not run the action if one of the locks is lost while the call waits for another lock', async () => {
  const etcd = openClient();
  const [a, b] = [unique('a'), unique('b')];
  let ran = false;
  await withLock(openClient(), b, async () => {
    const losing = errorOf(
      withLocks(etcd, [a, b], () => {
        ran = true;
      }),
    );
    await expect.poll(async () => (await inspectLock(etcd, b)).waiters.length).toBe(1);
    const { holder } = await inspectLock(etcd, a);
    await etcd.delete(holder?.kv.key ?? '');
    // Another caller still holds the lock b, so the wait for b ends because the lock a is lost.
    expect(await losing).toMatchObject({ reason: 'LockLost' });
  });
  expect(ran).toBe(false);
});

test('`withLocks` releases the locks that it already holds when the wait for another lock times out', async () => {
  const etcd = openClient();
  const [a, b] = [unique('a'), unique('b')];
  await withLock(openClient(), b, async () => {
    const error = await errorOf(withLocks(etcd, [a, b], { maxWaitMs: 1_000 }, () => 1));
    expect(error).toMatchObject({ reason: 'LockTaken' });
    expect(error.message).toContain('withLocks');
    await expect.poll(async () => (await inspectLock(etcd, a)).holder).toBeUndefined();
  });
});

test('`withLocks` rejects when one of the locks is lost while the action runs', async () => {
  const etcd = openClient();
  const [a, b] = [unique('a'), unique('b')];
  const losing = withLocks(etcd, [a, b], async ([, second]) => {
    const held = second as Held;
    await etcd.delete(held.key);
    await new Promise<void>((resolve) => {
      if (held.signal.aborted) resolve();
      else held.signal.addEventListener('abort', () => resolve());
    });
  });
  expect(await errorOf(losing)).toMatchObject({ reason: 'LockLost' });
});

test('`withLocks` refuses a list without names, and sends nothing', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  for (const names of [[], [''], 'lock', undefined] as never[])
    expect(await errorOf(withLocks(etcd, names, () => 1))).toMatchObject({ reason: 'InvalidInput' });
});

test('`withLock` refuses an empty name and an invalid value although no server answers', async () => {
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
  for (const call of [withLock(etcd, '', () => 1), withLock(etcd, 'a', { value: 1 as never }, () => 1)])
    expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
});

test('`withLock` gives its queue key the value in its options', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  await withLock(
    etcd,
    name,
    {
      value: 'host-1',
    },
    async () => expect((await inspectLock(etcd, name)).holder?.kv.text()).toBe('host-1'),
  );
});
