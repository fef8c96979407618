import { describe, expect, test } from 'vitest';
import type { Client } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';

const FOREIGN_ENDPOINT = 'http://127.0.0.1:1';

// Rule S31 (docs/semantics.md): for a call that concerns one member, the caller names the member.
describe('`status`', () => {
  test('returns the status of the member at the given endpoint', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const etcd = openClient({ endpoints });
    const { members } = await etcd.cluster.memberList();
    for (const endpoint of endpoints) {
      const { header, version, dbSize, leader, isLearner } = await etcd.maintenance.status(endpoint);
      const member = members.find(({ clientUrls }) => clientUrls.includes(endpoint));
      expect(header.memberId).toBe(member?.id);
      expect(version).toMatch(/^3\.\d+\.\d+/);
      expect(dbSize).toBeGreaterThan(0n);
      expect(members.map(({ id }) => id)).toContain(leader);
      expect(isLearner).toBe(false);
    }
  });

  test('rejects when the member at the given endpoint is down, although other members could answer', async (context) => {
    const { endpoints, members } = await ownEtcd({ members: 3 });
    const [up, down] = endpoints as [string, string];
    if (members[1] === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
    await members[1].kill();
    const { maintenance } = openClient({ endpoints });
    expect(await errorOf(maintenance.status(down, { timeoutMs: 500 }))).toMatchObject({ outcome: 'not-sent' });
    expect((await maintenance.status(up)).version).toMatch(/^3\./);
  });
});

// Rule S31: a call that concerns a single member goes to the named member and to no other.
test('maintenance methods refuse an endpoint that is not an endpoint of the client, and send nothing', async () => {
  const { transport, sent } = recordingTransport();
  const { maintenance } = openClient({ transport });
  const calls = [
    maintenance.status(FOREIGN_ENDPOINT),
    maintenance.defragment(FOREIGN_ENDPOINT),
    maintenance.hash(FOREIGN_ENDPOINT),
    maintenance.hashKV(FOREIGN_ENDPOINT),
    maintenance.snapshot(FOREIGN_ENDPOINT)[Symbol.asyncIterator]().next(),
    maintenance.moveLeader(1n, { endpoint: FOREIGN_ENDPOINT }),
  ];
  for (const call of calls) {
    const error = await errorOf(call);
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toContain(FOREIGN_ENDPOINT);
  }
  expect(sent).toEqual([]);
});

describe('a member without space', () => {
  test('raises an alarm, and accepts writes again after `compact`, `defragment` and `disarm`', async () => {
    const { endpoints } = await ownEtcd({ args: [`--quota-backend-bytes=${4 * 1024 * 1024}`] });
    const [endpoint] = endpoints as [string];
    const etcd = openClient({ endpoints });
    const key = unique();
    const fill = async (): Promise<never> => {
      for (;;) await etcd.put(key, new Uint8Array(256 * 1024));
    };
    expect(await errorOf(fill())).toMatchObject({
      reason: 'NoSpace',
      code: 'ResourceExhausted',
      outcome: 'unknown',
    });
    const { header, errors } = await etcd.maintenance.status(endpoint);
    const alarm = { memberId: header.memberId, alarm: 'noSpace' as const };
    await expect.poll(async () => (await etcd.maintenance.alarms()).alarms).toEqual([alarm]);
    expect(errors.join()).toContain('NOSPACE');
    expect((await etcd.get(key))?.value).toHaveLength(256 * 1024);

    await etcd.compact((await etcd.get(key))?.modRevision as bigint, { physical: true });
    await etcd.maintenance.defragment(endpoint);
    expect(await errorOf(etcd.put(key, 'x'))).toMatchObject({ reason: 'NoSpace' });
    expect((await etcd.maintenance.disarm(alarm)).alarms).toEqual([alarm]);
    expect((await etcd.maintenance.alarms()).alarms).toEqual([]);
    await etcd.put(key, 'x');
    expect((await etcd.get(key))?.text()).toBe('x');
  });

  test('receives no request when the caller passes a malformed alarm to `disarm`', async () => {
    const { transport, sent } = recordingTransport();
    const { maintenance } = openClient({ transport });
    for (const bad of [
      { memberId: 1n, alarm: 'NOSPACE' },
      { memberId: -1n, alarm: 'noSpace' },
      { memberId: 2n ** 64n, alarm: 'corrupt' },
    ]) {
      expect(await errorOf(maintenance.disarm(bad as never))).toMatchObject({ reason: 'InvalidInput' });
    }
    expect(sent).toEqual([]);
  });
});

test('`defragment` releases the space of deleted and compacted keys', async () => {
  const { endpoints } = await ownEtcd();
  const [endpoint] = endpoints as [string];
  const etcd = openClient({ endpoints });
  const keys = Array.from({ length: 8 }, (_, index) => `k${index}`);
  for (const key of keys) await etcd.put(key, new Uint8Array(512 * 1024));
  for (const key of keys) await etcd.delete(key);
  const { header } = await etcd.range('k0');
  await etcd.compact(header.revision, { physical: true });
  const before = await etcd.maintenance.status(endpoint);
  await etcd.maintenance.defragment(endpoint);
  const after = await etcd.maintenance.status(endpoint);
  expect(before.dbSize).toBeGreaterThan(4n * 1024n * 1024n);
  expect(after.dbSize).toBeLessThan(1024n * 1024n);
});

describe('a hash', () => {
  test('of the keys is the same on all members, and differs between revisions', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const etcd = openClient({ endpoints });
    const first = (await etcd.put('a', '1')).header.revision;
    const second = (await etcd.put('a', '2')).header.revision;
    await everywhere(etcd, (endpoint) => etcd.get('a', { endpoint }));
    const [atFirst, atSecond, now] = await Promise.all(
      [first, second, 0n].map((revision) =>
        everywhere(etcd, async (endpoint) => {
          const { hash, compactRevision } = await etcd.maintenance.hashKV(endpoint, revision);
          return [hash, compactRevision];
        }),
      ),
    );
    for (const hashes of [atFirst, atSecond]) expect(new Set(hashes?.map(String)).size).toBe(1);
    expect(atFirst).not.toEqual(atSecond);
    expect(now).toEqual(atSecond);
    const [endpoint] = endpoints as [string];
    expect(await errorOf(etcd.maintenance.hashKV(endpoint, second + 100n))).toMatchObject({ reason: 'FutureRev' });
    expect(await errorOf(etcd.maintenance.hashKV(endpoint, -1n))).toMatchObject({ reason: 'InvalidInput' });
  });

  test('of the whole database changes when the database changes', async () => {
    const { endpoints } = await ownEtcd();
    const [endpoint] = endpoints as [string];
    const etcd = openClient({ endpoints });
    const before = await etcd.maintenance.hash(endpoint);
    await etcd.put('a', '1');
    const after = await etcd.maintenance.hash(endpoint);
    expect(after.hash).not.toBe(before.hash);
    expect(Number.isInteger(after.hash)).toBe(true);
  });
});

function everywhere<T>(etcd: Client, ask: (endpoint: string) => Promise<T>): Promise<T[]> {
  return Promise.all(etcd.endpoints.map(ask));
}

test('maintenance methods for a single member refuse a missing endpoint', async () => {
  const { transport, sent } = recordingTransport();
  const { maintenance } = openClient({ transport });
  const missing = undefined as never;
  for (const call of [
    () => maintenance.status(missing),
    () => maintenance.defragment(missing),
    () => maintenance.hash(missing),
    () => maintenance.hashKV(missing),
    async () => maintenance.snapshot(missing),
  ]) {
    expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  }
  expect(sent).toEqual([]);
});

test('maintenance methods without a time limit reject when the member is down', async () => {
  const { maintenance, endpoints } = openClient({ endpoints: ['http://127.0.0.1:1'] });
  const [endpoint] = endpoints as [string];
  const calls = [errorOf(maintenance.defragment(endpoint)), errorOf(maintenance.hashKV(endpoint))];
  for (const error of await Promise.all(calls)) {
    expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
  }
});

test('a call to a member of a client with TLS accepts the endpoint as the program configured it, without a scheme', async () => {
  const etcd = openClient({ endpoints: ['127.0.0.1:9'], tls: {} });
  const error = await errorOf(etcd.maintenance.status('127.0.0.1:9', { timeoutMs: 100 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded' });
});
