import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../../src/index.js';
import type { EtcdCluster, EtcdMember } from '../../../src/testing/index.js';

// Faults of a whole cluster, for rows that judge them and for the measurement of what they interrupt.

/** Between two steps, so that a cluster and its clients settle. */
const SETTLE_MS = 500;
/** etcd gives up a request after 5 s and two election timeouts of 1 s, and a resumed leader makes its last ones then. */
const LATE_REVOKES_MS = 8_500;

/** Stops each member in good time and starts it again, one after the other. Gives how many. */
export async function restartEach({ members }: EtcdCluster): Promise<number> {
  for (const member of members) {
    await member.stop();
    await member.start();
    await pause(SETTLE_MS);
  }
  return members.length;
}

/** Moves the leadership to each other member in turn, and back. Gives how many times. */
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

/** Adds a member, and removes one that was there before: the leader or another. Gives how many changes. */
export async function replaceMember(cluster: EtcdCluster, leaves: 'leader' | 'follower'): Promise<number> {
  const added = await cluster.join();
  const leader = await cluster.leader();
  const followers = cluster.members.filter((member) => member !== leader && member !== added);
  const removed = leaves === 'leader' && leader !== added ? leader : followers[0];
  await cluster.remove(removed as EtcdMember);
  await cluster.leader();
  await pause(SETTLE_MS);
  return 2;
}

/** Pauses the leader for so long, and waits until it can revoke no lease of its former term any more. */
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
