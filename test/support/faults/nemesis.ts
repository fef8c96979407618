import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdProcess } from '../../../scripts/etcd/process.js';
import type { FaultProxy } from '../fault-proxy.js';
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
  if (random() < 0.5) await killed(member, pick(['SIGKILL', 'SIGTERM'], random));
  else await paused(member, 1_500 * random());
  await pause(500 * random());
};

export const FAULTS = {
  'connections break, and swallow what they are given': connections,
  'members are killed and paused, one at a time': members,
} satisfies Readonly<Record<string, Fault>>;

/** Makes one fault after the other until stopped; gives how many it made. */
export function unleash(fault: Fault, cluster: FaultyCluster, { random }: Round): { stop(): Promise<number> } {
  let wanted = true;
  const over = (async () => {
    let made = 0;
    for (; wanted; made += 1) await fault(cluster, random);
    return made;
  })();
  over.catch(() => {});
  return {
    stop: () => {
      wanted = false;
      return over;
    },
  };
}

async function swallowing(proxy: FaultProxy, what: 'to-server' | 'to-client' | 'blackhole', ms: number): Promise<void> {
  if (what === 'blackhole') proxy.blackhole();
  else proxy.oneWay(what);
  await pause(ms);
  proxy.heal();
}

async function killed(member: EtcdProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  await member.signal(signal);
  member.start();
  await member.ready();
}

async function paused(member: EtcdProcess, ms: number): Promise<void> {
  await member.signal('SIGSTOP');
  await pause(ms);
  await member.signal('SIGCONT');
}
