import assert from 'node:assert/strict';
import type { LeaderKey } from '../../../src/index.js';
import { type Context, type ExercisesOf, freshName, utf8 } from '../exercise.js';

export const election: ExercisesOf<'election'> = {
  campaign: {
    since: '3.2',
    run: (context) =>
      elected(context, async (name, leader) => {
        const found = await context.etcd.get(leader.key);
        assert.deepEqual([found?.text(), found?.createRevision, found?.lease], ['first', leader.rev, leader.lease]);
        assert.deepEqual(leader.name, utf8(name));
      }),
  },
  proclaim: {
    since: '3.2',
    run: (context) =>
      elected(context, async (_, leader) => {
        await context.etcd.electionService.proclaim(leader, 'second');
        assert.equal((await context.etcd.get(leader.key))?.text(), 'second');
      }),
  },
  leader: {
    since: '3.2',
    run: async (context) => {
      const { electionService } = context.etcd;
      assert.equal(await electionService.leader(freshName('election')), undefined);
      await elected(context, async (name, leader) => {
        assert.deepEqual((await electionService.leader(name))?.key, leader.key);
      });
    },
  },
  observe: {
    since: '3.2',
    run: (context) =>
      elected(context, async (name, leader) => {
        const { electionService } = context.etcd;
        const seen: string[] = [];
        for await (const kv of electionService.observe(name)) {
          seen.push(kv.text());
          if (seen.length === 2) break;
          await electionService.proclaim(leader, 'second');
        }
        assert.deepEqual(seen, ['first', 'second']);
      }),
  },
  resign: {
    since: '3.2',
    run: (context) =>
      elected(context, async (name, leader) => {
        await context.etcd.electionService.resign(leader);
        assert.equal(await context.etcd.get(leader.key), undefined);
        assert.equal(await context.etcd.electionService.leader(name), undefined);
      }),
  },
};

/** Wins a new election with the value "first", and passes the name and the leader key of the election to `use`. */
async function elected({ etcd }: Context, use: (name: string, leader: LeaderKey) => Promise<void>): Promise<void> {
  const [name, { id }] = [freshName('election'), await etcd.lease.grant({ ttl: 60 })];
  const { leader } = await etcd.electionService.campaign(name, id, 'first', { timeoutMs: 10_000 });
  await use(name, leader);
  await etcd.lease.revoke(id);
}
