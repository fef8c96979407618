import type { Page, Query } from '../http1-server/server.js';
import { registerAuth } from './auth-service.js';
import { registerCluster } from './cluster-service.js';
import { describeCommand } from './command.js';
import { registerConcurrency } from './concurrency-service.js';
import { registerHealth } from './health-service.js';
import { registerKv } from './kv-service.js';
import { GuardedRouter } from './leader-guard.js';
import { registerLease } from './lease-service.js';
import { registerMaintenance } from './maintenance-service.js';
import type { Member } from './member.js';
import type { Replica } from './replica.js';
import { type Route, Router } from './service.js';
import { maxMessageBytes } from './settings.js';
import { statusPage } from './status-pages.js';
import { registerWatch } from './watch-service.js';

/** An entry of the log of a member. */
export interface RaftEntry {
  readonly index: number;
  readonly term: number;
  /** What the entry does, such as `put color`. Empty for the entry with which a leader begins its term. */
  readonly text: string;
}

/** The raft of a member, for programs that show or check it. The names are those of the paper. */
export interface RaftView {
  /** A `pre-candidate` has not heard from a leader, and asks whether it could win an election. */
  readonly role: 'follower' | 'pre-candidate' | 'candidate' | 'leader';
  readonly term: number;
  /** The name of the member that has got the vote of this member in the term. */
  readonly votedFor: string | undefined;
  /** The name of the leader that this member knows. */
  readonly leader: string | undefined;
  /** The names of the members that have voted for this member, while it is a candidate or a pre-candidate. */
  readonly votes: readonly string[];
  readonly log: readonly RaftEntry[];
  readonly commitIndex: number;
  readonly lastApplied: number;
  /** What a leader knows of the other members, by their names. Empty unless the member is the leader. */
  readonly followers: ReadonlyMap<string, { readonly nextIndex: number; readonly matchIndex: number }>;
}

/**
 * One member of a `MemoryEtcd`. It can be killed, restarted, and cut off from the other members.
 *
 * @example
 * const server = new MemoryEtcd({ members: 3 });
 * server.leader?.kill(); // The other two members elect a leader after one to two seconds.
 * for (const { name, raft } of server.members) console.log(name, raft?.role, raft?.term);
 */
export class MemoryMember {
  /** The name of the member, as the member list shows it. */
  readonly name: string;
  /** URL of the member, as clients see it in errors and in the member list. */
  readonly endpoint: string;
  /** @internal The state of the member. */
  readonly state: Member;
  readonly #router: Router;
  readonly #replica: Replica | undefined;
  /** Returns the names of all members, by their node IDs. */
  readonly #names: readonly string[];
  /** The functions that end the open connections, one for each connection. */
  readonly #connections = new Set<() => void>();
  #running = true;

  /** @internal `replica` is undefined if the member is alone. */
  constructor(state: Member, names: readonly string[], replica?: Replica) {
    const { settings } = state;
    this.state = state;
    this.name = settings.name;
    this.endpoint = settings.endpoint;
    this.#names = names;
    this.#replica = replica;
    this.#router = replica === undefined ? new Router() : guardedBy(replica, state);
    registerKv(this.#router, state);
    registerWatch(this.#router, state);
    registerLease(this.#router, state);
    registerCluster(this.#router, state);
    registerMaintenance(this.#router, state);
    registerAuth(this.#router, state);
    registerConcurrency(this.#router, state, this);
    registerHealth(this.#router);
  }

  /** Whether the member accepts connections. */
  get running(): boolean {
    return this.#running;
  }

  /** Whether the member considers itself the leader. A member that is alone always does. */
  get isLeader(): boolean {
    return this.#running && (this.#replica === undefined || this.#replica.raft.role === 'leader');
  }

  /** Whether `cutOff` is in effect. */
  get isCutOff(): boolean {
    return this.#replica?.isCutOff ?? false;
  }

  /** The raft of the member as it is now. Undefined if the member is alone, because it then has none. */
  get raft(): RaftView | undefined {
    if (this.#replica === undefined) return undefined;
    const { role, term, votedFor, leader, votes, log, commitIndex, lastApplied, progress } = this.#replica.raft;
    const nameOf = (id: number): string => this.#names[id] as string;
    return {
      role,
      term,
      votedFor: votedFor === undefined ? undefined : nameOf(votedFor),
      leader: leader === undefined ? undefined : nameOf(leader),
      votes: [...votes].map(nameOf),
      log: log.map((entry, at) => ({
        index: at + 1,
        term: entry.term,
        text: entry.command === undefined ? '' : describeCommand(entry.command.command),
      })),
      commitIndex,
      lastApplied,
      followers: new Map(
        [...progress].map(([id, { nextIndex, matchIndex }]) => [nameOf(id), { nextIndex, matchIndex }]),
      ),
    };
  }

  /**
   * Calls `listener` when the role, the term or the leader of the member has changed. Returns a function that ends the
   * calls.
   *
   * @internal
   */
  onRaftChange(listener: () => void): () => void {
    return this.#replica?.onChange(listener) ?? (() => {});
  }

  /**
   * Ends all connections, as if the process had been killed. The member refuses connections until `restart`. The log,
   * the term, the vote and the keys survive.
   */
  kill(): void {
    if (!this.#running) return;
    this.#running = false;
    this.state.epoch += 1;
    this.state.leases.suspend();
    this.#replica?.stop();
    for (const end of [...this.#connections]) end();
    this.#connections.clear();
  }

  /**
   * Accepts connections again after `kill`. As after the start of a process, tokens are no longer valid, and all leases
   * get their full TTL when the cluster has a leader.
   */
  restart(): void {
    if (this.#running) return;
    this.#running = true;
    this.state.auth.tokens.reset();
    this.state.alarms.restart();
    this.state.keyHashes.reset();
    if (this.#replica !== undefined) return this.#replica.start();
    this.state.raftTerm += 1n;
    this.state.leases.renewAll();
  }

  /**
   * Cuts the network between this member and the other members. Clients still reach the member. A leader that is cut
   * off stops leading after a second, because it does not hear from a majority. Does nothing if the member is alone.
   */
  cutOff(): void {
    this.#replica?.cutOff();
  }

  /** Ends the effect of `cutOff`. */
  heal(): void {
    this.#replica?.heal();
  }

  /**
   * Empties the log, before the state is replaced by a backup. The member must be stopped.
   *
   * @internal
   */
  discardLog(): void {
    this.#replica?.discardLog();
  }

  /**
   * Maximum length in bytes of a message that the member receives.
   *
   * @internal
   */
  get maxMessageBytes(): number {
    return maxMessageBytes(this.state.settings);
  }

  /**
   * Registers a connection. The member calls `lost` when it stops. Returns a function that unregisters the connection,
   * or undefined if the member is stopped.
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
    const { listenUrls } = this.state.membership;
    listenUrls.add(url);
    return () => void listenUrls.delete(url);
  }

  /**
   * Returns the handler of a method.
   *
   * @throws StatusError with status `Unimplemented` if the member does not implement the method.
   *
   * @internal
   */
  find(path: string): Route {
    const route = this.#router.find(path);
    this.state.counters.called(path);
    return route;
  }

  /**
   * The major version of grpc-gateway in the version of etcd.
   *
   * @internal
   */
  get gatewayErrors(): 1 | 2 {
    return this.state.settings.version === '3.5' ? 1 : 2;
  }

  /**
   * Returns a page that the member shows over HTTP/1.1, such as `/health`, or undefined if the member has no page at
   * the path.
   *
   * @internal
   */
  page(method: string, path: string, query: Query): Page | undefined {
    return statusPage(this.state, this.#router.paths, method, path, query);
  }
}

function guardedBy(replica: Replica, { settings: { clock } }: Member): Router {
  const router = new GuardedRouter(clock, () => replica.leaderId !== 0n);
  replica.onChange(() => router.leaderChanged());
  return router;
}
