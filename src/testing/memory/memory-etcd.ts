import {
  checkCan,
  checkFunction,
  checkMs,
  checkName,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  environment,
  invalidInput,
  textOf,
} from '../../base/index.js';
import { type LeaseLike, leaseIdOf } from '../../client/index.js';
import type { KeyValue } from '../../gen/mvccpb/kv.js';
import { RELEASES, versionIn } from '../etcd/versions.js';
import { type Clock, checkClock, realTime } from './clock.js';
import { type Cluster, startCluster } from './cluster.js';
import { Member } from './member.js';
import { MemoryMember } from './memory-member.js';
import type { MemberSettings, MemoryVersion } from './settings.js';
import { parseSnapshot, restoreSnapshot, takeSnapshot } from './snapshot.js';

/** Options of a `MemoryEtcd`. */
export interface MemoryEtcdOptions {
  /** The minor version of etcd whose behavior the server shows. Default: `3.6`. */
  readonly version?: MemoryVersion | undefined;
  /** The clock of leases, tokens, progress notifications and downgrades. Default: the real time. */
  readonly clock?: Clock | undefined;
  /**
   * Returns a random number from 0 to below 1. Used for IDs, tokens and the salts of password hashes. Default:
   * `Math.random`.
   */
  readonly random?: (() => number) | undefined;
  /** Name of the member. With several members, each name also has a number. Default: `default`, or `m0`, `m1`, `m2`. */
  readonly name?: string | undefined;
  /** Number of members. Several members agree by raft. Default: 1. */
  readonly members?: number | undefined;
  /** Maximum number of operations in a transaction. Default: 128. */
  readonly maxTxnOps?: number | undefined;
  /** Maximum size of a request in bytes. Default: 1,572,864. */
  readonly maxRequestBytes?: number | undefined;
  /** Maximum size of the database in bytes. Default: 2 GiB. */
  readonly quotaBytes?: number | undefined;
  /** Time in seconds after which an unused authentication token becomes invalid. Default: 300. */
  readonly tokenTtlSeconds?: number | undefined;
  /** Interval in milliseconds of the progress notifications of watches. Default: 600,000. */
  readonly progressIntervalMs?: number | undefined;
}

const OPTIONS = {
  version: versionIn(Object.keys(RELEASES)),
  clock: checkClock,
  random: checkFunction,
  name: checkName,
  members: checkPositiveCount,
  maxTxnOps: checkPositiveCount,
  maxRequestBytes: checkPositiveCount,
  quotaBytes: checkPositiveCount,
  tokenTtlSeconds: (value: number, argument: string) => checkPositive(value, argument, 'seconds'),
  progressIntervalMs: checkMs,
} as const;

/** A lock that is held: a `Held` or a `Leadership`. */
interface HeldLock {
  readonly key: string;
  readonly token: bigint;
}

const GIB = 1_073_741_824;

/**
 * The URL that stands for a server in this process. It is a Unix URL, because credentials are allowed on Unix sockets
 * without TLS, and because no host name or port exists.
 */
const ENDPOINT = 'unix:///memory-etcd';

/**
 * An etcd in the memory of this process, for tests: one member, or a cluster of several members. It is neither durable
 * nor fast under load. Apart from the differences that docs/testing.md lists, it answers all RPCs as a real etcd does,
 * with the same revisions, errors, watches, leases, locks and users.
 *
 * A client reaches the server in one of three ways: with the transport `memory(server)`, which passes messages; with
 * the transport `memoryOverHttp2(server)`, which passes HTTP/2 frames inside this process; or at a port that `listen`
 * opens.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { MemoryEtcd, memory } from 'etcdwire/testing';
 *
 * const server = new MemoryEtcd();
 * await using etcd = new Client({ transport: memory(server) });
 * await etcd.put('config/color', 'blue');
 * console.log((await etcd.get('config/color'))?.text()); // blue
 */
export class MemoryEtcd {
  /** The members. A cluster starts with a leader. */
  readonly members: readonly MemoryMember[];
  /** @internal The network between the members. Undefined with one member. */
  readonly network: Cluster['network'] | undefined;

  /** @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range. */
  constructor(options: MemoryEtcdOptions = {}) {
    const settings = settingsOf(options);
    const [first] = settings as [MemberSettings];
    if (settings.length === 1) this.members = [new MemoryMember(new Member(first), [first.name])];
    else ({ members: this.members, network: this.network } = startCluster(settings, first.clock, first.random));
  }

  /** URL of the server, as clients see it in errors and in the member list. With several members: of the first one. */
  get endpoint(): string {
    return this.first.endpoint;
  }

  /**
   * The running leader. Undefined if there is none. A member that has been cut off may still consider itself the leader
   * for a second; if there are two leaders, this is the one with the higher term.
   */
  get leader(): MemoryMember | undefined {
    const leaders = this.members.filter(({ isLeader }) => isLeader);
    return leaders.sort((a, b) => (a.raft?.term ?? 0) - (b.raft?.term ?? 0)).at(-1);
  }

  /** The revision of the store. With several members: the highest revision. */
  get revision(): bigint {
    return this.member.store.revision;
  }

  /** Whether the server accepts connections: whether at least one member runs. */
  get running(): boolean {
    return this.members.some(({ running }) => running);
  }

  /** @internal The state of the server. With several members: of the member that has applied the most. */
  get member(): Member {
    // A leader has applied at least as much as its followers.
    let latest = (this.leader ?? this.first).state;
    for (const { state } of this.members) if (state.raftIndex > latest.raftIndex) latest = state;
    return latest;
  }

  /** @internal The first member, or the only one. */
  get first(): MemoryMember {
    return this.members[0] as MemoryMember;
  }

  /**
   * Expires a lease now, before the end of its TTL: deletes the lease and its keys. `lease` is the ID of the lease, a
   * `Lease`, `KeepAlive` or `Session`, or the lock that depends on the lease: a `Held` or a `Leadership`. With several
   * members, the lease ends when the leader has committed its revocation.
   *
   * @throws EtcdError with reason `InvalidInput` if the server has no such lease.
   *
   * @example
   * server.expireLease(session); // The locks of the session go to the next waiters.
   */
  expireLease(lease: LeaseLike | HeldLock): void {
    const isObject = typeof lease === 'object' && lease !== null;
    const isHeld = isObject && 'token' in lease;
    const id = isHeld ? this.#leaseOf(lease as HeldLock) : leaseIdOf(lease as LeaseLike, 'lease');
    if (id !== undefined && (this.leader?.state ?? this.member).leases.expire(id)) return;
    const given = isHeld ? 'a lock whose key does not exist' : `the lease ${id?.toString(16)}, which does not exist`;
    throw invalidInput('lease', given, 'a lease that exists');
  }

  /** Returns the lease of the key of a lock. A namespace may have put a prefix before the key. */
  #leaseOf({ key, token }: HeldLock): bigint | undefined {
    const { leases, store } = this.member;
    const isOf = (kv: KeyValue | undefined): boolean =>
      kv !== undefined && kv.createRevision === token && textOf(kv.key).endsWith(key);
    return leases.ids.find((id) => store.keysOf(id).some((own) => isOf(store.get(own))));
  }

  /**
   * Ends all connections, as if the process had been killed. The server refuses connections until `start` is called. No
   * lease expires while the server is stopped. Kills all members, if there are several.
   */
  stop(): void {
    for (const member of this.members) member.kill();
  }

  /**
   * Accepts connections again after `stop`. As after the start of a process, the keys, leases and users are the same,
   * all leases get their full TTL, and tokens are no longer valid. Several members need an election first.
   */
  start(): void {
    for (const member of this.members) member.restart();
  }

  /**
   * Returns a copy of the keys with their history, the leases, the users and the alarms, for `restore`. The bytes are
   * also what `maintenance.snapshot` downloads. Only a `MemoryEtcd` can read them.
   */
  snapshot(): Uint8Array {
    return takeSnapshot(this.member);
  }

  /**
   * Replaces all data by a snapshot, like an operator who restores a backup: ends all connections, discards all later
   * changes, and accepts connections again.
   *
   * @throws EtcdError with reason `InvalidInput` if the bytes are not a whole snapshot of a `MemoryEtcd`.
   *
   * @example
   * const backup = server.snapshot();
   * await etcd.put('color', 'blue');
   * server.restore(backup); // The put is lost.
   */
  restore(snapshot: Uint8Array): void {
    const parsed = parseSnapshot(snapshot);
    this.stop();
    for (const member of this.members) {
      member.discardLog();
      restoreSnapshot(member.state, parsed);
    }
    this.start();
  }
}

/**
 * Returns the members that clients of a server reach.
 *
 * @throws EtcdError with reason `InvalidInput` if the value is neither a `MemoryEtcd` nor one of its members.
 */
export function membersOf(server: MemoryEtcd | MemoryMember): readonly MemoryMember[] {
  const isWhole = (server as Partial<MemoryEtcd> | null | undefined)?.expireLease !== undefined;
  if (isWhole) return (server as MemoryEtcd).members;
  return [checkCan(server as MemoryMember, 'advertise', 'server', 'a MemoryEtcd: new MemoryEtcd()')];
}

/** Returns the settings of each member. */
function settingsOf(options: MemoryEtcdOptions): MemberSettings[] {
  checkOptions(options, OPTIONS, 'MemoryEtcd');
  const {
    version = '3.6',
    clock = realTime,
    random = () => environment.Math.random(),
    members = 1,
    maxTxnOps = 128,
    maxRequestBytes = 1_572_864,
    quotaBytes = 2 * GIB,
    tokenTtlSeconds = 300,
    progressIntervalMs = 600_000,
  } = options;
  const common = {
    ...{ version, clock, random, maxTxnOps, maxRequestBytes, quotaBytes },
    ...{ tokenTtlSeconds, progressIntervalMs },
  };
  if (members === 1) return [{ ...common, name: options.name ?? 'default', endpoint: ENDPOINT }];
  return Array.from({ length: members }, (_, index) => {
    const name = options.name === undefined ? `m${index}` : `${options.name}-${index}`;
    return { ...common, name, endpoint: `${ENDPOINT}-${index}` };
  });
}
