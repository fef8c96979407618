import assert from 'node:assert/strict';
import type { LeaderKey } from '../../../src/gen/v3electionpb/v3election.js';
import { EtcdError } from '../../../src/index.js';
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
        await context.etcd.raw.election.proclaim({ leader, value: utf8('second') });
        assert.equal((await context.etcd.get(leader.key))?.text(), 'second');
      }),
  },
  leader: {
    since: '3.2',
    run: async (context) => {
      assert.equal(await leaderOf(context, freshName('election')), undefined);
      await elected(context, async (name, leader) => {
        assert.deepEqual(await leaderOf(context, name), leader.key);
      });
    },
  },
  observe: {
    since: '3.2',
    run: (context) =>
      elected(context, async (name, leader) => {
        const { election } = context.etcd.raw;
        const seen: string[] = [];
        for await (const { kv } of election.observe({ name: utf8(name) })) {
          seen.push(String(Buffer.from(kv?.value ?? [])));
          if (seen.length === 2) break;
          await election.proclaim({ leader, value: utf8('second') });
        }
        assert.deepEqual(seen, ['first', 'second']);
      }),
  },
  resign: {
    since: '3.2',
    run: (context) =>
      elected(context, async (name, leader) => {
        await context.etcd.raw.election.resign({ leader });
        assert.equal(await context.etcd.get(leader.key), undefined);
        assert.equal(await leaderOf(context, name), undefined);
      }),
  },
};

/** Wins a new election with the value "first", and passes the name and the leader key of the election to `use`. */
async function elected({ etcd }: Context, use: (name: string, leader: LeaderKey) => Promise<void>): Promise<void> {
  const [name, { id }] = [freshName('election'), await etcd.lease.grant({ ttl: 60 })];
  const request = { name: utf8(name), lease: id, value: utf8('first') };
  const { leader } = await etcd.raw.election.campaign(request, { timeoutMs: 10_000 });
  assert.ok(leader);
  await use(name, leader);
  await etcd.lease.revoke(id);
}

/** Returns the key of the leader of an election. */
async function leaderOf({ etcd }: Context, name: string): Promise<Uint8Array | undefined> {
  try {
    return (await etcd.raw.election.leader({ name: utf8(name) })).kv?.key;
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'ElectionNoLeader') return undefined;
    throw error;
  }
}
