import { describe, expect, test } from 'vitest';
import { EtcdError } from '../../../src/base/etcd-error.js';
import { Client } from '../../../src/extras/full/client.js';
import { WatchCreateRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { Mutex, Session } from '../../../src/locks.js';
import { ManualClock } from '../../../src/testing/memory/clock.js';
import { MemoryEtcd } from '../../../src/testing/memory/memory-etcd.js';
import type { MemoryMember } from '../../../src/testing/memory/memory-member.js';
import { StatusError, serverError, streamingRoute, unaryRoute } from '../../../src/testing/memory/service.js';
import { memory } from '../../../src/testing/memory/transport.js';
import type { Method } from '../../../src/wire/protobuf/schema.js';
import { FastCluster } from '../../support/fast-cluster.js';

/** Makes one attempt of a call at a member. Returns the code and the text of the error, or `OK`. */
async function outcome<Request, Response>(
  member: MemoryMember,
  { path, request: { create } }: Method<Request, Response, 'unary'>,
  request: Partial<Request>,
  metadata: Record<string, string> = {},
): Promise<string> {
  try {
    const call = { metadata, endpoint: member.endpoint, signal: new AbortController().signal };
    await unaryRoute(member, path).unary({ ...create(), ...request }, call);
  } catch (error) {
    if (error instanceof StatusError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'OK';
}

const { auth, cluster: members, kv, lease, maintenance, watch } = methods;
const key = new TextEncoder().encode('color');

describe('a MemoryEtcd with three members', () => {
  test('has a leader from the start, without the clock', async () => {
    const server = new MemoryEtcd({ members: 3, clock: new ManualClock() });
    await using etcd = new Client({ transport: memory(server) });
    await etcd.put('color', 'blue');
    expect((await etcd.get('color'))?.text()).toBe('blue');
    expect(server.members.map(({ state }) => state.store.revision)).toEqual([2n, 2n, 2n]);
    expect(server.members.map(({ raft }) => raft?.log.map(({ text }) => text))).toEqual([
      ['', 'put color'],
      ['', 'put color'],
      ['', 'put color'],
    ]);
  });

  test('lists its members and their leader', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    const members = await etcd.cluster.memberList();
    expect(members.members.map(({ name }) => name).sort()).toEqual(['m0', 'm1', 'm2']);
    const statuses = await Promise.all(
      cluster.server.members.map((member) => cluster.client(member).raw.maintenance.status({})),
    );
    expect(new Set(statuses.map(({ leader }) => leader)).size).toBe(1);
    expect(new Set(statuses.map(({ header }) => header?.memberId)).size).toBe(3);
    expect(statuses.map(({ raftTerm }) => raftTerm)).toEqual([2n, 2n, 2n]);
  });

  test('writes through a follower, and reads the write at every member', async () => {
    await using cluster = new FastCluster();
    const [follower] = cluster.followers;
    await cluster.client(follower).put('color', 'blue');
    for (const member of cluster.server.members)
      expect((await cluster.client(member).get('color'))?.text()).toBe('blue');
  });

  test('goes on after its leader has been killed, and the killed member catches up', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    await etcd.put('a', '1');
    const old = cluster.leader;
    old.kill();
    await cluster.untilLeader(old);
    await etcd.put('b', '2');
    old.restart();
    await expect.poll(() => old.state.store.revision).toBe(3n);
    expect(old.raft?.role).toBe('follower');
  });

  test('a member that is cut off answers serializable reads only', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    await etcd.put('color', 'blue');
    const old = cluster.leader;
    old.cutOff();
    await expect.poll(() => old.isLeader).toBe(false);
    const lonely = cluster.client(old);
    await cluster.untilLeader();
    await cluster.client(cluster.leader).put('color', 'red');
    expect((await lonely.get('color', { serializable: true }))?.text()).toBe('blue');
    // A real etcd 3.6.14 that is cut off from its peers gives these answers.
    const results = await Promise.all([
      outcome(old, kv.put, { key }),
      outcome(old, kv.put, { key }, { hasleader: 'true' }),
      outcome(old, kv.range, { key }),
      outcome(old, kv.compact, { revision: 1n }),
      outcome(old, lease.leaseGrant, { ttl: 10n }),
      outcome(old, lease.leaseTimeToLive, { id: 7n }),
      outcome(old, lease.leaseLeases, {}),
      outcome(old, members.memberList, { linearizable: true }),
      outcome(old, members.memberList, {}),
      outcome(old, members.memberAdd, { peerUrls: ['http://127.0.0.1:1'], isLearner: true }),
      outcome(old, maintenance.alarm, {}),
      outcome(old, maintenance.hashKv, {}),
      outcome(old, maintenance.moveLeader, { targetId: old.state.memberId }),
      outcome(old, auth.userList, {}),
      outcome(old, methods.lock.lock, { name: key, lease: 7n }),
      outcome(old, methods.election.leader, { name: key }),
    ]);
    const noDeadline = 'DeadlineExceeded: context deadline exceeded';
    const noLeader = 'Unavailable: etcdserver: no leader';
    const timeout = 'Unavailable: etcdserver: request timed out';
    expect(results).toEqual([
      ...[noDeadline, noLeader, timeout, noDeadline, noDeadline, noLeader, 'OK'],
      ...[timeout, 'OK', 'Unavailable: etcdserver: unhealthy cluster', noDeadline, 'OK'],
      ...['FailedPrecondition: etcdserver: not leader', noDeadline, noDeadline],
      'Unknown: etcdserver: request timed out',
    ]);
    const { leader, errors } = await lonely.raw.maintenance.status({});
    expect([leader, errors]).toEqual([0n, ['etcdserver: no leader']]);
    old.heal();
    await expect.poll(() => old.state.store.get('color')?.value).toEqual(new TextEncoder().encode('red'));
  });

  test('a minority grants no lock', async () => {
    await using cluster = new FastCluster();
    const [follower, other] = cluster.followers as [MemoryMember, MemoryMember];
    const lonely = cluster.client(follower);
    const session = await Session.open(lonely, { ttl: 60 });
    cluster.leader.kill();
    other.kill();
    await expect(new Mutex(session, 'lock').lock({ maxWaitMs: 300 })).rejects.toThrow(EtcdError);
    expect(follower.state.store.revision).toBe(1n);
  });

  test('a watch that requires a leader ends when its member has no leader', async () => {
    await using cluster = new FastCluster();
    const [follower] = cluster.followers as [MemoryMember];
    const call = { metadata: { hasleader: 'true' }, endpoint: '', signal: new AbortController().signal };
    const ended = new Promise((resolve) => {
      const sink = streamingRoute(follower, watch.watch.path).streaming({ send: () => {}, end: resolve }, call);
      const create = { ...WatchCreateRequest.create(), key };
      sink.message({ requestUnion: { case: 'createRequest', value: create } });
    });
    follower.cutOff();
    expect(await ended).toEqual(serverError('NoLeader'));
  });

  test('the leader decides when a lease expires, and a new leader gives all leases their TTL again', async () => {
    const clock = new ManualClock();
    const server = new MemoryEtcd({ members: 3, clock });
    await using etcd = new Client({ transport: memory(server) });
    const { id } = await etcd.lease.grant({ ttl: 10 });
    await etcd.put('k', '', { lease: id });
    const advance = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 100) {
        clock.advance(100);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await advance(9_000);
    const old = server.leader as MemoryMember;
    old.kill();
    // An election may have no winner, so several may be necessary.
    for (let passed = 0; passed < 20_000 && server.leader === undefined; passed += 100) await advance(100);
    expect(server.leader).toBeDefined();
    await advance(8_000);
    expect((await etcd.get('k'))?.key).toBeDefined();
    await advance(3_500);
    expect(await etcd.get('k')).toBeUndefined();
    server.stop();
  });

  test('MoveLeader moves the leadership, and only the leader accepts it', async () => {
    await using cluster = new FastCluster();
    const [follower] = cluster.followers as [MemoryMember];
    const targetId = follower.state.memberId;
    const move = (member: MemoryMember): Promise<string> => outcome(member, maintenance.moveLeader, { targetId });
    expect(await move(follower)).toBe('FailedPrecondition: etcdserver: not leader');
    expect(await move(cluster.leader)).toBe('OK');
    expect(cluster.leader).toBe(follower);
  });

  test('all members apply the same changes of users, and check the same permissions', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    await etcd.auth.userAdd('root', { password: 'secret' });
    await etcd.auth.roleAdd('root');
    await etcd.auth.userGrantRole('root', 'root');
    await etcd.auth.enable();
    const snapshots = cluster.server.members.map(({ state }) => state.auth.store.snapshot());
    expect(snapshots[1]).toEqual(snapshots[0]);
    expect(snapshots[2]).toEqual(snapshots[0]);
    const login = { username: 'root', password: 'secret', allowPlaintext: true };
    const secured = cluster.client(cluster.server, { auth: login, balance: 'round-robin' });
    for (let count = 0; count < 6; count += 1) await secured.put('k', `${count}`);
    for (const member of cluster.server.members)
      expect(await outcome(member, kv.put, { key })).toBe('InvalidArgument: etcdserver: user name is empty');
  });

  test('a follower refuses a promotion at the time limit if the leader has lost the token in a restart', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    await etcd.auth.userAdd('root', { password: 'secret' });
    await etcd.auth.roleAdd('root');
    await etcd.auth.userGrantRole('root', 'root');
    await etcd.auth.enable();
    const [forgetful, follower] = cluster.followers as [MemoryMember, MemoryMember];
    const { token } = await etcd.raw.auth.authenticate({ name: 'root', password: 'secret' });
    const promote = (member: MemoryMember): Promise<string> =>
      outcome(member, members.memberPromote, { id: 7n }, { token });
    // A real cluster of etcd 3.6.14 gives these answers.
    expect(await promote(follower)).toBe('NotFound: etcdserver: member not found');
    forgetful.kill();
    forgetful.restart();
    await outcome(cluster.leader, maintenance.moveLeader, { targetId: forgetful.state.memberId }, { token });
    expect(cluster.leader).toBe(forgetful);
    expect(await promote(forgetful)).toBe('Unauthenticated: etcdserver: invalid auth token');
    expect(await promote(follower)).toBe('Unavailable: etcdserver: request timed out');
  });

  test('a backup replaces the state of all members', async () => {
    await using cluster = new FastCluster();
    const etcd = cluster.client();
    await etcd.put('a', '1');
    const backup = cluster.server.snapshot();
    await etcd.put('a', '2');
    cluster.server.restore(backup);
    await cluster.untilLeader();
    expect((await etcd.get('a'))?.text()).toBe('1');
    expect(cluster.server.members.map(({ state }) => state.store.revision)).toEqual([2n, 2n, 2n]);
  });
});
