import { describe, expect, test } from 'vitest';
import type { Client, Member } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';

/** The peer URL of a member that never joins, because no server listens there. */
const ABSENT = 'http://127.0.0.1:1';

describe('`memberList`', () => {
  test('returns the same members from every endpoint, whether or not the call is linearizable', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const etcd = openClient({ endpoints });
    const { members } = await etcd.cluster.memberList();
    expect(members.map(({ clientUrls }) => clientUrls[0]).sort()).toEqual([...endpoints].sort());
    expect(new Set(members.map(({ id }) => id)).size).toBe(3);
    for (const endpoint of endpoints) {
      for (const linearizable of [true, false]) {
        const list = await etcd.cluster.memberList({ endpoint, linearizable });
        expect(byId(list.members)).toEqual(byId(members));
        expect(members.find(({ id }) => id === list.header.memberId)?.clientUrls).toEqual([endpoint]);
      }
    }
  });

  test('needs a quorum only when the call is linearizable (etcd 3.5 and later)', async (context) => {
    const { endpoints, members } = await ownEtcd({ members: 3 });
    const [survivor, ...others] = members;
    if (survivor === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
    const { cluster, maintenance } = openClient({ endpoints: [survivor.endpoint] });
    const { version } = await maintenance.status(survivor.endpoint);
    for (const other of others) await other.kill();
    expect((await cluster.memberList({ linearizable: false })).members).toHaveLength(endpoints.length);
    if (version.startsWith('3.4.')) return;
    expect(await errorOf(cluster.memberList({ timeoutMs: 1_000 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  });
});

describe('the cluster service', () => {
  test('adds a learner, promotes the learner after it has caught up, and removes the promoted member', async (context) => {
    const { endpoints, cluster } = await ownEtcd();
    if (cluster === undefined) return context.skip('no member can join servers that the tests did not start');
    const etcd = openClient({ endpoints });
    await etcd.put('k', 'x');
    let added: Member | undefined;
    const process = await cluster.join({
      add: async (peerUrl) => {
        const { member, members } = await etcd.cluster.memberAdd([peerUrl], { learner: true });
        expect(member).toMatchObject({ name: '', peerUrls: [peerUrl], clientUrls: [], isLearner: true });
        expect(members.map(({ id }) => id)).toContain(member.id);
        expect(await errorOf(etcd.cluster.memberPromote(member.id))).toMatchObject({
          reason: 'LearnerNotReady',
          code: 'FailedPrecondition',
          // A follower repeats the request at the leader, and returns the refusal of the repetition.
          outcome: 'unknown',
        });
        expect(await errorOf(etcd.cluster.memberAdd([ABSENT], { learner: true }))).toMatchObject({
          reason: 'TooManyLearners',
          // Each member compares the number of learners with its own limit.
          outcome: 'unknown',
        });
        added = member;
        return members;
      },
    });
    const { id } = added as Member;
    const learner = openClient({ endpoints: [process.endpoint] });
    expect((await learner.maintenance.status(process.endpoint)).isLearner).toBe(true);

    await expect.poll(() => promoted(etcd, id)).toBe(true);
    // A member that has not seen the promotion yet may answer LearnerNotReady, so the test repeats the call.
    await expect.poll(async () => (await errorOf(etcd.cluster.memberPromote(id))).reason).toBe('MemberNotLearner');
    expect((await learner.get('k'))?.text()).toBe('x');
    const { members } = await etcd.cluster.memberList();
    expect(members.find((member) => member.id === id)).toMatchObject({
      name: process.name,
      clientUrls: [process.endpoint],
      isLearner: false,
    });

    // etcd refuses to remove a member until the remaining members have been connected for five seconds.
    await expect.poll(() => removed(etcd, id)).toBe(true);
    expect((await etcd.cluster.memberList()).members).toHaveLength(1);
    await etcd.put('k', 'y');
  });

  test('adds a voting member, which counts toward the quorum at once', async (context) => {
    const { endpoints, cluster } = await ownEtcd();
    if (cluster === undefined) return context.skip('no member can join servers that the tests did not start');
    const etcd = openClient({ endpoints });
    const process = await cluster.join({
      add: async (peerUrl) => {
        const { member, members } = await etcd.cluster.memberAdd([peerUrl]);
        expect(member.isLearner).toBe(false);
        // One member of two is not a quorum.
        expect(await errorOf(etcd.put('k', 'x', { timeoutMs: 300 }))).toMatchObject({ outcome: 'unknown' });
        return members;
      },
    });
    await openClient({ endpoints: [process.endpoint] }).put('k', 'y');
    await expect.poll(async () => (await etcd.get('k'))?.text()).toBe('y');
  });

  test('updates the peer URLs of a member, and removes the member', async () => {
    const { endpoints } = await ownEtcd();
    const { cluster } = openClient({ endpoints });
    const { member } = await cluster.memberAdd([ABSENT], { learner: true });
    const elsewhere = ['http://127.0.0.1:2', 'https://localhost:3'];
    const { members } = await cluster.memberUpdate(member.id, elsewhere);
    expect(members.find(({ id }) => id === member.id)?.peerUrls.toSorted()).toEqual(elsewhere);
    const after = await cluster.memberRemove(member.id);
    expect(after.members.map(({ id }) => id)).not.toContain(member.id);
    expect(await errorOf(cluster.memberRemove(member.id))).toMatchObject({
      reason: 'MemberNotFound',
      code: 'NotFound',
    });
    expect(await errorOf(cluster.memberUpdate(1n, elsewhere))).toMatchObject({ reason: 'MemberNotFound' });
    expect(await errorOf(cluster.memberPromote(1n))).toMatchObject({ reason: 'MemberNotFound' });
  });

  test('rejects a new member with reason PeerURLExist when an existing member has the same peer URL', async () => {
    const { endpoints } = await ownEtcd();
    const { cluster } = openClient({ endpoints });
    const [self] = (await cluster.memberList()).members as [Member];
    expect(await errorOf(cluster.memberAdd(self.peerUrls, { learner: true }))).toMatchObject({
      reason: 'PeerURLExist',
      outcome: 'rejected',
    });
  });

  test('refuses malformed URLs and IDs, and sends nothing', async () => {
    const { transport, sent } = recordingTransport();
    const { cluster } = openClient({ transport });
    const calls = [
      cluster.memberAdd([]),
      cluster.memberAdd('http://127.0.0.1:1' as never),
      cluster.memberAdd(['127.0.0.1:1']),
      cluster.memberAdd(['http://127.0.0.1']),
      cluster.memberAdd(['http://127.0.0.1:1/path']),
      cluster.memberUpdate(1n, ['http://127.0.0.1:1', 5 as never]),
      cluster.memberUpdate(-1n, [ABSENT]),
      cluster.memberPromote(1 as never),
      cluster.memberRemove(2n ** 64n),
    ];
    for (const call of calls) {
      expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    }
    expect(sent).toEqual([]);
  });
});

function byId(members: readonly Member[]): Member[] {
  return members.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

async function promoted({ cluster }: Client, id: bigint): Promise<boolean> {
  const { members } = await cluster.memberPromote(id);
  return members.some((member) => member.id === id && !member.isLearner);
}

async function removed({ cluster }: Client, id: bigint): Promise<boolean> {
  const { members } = await cluster.memberRemove(id);
  return members.every((member) => member.id !== id);
}
