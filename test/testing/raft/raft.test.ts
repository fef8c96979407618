import { describe, expect, inject, test } from 'vitest';
import { RaftCluster } from '../../support/raft-cluster.js';

const SEEDS = inject('thorough') ? 2_000 : 150;

describe('Raft', () => {
  test('elects one leader, which replicates commands to all members', async () => {
    const cluster = new RaftCluster(1, 3);
    const { raft } = await cluster.untilLeader();
    expect(raft.propose('a')).toBe(true);
    await cluster.advance(10);
    expect(cluster.nodes.map(({ applied }) => applied)).toEqual([['a'], ['a'], ['a']]);
    expect(cluster.nodes.map(({ raft: { leader } }) => leader)).toEqual([raft.id, raft.id, raft.id]);
  });

  test('a follower forwards a command to the leader', async () => {
    const cluster = new RaftCluster(2, 3);
    const leader = await cluster.untilLeader();
    await cluster.advance(200);
    const follower = cluster.node((leader.raft.id + 1) % 3);
    expect(follower.raft.propose('a')).toBe(true);
    await cluster.advance(10);
    expect(follower.applied).toEqual(['a']);
  });

  test('the other members elect a leader after the leader has been killed', async () => {
    const cluster = new RaftCluster(3, 3);
    const first = await cluster.untilLeader();
    first.raft.propose('a');
    await cluster.advance(10);
    cluster.kill(first.raft.id);
    const second = await cluster.untilLeader();
    expect(second.raft.term).toBeGreaterThan(first.raft.term);
    second.raft.propose('b');
    cluster.restart(first.raft.id);
    await cluster.advance(500);
    expect(first.applied).toEqual(['a', 'b']);
  });

  test('a leader that is cut off commits nothing, and stops leading after an election timeout', async () => {
    const cluster = new RaftCluster(4, 3);
    const old = await cluster.untilLeader();
    cluster.network.cutOff(old.raft.id);
    old.raft.propose('lost');
    await cluster.advance(1_200);
    expect([old.raft.role, old.raft.leader, old.applied]).not.toContain('leader');
    expect(old.applied).toEqual([]);
    const leader = await cluster.untilLeader();
    leader.raft.propose('kept');
    await cluster.advance(100);
    cluster.network.heal(old.raft.id);
    await cluster.advance(500);
    expect(old.applied).toEqual(['kept']);
  });

  test('a member that returns after it was cut off causes no election, because it asks for a pre-vote first', async () => {
    const cluster = new RaftCluster(5, 3);
    const leader = await cluster.untilLeader();
    const { term } = leader.raft;
    const other = (leader.raft.id + 1) % 3;
    cluster.network.cutOff(other);
    await cluster.advance(10_000);
    expect(cluster.node(other).raft.role).toBe('pre-candidate');
    cluster.network.heal(other);
    await cluster.advance(5_000);
    expect([leader.raft.role, leader.raft.term, cluster.node(other).raft.leader]).toEqual([
      'leader',
      term,
      leader.raft.id,
    ]);
  });

  test('a read index is answered only with a majority', async () => {
    const cluster = new RaftCluster(6, 3);
    const { raft, readable } = await cluster.untilLeader();
    raft.readIndex(1);
    await cluster.advance(10);
    expect(readable.get(1)).toBe(raft.commitIndex);
    cluster.network.cutOff(raft.id);
    raft.readIndex(2);
    await cluster.advance(900);
    expect(readable.has(2)).toBe(false);
  });

  test('the leadership moves to the member that the leader names', async () => {
    const cluster = new RaftCluster(7, 3);
    const { raft } = await cluster.untilLeader();
    const to = (raft.id + 2) % 3;
    raft.transferLeadership(to);
    await cluster.advance(50);
    expect(cluster.leader?.raft.id).toBe(to);
  });

  test('term, vote and log survive a restart', async () => {
    const cluster = new RaftCluster(8, 3);
    const { raft } = await cluster.untilLeader();
    raft.propose('a');
    await cluster.advance(10);
    const before = cluster.nodes.map(({ raft: { term, votedFor, log } }) => ({ term, votedFor, log: [...log] }));
    for (const id of [0, 1, 2]) cluster.kill(id);
    for (const id of [0, 1, 2]) cluster.restart(id);
    expect(cluster.nodes.map(({ raft: { term, votedFor, log } }) => ({ term, votedFor, log }))).toEqual(before);
    await cluster.untilLeader();
    await cluster.advance(200);
    expect(cluster.nodes.map(({ applied }) => applied)).toEqual([['a'], ['a'], ['a']]);
  });

  test.each([3, 5])(
    'keeps its safety properties in a cluster of %i under random faults',
    async (members) => {
      for (let seed = 1; seed <= SEEDS; seed += 1) expect([seed, await problemsOf(seed, members)]).toEqual([seed, []]);
    },
    60_000,
  );
});

/** Plays a history with random faults. Returns the violated properties. */
async function problemsOf(seed: number, members: number): Promise<readonly string[]> {
  const cluster = new RaftCluster(seed, members);
  const { random, network } = cluster;
  const lossRate = random.pick([0, 0.05, 0.3]);
  const slowness = random.pick([1, 20, 400]);
  network.delayMs = () => (random.chance(lossRate) ? undefined : 1 + random.fraction() * slowness);
  /** The number of the read, and the number of commands that were committed before it. */
  const reads: { readonly id: number; readonly request: number; readonly atLeast: number }[] = [];
  for (let step = 0; step < 80; step += 1) {
    const id = random.below(members);
    const { raft, isRunning } = cluster.node(id);
    const action = random.fraction();
    if (action < 0.12) cluster.kill(id);
    else if (action < 0.27) cluster.restart(id);
    else if (action < 0.34) network.cutOff(id);
    else if (action < 0.46) network.heal(id);
    else if (action < 0.5 && isRunning) raft.transferLeadership(random.below(members));
    else if (action < 0.85 && isRunning) raft.propose(`${seed}.${step}`);
    else if (isRunning) {
      raft.readIndex(step);
      reads.push({ id, request: step, atLeast: Math.max(...cluster.nodes.map((each) => each.raft.commitIndex)) });
    }
    await cluster.advance(random.pick([1, 10, 100, 1_500]));
    cluster.checkLogs();
  }
  for (const { id, request, atLeast } of reads) {
    const index = cluster.node(id).readable.get(request);
    if (index !== undefined && index < atLeast) cluster.problems.push(`read ${request} at ${index} misses ${atLeast}`);
  }
  network.delayMs = () => 1;
  for (let id = 0; id < members; id += 1) {
    network.heal(id);
    cluster.restart(id);
  }
  await cluster.untilLeader();
  await cluster.advance(1_000);
  const [first] = cluster.nodes;
  if (cluster.nodes.some(({ applied }) => applied.join() !== first?.applied.join()))
    cluster.problems.push('the members have applied different commands after all faults have ended');
  return cluster.problems;
}
