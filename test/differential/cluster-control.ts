import { startEtcd } from '../../scripts/etcd.js';
import { pause } from '../../src/base/timers.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import type { MemoryMember } from '../../src/testing/memory/memory-member.js';
import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { memory } from '../../src/testing/memory/transport.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import type { Transport } from '../../src/wire/transport.js';
import { storageVersionRaised } from '../support/storage-version.js';
import type { Access } from './access.js';
import { CONNECTION_OPTIONS, Connection, FAST, type Outcome, type Server } from './target.js';

/** The number of members of a cluster. */
export const MEMBERS = 3;
const POLL_MS = 20;
/** How long a cluster may take to elect a leader, or a member to start. */
const SETTLE_MS = 30_000;

/** What a sequence does to a cluster of three members. The members are named by their positions from 0. */
export interface ClusterControl {
  readonly name: string;
  readonly servers: readonly Server[];
  cutOff(position: number): Promise<void>;
  kill(position: number): Promise<void>;
  /** Ends all cuts, and starts the killed members. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** How often a call is repeated that a change of the leader has ended. */
const MOST_REPETITIONS = 5;
/** How long etcd refuses new members after a member has started or was cut off, in milliseconds: its `HealthInterval`. */
const UNHEALTHY_MS = 5_000;

/** A connection that repeats the calls that a cluster refuses only because it has just changed. */
class SteadyConnection extends Connection {
  override async unary(...call: Parameters<Connection['unary']>): Promise<Outcome> {
    const start = performance.now();
    for (let times = 0; ; times += 1) {
      const outcome = await super.unary(...call);
      const reason = outcome.error?.reason;
      const isElected = reason === 'LeaderChanged' && times < MOST_REPETITIONS;
      if (!isElected && (reason !== 'Unhealthy' || performance.now() > start + UNHEALTHY_MS)) return outcome;
      if (!isElected) await pause(POLL_MS);
    }
  }
}

function serversOf(transports: readonly Transport[]): Server[] {
  const called = new Set<string>();
  return transports.map((transport) => ({ connection: new SteadyConnection(transport), called, peerUrls: undefined }));
}

/** Returns a new `MemoryEtcd` with three members. */
export function memoryCluster(version: MemoryVersion): ClusterControl {
  const server = new MemoryEtcd({ members: MEMBERS, version });
  const at = (position: number): MemoryMember => server.members[position] as MemoryMember;
  const servers = serversOf(
    server.members.map((member) => memory(member)(parseEndpoint(member.endpoint, 'endpoint'), CONNECTION_OPTIONS)),
  );
  return {
    name: `MemoryEtcd ${version}`,
    servers,
    cutOff: async (position) => at(position).cutOff(),
    kill: async (position) => at(position).kill(),
    heal: async () => {
      for (const member of server.members) {
        member.heal();
        member.restart();
      }
    },
    close: async () => {
      await Promise.all(servers.map(({ connection }) => connection.close()));
      server.stop();
    },
  };
}

/** Starts a real cluster of three members. */
export async function realCluster(version: MemoryVersion): Promise<ClusterControl> {
  const etcd = await startEtcd({ version, members: MEMBERS, peerProxies: true, args: FAST });
  const { cluster } = etcd;
  if (cluster === undefined) throw new Error('the differential test kills members, so it needs a cluster of its own');
  await storageVersionRaised(etcd.endpoints);
  const at = (position: number): EtcdMember => cluster.members[position] as EtcdMember;
  const servers = serversOf(
    cluster.members.map(({ endpoint }) => defaultTransport(parseEndpoint(endpoint, 'endpoint'), CONNECTION_OPTIONS)),
  );
  return {
    name: `etcd ${etcd.version ?? version}`,
    servers,
    cutOff: (position) => cluster.partition(at(position)),
    kill: async (position) => void (await at(position).kill()),
    heal: () => cluster.heal(),
    close: async () => {
      await Promise.all(servers.map(({ connection }) => connection.close()));
      await etcd.close();
    },
  };
}

/**
 * Waits until the members that are reachable have a leader, and a member that is cut off has none. Then makes the member
 * at `leader` the leader, so that two clusters have the same leader.
 */
export async function settle(
  { name }: ClusterControl,
  access: Access,
  leader: number,
  isLostCutOff = false,
): Promise<void> {
  const statusOf = async (position: number): Promise<Status | undefined> =>
    (await access.callAsRoot('maintenance.status', {}, position)).messages[0] as Status | undefined;
  const { lost, reachable } = access;
  const deadline = performance.now() + SETTLE_MS;
  for (; performance.now() < deadline; await pause(POLL_MS)) {
    const statuses = await Promise.all(reachable.map(statusOf));
    const [first] = statuses;
    const current = reachable[statuses.findIndex((status) => status?.header.memberId === first?.leader)];
    if (first === undefined || current === undefined) continue;
    if (statuses.some((status) => status?.leader !== first.leader)) continue;
    if (isLostCutOff && (await statusOf(lost as number))?.leader !== 0n) continue;
    if (current === leader) {
      // All members must have applied the empty entry of the new leader.
      const reads = reachable.map((position) => access.callAsRoot('kv.range', { key: KEY }, position));
      if ((await Promise.all(reads)).every(({ error }) => error === undefined)) return;
      continue;
    }
    const targetId = statuses[reachable.indexOf(leader)]?.header.memberId;
    await access.callAsRoot('maintenance.moveLeader', { targetId }, current);
  }
  throw new Error(`${name} has not settled within ${SETTLE_MS} ms`);
}

interface Status {
  readonly leader: bigint;
  readonly header: { readonly memberId: bigint };
}

const KEY = Uint8Array.of(0x7e);
