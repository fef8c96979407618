import { expect, test } from 'vitest';
import { prefix } from '../../src/index.js';
import { EtcdCluster } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

test('a member that is cut off from the others loses its leader, and has it again when healed', async (context) => {
  const cluster = await ownCluster(3);
  if (cluster === undefined) return context.skip('the servers are not ours');
  const leader = await cluster.leader();
  const [etcd, others] = [
    openClient({ endpoints: [leader.endpoint] }),
    openClient({ endpoints: cluster.endpoints.filter((endpoint) => endpoint !== leader.endpoint) }),
  ];
  await cluster.partition(leader);
  // A read may be repeated until there is a leader again, a write may not.
  await others.get('k', { timeoutMs: 20_000 });
  await others.put('k', 'x');
  expect(await errorOf(etcd.get('k', { timeoutMs: 500 }))).toMatchObject({
    code: expect.stringMatching(/^(Unavailable|DeadlineExceeded)$/),
  });
  expect((await etcd.get('k', { serializable: true }))?.text()).toBeUndefined();
  await cluster.heal();
  expect((await etcd.get('k', { timeoutMs: 20_000 }))?.text()).toBe('x');
});

test('members are added and removed, and those that are left go on', async (context) => {
  const cluster = await ownCluster(3);
  if (cluster === undefined) return context.skip('the servers are not ours');
  const [first] = cluster.members;
  const added = await cluster.join();
  expect(cluster.members).toHaveLength(4);
  await openClient({ endpoints: [added.endpoint] }).put('k', 'x');
  if (first !== undefined) await cluster.remove(first);
  expect(first?.running).toBe(false);
  const etcd = openClient({ endpoints: cluster.endpoints });
  expect((await etcd.cluster.memberList()).members).toHaveLength(3);
  expect((await etcd.range(prefix('k'))).count).toBe(1);
});

test('a member that is paused can be stopped', async (context) => {
  const cluster = await ownCluster(1);
  const [member] = cluster?.members ?? [];
  if (member === undefined) return context.skip('the servers are not ours');
  member.pause();
  await member.stop();
  expect(member.running).toBe(false);
});

async function ownCluster(members: number): Promise<EtcdCluster | undefined> {
  const { cluster } = await ownEtcd({ members, peerProxies: true });
  return cluster;
}

test('a cluster of nobody, or of no program, is refused by name', async () => {
  for (const members of [0, -1, 1.5, '3' as never])
    expect(await errorOf(EtcdCluster.start({ members }))).toMatchObject({ reason: 'InvalidInput' });
  await expect(EtcdCluster.start({ etcd: '/no/such/etcd' })).rejects.toThrow(/ENOENT; the option etcd names/);
});
