import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../src/index.js';
import type { EtcdCluster, EtcdMember } from '../../src/testing/index.js';
import type { FaultyCluster } from './cluster.js';
import { between, pick } from './rounds.js';

// Faults that affect a whole cluster, and the faults that a soak test applies at random.

/** The time in milliseconds for which the cluster and its clients can recover after each change to the cluster. */
const SETTLE_MS = 500;
/**
 * The time in milliseconds after which a resumed leader no longer revokes leases that expired in its former term. Its
 * first revocations time out after 7 s (5 s and two election timeouts of 1 s), and the leader then retries them.
 */
const LATE_REVOKES_MS = 8_500;

/** Stops the members gracefully and starts them again, one after another. Resolves with the number of restarts. */
export async function restartEach({ members }: EtcdCluster): Promise<number> {
  for (const member of members) {
    await member.stop();
    await member.start();
    await pause(SETTLE_MS);
  }
  return members.length;
}

/** Moves the leadership to each other member in turn and back. Resolves with the number of moves. */
export async function moveLeader(cluster: EtcdCluster): Promise<number> {
  await using client = new Client({ endpoints: cluster.endpoints });
  const first = await cluster.leader();
  const targets = [...cluster.members.filter((member) => member !== first), first];
  for (const target of targets) {
    await client.maintenance.moveLeader(await memberId(client, target));
    await untilLeading(cluster, target);
    await pause(SETTLE_MS);
  }
  return targets.length;
}

/**
 * Adds a member and removes one of the previous members, either the leader or a follower. Resolves with the number of
 * changes.
 */
export async function replaceMember(cluster: EtcdCluster, removes: 'leader' | 'follower'): Promise<number> {
  const added = await cluster.join();
  const leader = await cluster.leader();
  const followers = cluster.members.filter((member) => member !== leader && member !== added);
  const removed = removes === 'leader' && leader !== added ? leader : followers[0];
  await cluster.remove(removed as EtcdMember);
  await cluster.leader();
  await pause(SETTLE_MS);
  return 2;
}

/**
 * Suspends the process of the leader (SIGSTOP) for `pausedMs`, resumes it, and waits until this member no longer
 * revokes leases that expired in its former term. Resolves with the number of suspensions, which is 1.
 */
export async function pauseLeader(cluster: EtcdCluster, pausedMs: number): Promise<number> {
  const leader = await cluster.leader();
  leader.pause();
  await pause(pausedMs);
  leader.resume();
  await pause(LATE_REVOKES_MS);
  return 1;
}

async function untilLeading(cluster: EtcdCluster, target: EtcdMember): Promise<void> {
  while ((await cluster.leader()) !== target) await pause(SETTLE_MS / 10);
}

async function memberId(client: Client, member: EtcdMember): Promise<bigint> {
  const { members } = await client.cluster.memberList();
  const found = members.find(({ clientUrls }) => clientUrls.includes(member.endpoint));
  if (found === undefined) throw new Error(`${member.name} is not a member`);
  return found.id;
}

type Random = () => number;

/** The cluster and the clients that a fault affects. */
interface FaultTarget {
  readonly cluster: FaultyCluster;
  /** Blocks the event loop of the clients. */
  readonly block: (ms: number) => void;
}

/** One fault. It may last until the cluster is healed. */
export interface RandomFault {
  readonly name: string;
  readonly make: (target: FaultTarget, random: Random) => Promise<void>;
}

/** The minimum and the maximum duration of a fault, in milliseconds. */
const DURATION_MS = [50, 3_000] as const;

const duration = (random: Random): Promise<void> => pause(between(...DURATION_MS, random));

/** Every kind of fault that a client must survive at any time. A soak test applies them at random. */
export const RANDOM_FAULTS: readonly RandomFault[] = [
  {
    name: 'connections dropped',
    make: async ({ cluster: { proxies } }, random) => pick(proxies, random).dropConnections(),
  },
  { name: 'connections reset', make: async ({ cluster: { proxies } }, random) => pick(proxies, random).reset() },
  {
    name: 'resets every 5 ms',
    make: async ({ cluster: { proxies } }, random) => {
      for (let resets = Math.ceil(between(1, 100, random)); resets > 0; resets -= 1) {
        for (const proxy of proxies) proxy.reset();
        await pause(5);
      }
    },
  },
  {
    name: 'black hole',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).blackhole();
      await duration(random);
    },
  },
  {
    name: 'one direction only',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).oneWay(pick(['to-server', 'to-client'] as const, random));
      await duration(random);
    },
  },
  {
    name: 'nothing read',
    make: async ({ cluster: { proxies } }, random) => {
      pick(proxies, random).pause();
      await duration(random);
    },
  },
  {
    name: 'slices',
    make: async ({ cluster: { proxies } }, random) => {
      for (const proxy of proxies) proxy.slice(Math.ceil(between(0, 20, random)));
      await duration(random);
    },
  },
  {
    name: 'delays',
    make: async ({ cluster: { proxies } }, random) => {
      for (const proxy of proxies) proxy.delay(between(0, 200, random));
      await duration(random);
    },
  },
  {
    name: 'member killed',
    make: async ({ cluster: { members } }, random) => {
      const member = pick(members, random);
      await member.kill();
      await duration(random);
    },
  },
  {
    name: 'leader killed',
    make: async ({ cluster: { cluster } }) => {
      // The cluster has no leader if another fault has taken away the quorum.
      const leader = await cluster.leader({ timeoutMs: 1_000 }).catch(() => undefined);
      await leader?.kill();
    },
  },
  {
    name: 'quorum lost',
    make: async ({ cluster: { members } }, random) => {
      const survivor = pick(members, random);
      await Promise.all(members.filter((member) => member !== survivor).map((member) => member.kill()));
      await duration(random);
    },
  },
  {
    name: 'member paused',
    make: async ({ cluster: { members } }, random) => {
      pick(members, random).pause();
      await duration(random);
    },
  },
  {
    name: 'member partitioned',
    make: async ({ cluster: { cluster, members } }, random) => {
      await cluster.partition(pick(members, random));
      await duration(random);
    },
  },
  { name: 'event loop blocked', make: async ({ block }, random) => block(between(50, 2_000, random)) },
];
