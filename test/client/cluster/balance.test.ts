import { expect, test } from 'vitest';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

test('30 clients with `balance: round-robin` send a third of their calls to each of three members', async () => {
  const { endpoints } = await ownEtcd({ members: 3 });
  const calls = new Map<bigint, number>();
  const clients = Array.from({ length: 30 }, () => openClient({ endpoints, balance: 'round-robin' }));
  await Promise.all(
    clients.map(async (etcd) => {
      for (let call = 0; call < 30; call += 1) {
        const { header } = call % 2 === 0 ? await etcd.range('k') : await etcd.put('k', 'x');
        calls.set(header.memberId, (calls.get(header.memberId) ?? 0) + 1);
      }
    }),
  );
  expect([...calls.values()]).toEqual([300, 300, 300]);
});

test('ordered reads with `balance: round-robin` never return an older state than the calls before them', async () => {
  const { endpoints } = await ownEtcd({ members: 3 });
  const etcd = openClient({ endpoints, balance: 'round-robin', orderedReads: true });
  for (let written = 0; written < 100; written += 1) {
    await etcd.put('k', `${written}`);
    expect((await etcd.get('k', { serializable: true }))?.text()).toBe(`${written}`);
  }
});

test('a client with `balance: round-robin` writes on while a member is down', async (context) => {
  const { endpoints, members } = await ownEtcd({ members: 3 });
  const etcd = openClient({ endpoints, balance: 'round-robin', timeoutMs: 30_000 });
  const leaders = await Promise.all(
    members.map(async ({ endpoint }) => {
      const { leader, header } = await etcd.maintenance.status(endpoint);
      return leader === header.memberId;
    }),
  );
  const follower = members[leaders.indexOf(false)];
  if (follower === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
  await etcd.put('k', '0');
  await follower.kill();
  // If the client has not noticed yet that the follower has ended, one of these reads goes to the follower. The client
  // repeats a read, but would not repeat a put that is in flight when a member ends.
  for (let member = 0; member < 3; member += 1) await etcd.get('k');
  for (let written = 1; written <= 20; written += 1) await etcd.put('k', `${written}`);
  expect((await etcd.get('k'))?.text()).toBe('20');
});

test('the option `balance` refuses an unknown value', async () => {
  const error = await errorOf(() => openClient({ balance: 'random' as never }));
  expect(error).toMatchObject({ reason: 'InvalidInput' });
  expect(error.message).toContain('allowed: sticky, round-robin, in-order');
});
