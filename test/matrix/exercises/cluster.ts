import assert from 'node:assert/strict';
import { EtcdError, type Member } from '../../../src/index.js';
import { type Context, type ExercisesOf, eventually } from '../exercise.js';

/**
 * The peer URL of a member that never joins, because no server listens at this URL. The member is a learner, so it does
 * not count toward the quorum.
 */
const ABSENT = 'http://127.0.0.1:1';

export const cluster: ExercisesOf<'cluster'> = {
  memberAdd: {
    since: '3.0',
    run: (context) =>
      withAbsentLearner(context, async ({ id, peerUrls, isLearner }) => {
        assert.deepEqual([peerUrls, isLearner], [[ABSENT], true]);
        assert.ok((await ids(context)).includes(id));
      }),
  },
  memberRemove: {
    since: '3.0',
    run: async (context) => {
      const id = await withAbsentLearner(context, async (member) => member.id);
      assert.ok(!(await ids(context)).includes(id));
    },
  },
  memberUpdate: {
    since: '3.0',
    run: (context) =>
      withAbsentLearner(context, async ({ id }) => {
        const elsewhere = 'http://127.0.0.1:2';
        const { members } = await context.etcd.cluster.memberUpdate(id, [elsewhere]);
        assert.deepEqual(members.find((member) => member.id === id)?.peerUrls, [elsewhere]);
      }),
  },
  memberList: {
    since: '3.0',
    run: async ({ etcd, endpoints }) => {
      const { members, header } = await etcd.cluster.memberList();
      assert.ok(members.length >= endpoints.length);
      assert.ok(members.some(({ id }) => id === header.memberId));
      const known = await etcd.cluster.memberList({ linearizable: false });
      assert.deepEqual(known.members, members);
    },
  },
  memberPromote: {
    since: '3.4',
    run: async (context) => {
      const { etcd, cluster } = context;
      await withAbsentLearner(context, ({ id }) =>
        assert.rejects(
          etcd.cluster.memberPromote(id),
          (error) => error instanceof EtcdError && error.reason === 'LearnerNotReady',
        ),
      );
      if (cluster === undefined) return;
      let id = 0n;
      const added = await cluster.join({
        add: async (peerUrl) => {
          const { member, members } = await addLearner(context, peerUrl);
          id = member.id;
          return members;
        },
      });
      try {
        const { members } = await eventually(() => etcd.cluster.memberPromote(id));
        assert.equal(members.find((member) => member.id === id)?.isLearner, false);
      } finally {
        await added.kill();
        await eventually(() => etcd.cluster.memberRemove(id));
      }
    },
  },
};

async function withAbsentLearner<T>(context: Context, use: (member: Member) => Promise<T>): Promise<T> {
  const { member } = await addLearner(context, ABSENT);
  try {
    return await use(member);
  } finally {
    await context.etcd.cluster.memberRemove(member.id);
  }
}

/**
 * Adds a learner. Retries for a while, because etcd adds no member until the other members have been connected for five
 * seconds.
 */
async function addLearner({ etcd }: Context, peerUrl: string): ReturnType<typeof etcd.cluster.memberAdd> {
  return eventually(() => etcd.cluster.memberAdd([peerUrl], { learner: true }));
}

async function ids({ etcd }: Context): Promise<bigint[]> {
  return (await etcd.cluster.memberList()).members.map(({ id }) => id);
}
