import { invalidInput } from '../../errors/etcd-error.js';
import type { KeyValue } from '../../gen/mvccpb/kv.js';
import { type LeaseLike, leaseIdOf } from '../../lease/lease-id.js';
import {
  checkCan,
  checkFunction,
  checkMs,
  checkName,
  checkOptions,
  checkPositive,
  checkPositiveCount,
  reading,
  show,
} from '../../runtime/arguments.js';
import { textOf } from '../../runtime/bytes.js';
import { environment } from '../../runtime/environment.js';
import type { Page, Query } from '../http1-server/server.js';
import { registerAuth } from './auth-service.js';
import { type Clock, checkClock, realTime } from './clock.js';
import { registerCluster } from './cluster-service.js';
import { registerConcurrency } from './concurrency-service.js';
import { registerHealth } from './health-service.js';
import { registerKv } from './kv-service.js';
import { registerLease } from './lease-service.js';
import { registerMaintenance } from './maintenance-service.js';
import { Member } from './member.js';
import { type Route, Router } from './service.js';
import { type MemberSettings, type MemoryVersion, maxMessageBytes } from './settings.js';
import { parseSnapshot, restoreSnapshot, takeSnapshot } from './snapshot.js';
import { statusPage } from './status-pages.js';
import { registerWatch } from './watch-service.js';

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
  /** Name of the member. Default: `default`. */
  readonly name?: string | undefined;
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
  version: checkVersion,
  clock: checkClock,
  random: checkFunction,
  name: checkName,
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

const VERSIONS: readonly MemoryVersion[] = ['3.5', '3.6', '3.7'];
const GIB = 1_073_741_824;

/**
 * The URL that stands for a server in this process. It is a Unix URL, because credentials are allowed on Unix sockets
 * without TLS, and because no host name or port exists.
 */
const ENDPOINT = 'unix:///memory-etcd';

/**
 * One etcd member in the memory of this process, for tests: not durable, not clustered, not fast under load. Apart from
 * the differences that docs/testing.md lists, it answers all RPCs as a real member does, with the same revisions,
 * errors, watches, leases, locks and users.
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
  /** URL of the server, as clients see it in errors and in the member list. */
  readonly endpoint: string = ENDPOINT;
  /** @internal The state of the server. */
  readonly member: Member;
  readonly #router = new Router();
  /** The functions that end the open connections, one for each connection. */
  readonly #connections = new Set<() => void>();
  #running = true;

  /** @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range. */
  constructor(options: MemoryEtcdOptions = {}) {
    this.member = new Member(settingsOf(options, this.endpoint));
    registerKv(this.#router, this.member);
    registerWatch(this.#router, this.member);
    registerLease(this.#router, this.member);
    registerCluster(this.#router, this.member);
    registerMaintenance(this.#router, this.member);
    registerAuth(this.#router, this.member);
    registerConcurrency(this.#router, this.member, this);
    registerHealth(this.#router);
  }

  /** The revision of the store. */
  get revision(): bigint {
    return this.member.store.revision;
  }

  /**
   * Maximum length in bytes of a message that the server receives.
   *
   * @internal
   */
  get maxMessageBytes(): number {
    return maxMessageBytes(this.member.settings);
  }

  /** Whether the server accepts connections. */
  get running(): boolean {
    return this.#running;
  }

  /**
   * Expires a lease now, before the end of its TTL: deletes the lease and its keys. `lease` is the ID of the lease, a
   * `Lease`, `KeepAlive` or `Session`, or the lock that depends on the lease: a `Held` or a `Leadership`.
   *
   * @throws EtcdError with reason `InvalidInput` if the server has no such lease.
   *
   * @example
   * server.expireLease(session); // The locks of the session go to the next waiters.
   */
  expireLease(lease: LeaseLike | HeldLock): void {
    const isObject = typeof lease === 'object' && lease !== null;
    const isHeld = isObject && reading(lease, 'lease', () => 'token' in lease);
    const id = isHeld ? this.#leaseOf(lease as HeldLock) : leaseIdOf(lease as LeaseLike, 'lease');
    if (id !== undefined && this.member.leases.expire(id)) return;
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
   * lease expires while the server is stopped.
   */
  stop(): void {
    this.#running = false;
    this.member.epoch += 1;
    this.member.leases.suspend();
    for (const end of [...this.#connections]) end();
    this.#connections.clear();
  }

  /**
   * Accepts connections again after `stop`. As after the start of a process, the keys, leases and users are the same,
   * all leases get their full TTL, and tokens are no longer valid.
   */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    this.member.raftTerm += 1n;
    this.member.leases.renewAll();
    this.member.auth.tokens.reset();
    this.member.alarms.restart();
    this.member.keyHashes.reset();
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
    restoreSnapshot(this.member, parsed);
    this.start();
  }

  /**
   * Registers a connection. The server calls `lost` when it stops. Returns a function that unregisters the connection,
   * or undefined if the server is stopped.
   *
   * @internal
   */
  connect(lost: () => void): (() => void) | undefined {
    if (!this.#running) return undefined;
    this.#connections.add(lost);
    return () => void this.#connections.delete(lost);
  }

  /**
   * Adds the URL of a port to the member list. Returns a function that removes it.
   *
   * @internal
   */
  advertise(url: string): () => void {
    const { listenUrls } = this.member.membership;
    listenUrls.add(url);
    return () => void listenUrls.delete(url);
  }

  /**
   * Returns the handler of a method.
   *
   * @throws StatusError with status `Unimplemented` if the server does not implement the method.
   *
   * @internal
   */
  find(path: string): Route {
    const route = this.#router.find(path);
    this.member.counters.called(path);
    return route;
  }

  /**
   * The major version of grpc-gateway in the version of etcd.
   *
   * @internal
   */
  get gatewayErrors(): 1 | 2 {
    return this.member.settings.version === '3.5' ? 1 : 2;
  }

  /**
   * Returns a page that the member shows over HTTP/1.1, such as `/health`, or undefined if the member has no page at
   * the path.
   *
   * @internal
   */
  page(method: string, path: string, query: Query): Page | undefined {
    return statusPage(this.member, this.#router.paths, method, path, query);
  }
}

/** @throws EtcdError with reason `InvalidInput` if the value is not a `MemoryEtcd`. */
export function checkServer(server: MemoryEtcd): void {
  checkCan(server, 'expireLease', 'server', 'a MemoryEtcd: new MemoryEtcd()');
}

function settingsOf(options: MemoryEtcdOptions, endpoint: string): MemberSettings {
  checkOptions(options, OPTIONS, 'MemoryEtcd');
  const {
    version = '3.6',
    clock = realTime,
    random = () => environment.Math.random(),
    name = 'default',
    maxTxnOps = 128,
    maxRequestBytes = 1_572_864,
    quotaBytes = 2 * GIB,
    tokenTtlSeconds = 300,
    progressIntervalMs = 600_000,
  } = options;
  return {
    ...{ version, clock, random, name, endpoint, maxTxnOps, maxRequestBytes, quotaBytes },
    ...{ tokenTtlSeconds, progressIntervalMs },
  };
}

function checkVersion(version: MemoryVersion, argument: string): void {
  if (!VERSIONS.includes(version))
    throw invalidInput(argument, typeof version === 'string' ? `"${version}"` : show(version), VERSIONS.join(', '));
}
