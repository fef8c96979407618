import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { findEtcd } from '../../scripts/etcd.js';
import { AlarmAction, AlarmType } from '../../src/gen/etcdserverpb/rpc.js';
import { prefix } from '../../src/index.js';
import { EtcdCluster, type StartEtcdOptions } from '../../src/testing/index.js';
import { startScript } from '../support/child.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { temporaryFolder } from '../support/temporary-folder.js';
import { HERE } from '../support/tls/secure-etcd.js';

test('a partitioned member of an `EtcdCluster` has no leader until `heal()` ends the partition', async (context) => {
  const cluster = await ownCluster(3);
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
  const leader = await cluster.leader();
  const [etcd, others] = [
    openClient({ endpoints: [leader.endpoint] }),
    openClient({ endpoints: cluster.endpoints.filter((endpoint) => endpoint !== leader.endpoint) }),
  ];
  await cluster.partition(leader);
  // Read before the first write, because the client repeats a read, but not a write, until the other members have a
  // leader.
  await others.get('k', { timeoutMs: 20_000 });
  await others.put('k', 'x');
  expect(await errorOf(etcd.get('k', { timeoutMs: 500 }))).toMatchObject({
    code: expect.stringMatching(/^(Unavailable|DeadlineExceeded)$/),
  });
  expect((await etcd.get('k', { serializable: true }))?.text()).toBeUndefined();
  await cluster.heal();
  expect((await etcd.get('k', { timeoutMs: 20_000 }))?.text()).toBe('x');
});

test('`start` of a cluster starts its members together, and `start` of one member says that the quorum is missing', async (context) => {
  const cluster = await ownCluster(3);
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
  await openClient({ endpoints: cluster.endpoints }).put('k', 'x');
  await Promise.all(cluster.members.map((member) => member.kill()));
  await expect(cluster.members[0]?.start()).rejects.toThrow(
    'its cluster has no quorum: 1 of 3 members run; start the members together with cluster.start()',
  );
  await cluster.start();
  expect((await openClient({ endpoints: cluster.endpoints }).get('k'))?.text()).toBe('x');
});

test('an `EtcdCluster` keeps its data when one member joins and another member is removed', async (context) => {
  const cluster = await ownCluster(3);
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
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

test('`start` of a member resolves while the cluster has an alarm', async (context) => {
  const cluster = await ownCluster(1);
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
  const [member] = cluster.members;
  const etcd = openClient({ endpoints: cluster.endpoints });
  for (const alarm of [AlarmType.NOSPACE, AlarmType.CORRUPT])
    await etcd.raw.maintenance.alarm({ action: AlarmAction.ACTIVATE, alarm });
  await member?.kill();
  await member?.start();
  expect((await etcd.maintenance.alarms()).alarms).toHaveLength(2);
});

test('an `EtcdCluster` runs with `fsync` if an argument asks for it', async (context) => {
  const { cluster } = await ownEtcd({ args: ['--unsafe-no-fsync=false'] });
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
  const etcd = openClient({ endpoints: cluster.endpoints });
  await etcd.put('k', 'x');
  for (const member of cluster.members) await member.kill();
  await cluster.start();
  expect((await etcd.get('k', { timeoutMs: 20_000 }))?.text()).toBe('x');
});

test('an `EtcdCluster` over TLS knows its leader, partitions it, and lets members join and leave', async (context) => {
  const authority = await Authority.create();
  const folder = temporaryFolder();
  const { cert, key } = await authority.issue(HERE);
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(certFile, cert);
  writeFileSync(keyFile, key);
  const cluster = await ownCluster(3, { tls: { certFile, keyFile } });
  if (cluster === undefined) return context.skip('the tests run against servers that they did not start');
  const leader = await cluster.leader();
  await cluster.partition(leader);
  const others = cluster.endpoints.filter((endpoint) => endpoint !== leader.endpoint);
  const etcd = openClient({ endpoints: others, tls: { ca: authority.cert } });
  await etcd.get('k', { timeoutMs: 20_000 });
  await etcd.put('k', 'x');
  await cluster.heal();
  const added = await cluster.join();
  await cluster.remove(leader);
  const joined = openClient({ endpoints: [added.endpoint], tls: { ca: authority.cert } });
  expect((await joined.get('k', { timeoutMs: 20_000 }))?.text()).toBe('x');
});

test('a paused `EtcdMember` can be stopped', async (context) => {
  const cluster = await ownCluster(1);
  const [member] = cluster?.members ?? [];
  if (member === undefined) return context.skip('the tests run against servers that they did not start');
  member.pause();
  await member.stop();
  expect(member.running).toBe(false);
});

test('`pause` throws on Windows, where `stop` works without it', async (context) => {
  const cluster = await ownCluster(1);
  const [member] = cluster?.members ?? [];
  if (member === undefined) return context.skip('the tests run against servers that they did not start');
  const original = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;
  Object.defineProperty(process, 'platform', { ...original, value: 'win32' });
  onTestFinished(() => void Object.defineProperty(process, 'platform', original));
  expect(() => member.pause()).toThrow(TypeError);
  expect(() => member.resume()).not.toThrow();
  await member.stop();
  expect(member.running).toBe(false);
});

test.for(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'] as const)(
  'the members of an `EtcdCluster` and their data do not outlive a process that %s ends',
  async (signal, context) => {
    const found = await findEtcd();
    if (found.kind !== 'binary') return context.skip('needs an etcd binary');
    const folder = temporaryFolder();
    const program = new URL('../support/cluster-program.ts', import.meta.url);
    const child = startScript(program, [found.etcd], { environment: { TMPDIR: folder } });
    const pids = (await child.line()).split(',').map(Number);
    expect(readdirSync(folder)).toHaveLength(1);
    child.process.kill(signal);
    await child.exited;
    expect(child.process.signalCode).toBe(signal);
    await expect.poll(() => pids.filter(isRunning)).toEqual([]);
    await expect.poll(() => readdirSync(folder)).toEqual([]);
  },
);

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function ownCluster(
  members: number,
  options: Pick<StartEtcdOptions, 'tls'> = {},
): Promise<EtcdCluster | undefined> {
  const { cluster } = await ownEtcd({ members, peerProxies: true, ...options });
  return cluster;
}

test('`EtcdCluster.start` rejects an invalid number of members and a missing executable', async () => {
  for (const members of [0, -1, 1.5, '3' as never])
    expect(await errorOf(EtcdCluster.start({ members }))).toMatchObject({ reason: 'InvalidInput' });
  await expect(EtcdCluster.start({ etcd: '/no/such/etcd' })).rejects.toThrow(/ENOENT; set the option etcd/);
});
