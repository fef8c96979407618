import { startEtcd } from '../../scripts/etcd.js';
import { pause } from '../../src/base/timers.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import type { MemoryMember } from '../../src/testing/memory/memory-member.js';
import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { memory } from '../../src/testing/memory/transport.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import { storageVersionRaised } from '../support/storage-version.js';
import { CONNECTION_OPTIONS, Connection } from './target.js';

/** The number of members of a cluster. */
export const MEMBERS = 3;
const POLL_MS = 20;
/** How long a cluster may take to elect a leader, or a member to start. */
const SETTLE_MS = 30_000;

/** What a sequence does to a cluster of three members. The members are named by their positions from 0. */
export interface ClusterControl {
  readonly name: string;
  readonly connections: readonly Connection[];
  cutOff(position: number): Promise<void>;
  kill(position: number): Promise<void>;
  /** Ends all cuts, and starts the killed members. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** Returns a new `MemoryEtcd` with three members. */
export function memoryCluster(version: MemoryVersion): ClusterControl {
  const server = new MemoryEtcd({ members: MEMBERS, version });
  const at = (position: number): MemoryMember => server.members[position] as MemoryMember;
  const connections = server.members.map(
    (member) => new Connection(memory(member)(parseEndpoint(member.endpoint, 'endpoint'), CONNECTION_OPTIONS)),
  );
  return {
    name: `MemoryEtcd ${version}`,
    connections,
    cutOff: async (position) => at(position).cutOff(),
    kill: async (position) => at(position).kill(),
    heal: async () => {
      for (const member of server.members) {
        member.heal();
        member.restart();
      }
    },
    close: async () => {
      await Promise.all(connections.map((connection) => connection.close()));
      server.stop();
    },
  };
}

/** Starts a real cluster of three members. */
export async function realCluster(version: MemoryVersion): Promise<ClusterControl> {
  const etcd = await startEtcd({ version, members: MEMBERS, peerProxies: true });
  const { cluster } = etcd;
  if (cluster === undefined) throw new Error('the differential test kills members, so it needs a cluster of its own');
  await storageVersionRaised(etcd.endpoints);
  const at = (position: number): EtcdMember => cluster.members[position] as EtcdMember;
  const connections = cluster.members.map(
    ({ endpoint }) => new Connection(defaultTransport(parseEndpoint(endpoint, 'endpoint'), CONNECTION_OPTIONS)),
  );
  return {
    name: `etcd ${etcd.version ?? version}`,
    connections,
    cutOff: (position) => cluster.partition(at(position)),
    kill: async (position) => void (await at(position).kill()),
    heal: () => cluster.heal(),
    close: async () => {
      await Promise.all(connections.map((connection) => connection.close()));
      await etcd.close();
    },
  };
}

interface Status {
  readonly leader: bigint;
  readonly header: { readonly memberId: bigint };
}

/** Returns the status of a member, or undefined if the member does not answer. */
async function statusOf(connection: Connection): Promise<Status | undefined> {
  const { messages } = await connection.unary('maintenance.status', {});
  return messages[0] as unknown as Status | undefined;
}

/**
 * Waits until the members at `connected` have a leader, and all other members at `lonely` have none. Then makes the
 * member at `leader` the leader, so that two clusters have the same leader.
 */
export async function settle(
  { connections, name }: ClusterControl,
  connected: readonly number[],
  lonely: readonly number[],
  leader: number,
): Promise<void> {
  const deadline = performance.now() + SETTLE_MS;
  const at = (position: number): Connection => connections[position] as Connection;
  const wanted = await statusOf(at(leader));
  for (; performance.now() < deadline; await pause(POLL_MS)) {
    const statuses = await Promise.all(connected.map((position) => statusOf(at(position))));
    const others = await Promise.all(lonely.map((position) => statusOf(at(position))));
    const [first] = statuses;
    const isSettled =
      first !== undefined &&
      statuses.every((status) => status?.leader === first.leader) &&
      statuses.some((status) => status?.header.memberId === first.leader) &&
      others.every((status) => status?.leader === 0n);
    if (!isSettled) continue;
    if (first.leader === wanted?.header.memberId) {
      // All members must have applied the empty entry of the new leader.
      const reads = await Promise.all(connected.map((position) => at(position).unary('kv.range', { key: KEY })));
      if (reads.every(({ error }) => error === undefined)) return;
      continue;
    }
    const current = connected[statuses.findIndex((status) => status?.header.memberId === first.leader)] as number;
    await at(current).unary('maintenance.moveLeader', { targetId: wanted?.header.memberId ?? 0n });
  }
  throw new Error(`${name} has not settled within ${SETTLE_MS} ms`);
}

const KEY = Uint8Array.of(0x7e);
