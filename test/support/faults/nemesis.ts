import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdMember, FaultProxy } from '../../../src/testing/index.js';
import type { FaultyCluster } from './cluster.js';
import { pick, type Round } from './rounds.js';

/** One fault and its end. */
type Fault = (cluster: FaultyCluster, random: () => number) => Promise<void>;

const connections: Fault = async ({ proxies }, random) => {
  const proxy = pick(proxies, random);
  const verb = pick(['dropConnections', 'reset', 'to-server', 'to-client', 'blackhole'] as const, random);
  if (verb === 'dropConnections' || verb === 'reset') proxy[verb]();
  else await swallowing(proxy, verb, 200 * random());
  await pause(60 * random());
};

/** Quorum is there all the time: one member at a time. */
const members: Fault = async ({ etcd: { processes } }, random) => {
  const member = pick(processes, random);
  if (random() < 0.5) await restarted(member, pick(['kill', 'stop'], random));
  else await paused(member, 1_500 * random());
  await pause(500 * random());
};

/** Kinds of faults, and how many of them a round has. */
export const FAULTS: readonly { readonly what: string; readonly fault: Fault; readonly count: number }[] = [
  { what: 'connections break, and swallow what they are given', fault: connections, count: 30 },
  { what: 'members are killed and paused, one at a time', fault: members, count: 5 },
];

/** Makes so many faults, one after the other. */
export async function makeFaults(
  { fault, count }: (typeof FAULTS)[number],
  cluster: FaultyCluster,
  { random }: Round,
): Promise<void> {
  for (let made = 0; made < count; made += 1) await fault(cluster, random);
}

async function swallowing(proxy: FaultProxy, what: 'to-server' | 'to-client' | 'blackhole', ms: number): Promise<void> {
  if (what === 'blackhole') proxy.blackhole();
  else proxy.oneWay(what);
  await pause(ms);
  proxy.heal();
}

async function restarted(member: EtcdMember, end: 'kill' | 'stop'): Promise<void> {
  await member[end]();
  await member.start();
}

async function paused(member: EtcdMember, ms: number): Promise<void> {
  member.pause();
  await pause(ms);
  member.resume();
}
