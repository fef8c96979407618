import { environment } from '../../src/base/environment.js';
import { EtcdError, pause, textOf } from '../../src/base/index.js';
import type { LeaseKeepAliveRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { EventType } from '../../src/gen/mvccpb/kv.js';
import { Client, type ClientOptions, op } from '../../src/index.js';
import { type Held, Session } from '../../src/locks.js';
import { MemoryEtcd } from '../../src/testing/index.js';
import type { KeyId } from '../../src/testing/memory/key-range.js';
import { compact, keyNamed, LEASES, leaseNamed, network, touchKey } from './network.js';
import { type Event, SERVER, type Unplanned, type World } from './world.js';

/** The TTL of all sessions, in seconds. */
export const TTL_S = 4;
/**
 * For how long a process stands still at least and at most, in milliseconds: longer than messages need, and longer than
 * the TTL.
 */
const FROZEN_MS = [1_000, 1_250 * TTL_S] as const;
/** For how long a closing client waits for the locks that it holds, in milliseconds. */
const DRAIN_MS = 1_000;
/** A logger without output, so that the client prints no warning of the network. */
const SILENT = { warn: () => {} };
/** The key that holders write through `held.txn`. Its value is the token of the holder. */
const FENCED = 'fenced';

/** What the judges of a history read and write. */
const JUDGE = 'judge';

/** A client in a process of its own, with a session. */
export interface Party {
  readonly name: string;
  readonly client: Client;
  readonly session: Session;
}

interface Holder {
  readonly name: string;
  readonly key: string;
  readonly token: bigint;
  readonly isShared: boolean;
  /** Whether the holder's client says that it still holds the lock. */
  readonly isValid: () => boolean;
}

/** What each party does, by its name. A history ends when all of them have resolved. */
export type Parts = ReadonlyMap<string, () => Promise<void>>;

/** What the explorer plays. */
export interface Scenario {
  readonly name: string;
  /** Opens the clients. All events until the promise resolves happen in one order. */
  prepare(arena: Arena): Promise<Parts>;
}

/** A server, the parties that use it, and the judges of a history. */
export class Arena {
  readonly world: World;
  readonly server: MemoryEtcd;
  /** The first rule that the history broke. */
  problem: string | undefined;
  /** The names of the parties that do the same. */
  alike: readonly string[] = [];
  #refusedLease: bigint | undefined;
  readonly #parties: Party[] = [];
  /** The parties that have not ended. */
  readonly #waiting = new Set<string>();
  /** Who holds the lock. A set, because a name may hold it several times, one after the other. */
  readonly #holders = new Set<Holder>();
  readonly #changes: { readonly key: string; readonly value: string | undefined; readonly revision: bigint }[] = [];
  /** The lease of each key that was put, by the key and its create revision. */
  readonly #leaseOf = new Map<string, bigint>();
  readonly #checks: (() => void)[] = [];
  #greatestToken = 0n;
  readonly #sharedTokens = new Set<bigint>();
  /** The leases that a fault has ended. */
  readonly #endedEarly = new Set<bigint>();
  /** The leases of the server, in the order of their grants. */
  readonly #leases: bigint[] = [];
  #leasesBefore: ReadonlySet<bigint> = new Set();

  constructor(world: World) {
    this.world = world;
    let ids = 0;
    this.server = new MemoryEtcd({
      // The numbers differ, because IDs of leases must.
      random: () => {
        ids = (ids + 0.618) % 1;
        return ids;
      },
      clock: {
        now: () => world.nowMs,
        after: (delayMs, action) => {
          // Not at the same time as a renewal: the time to live of a lease is three times as long as their distance.
          const timer = world.as(SERVER, () => environment.setTimeout(action, delayMs + 1));
          return () => environment.clearTimeout(timer);
        },
      },
    });
    this.#judgeCommits();
    world.addSource(() => this.#endsOfLeases());
  }

  /** Lets a compaction happen at any time, and not only before a request that reads at a past revision. */
  mayCompact(): void {
    this.addFault('a compaction', SERVER, () => compact(this.world, this.server));
  }

  /** Opens a client and a session for each name. */
  async open(names: readonly string[], options: Partial<ClientOptions> = {}): Promise<readonly Party[]> {
    for (const name of names) {
      const transport = network(this.world, this.server, name, (message) =>
        this.#refuses(message as Partial<LeaseKeepAliveRequest>),
      );
      // The promise callbacks that follow belong to the party, too.
      this.world.party = name;
      const client = new Client({ logger: SILENT, ...options, transport });
      const session = await Session.open(client, { ttl: TTL_S });
      this.#parties.push({ name, client, session });
      this.addFault(`${name} is killed`, name, () => this.world.kill(name));
      this.addFault(`${name} stands still`, name, () => this.world.freeze(name, ...FROZEN_MS));
      // Not a fault of the network, but the calls of the party fail as after one.
      this.addFault(`${name} closes its client`, name, () => void client.close({ drainMs: DRAIN_MS }));
    }
    return this.#parties;
  }

  /** Lets the server refuse to renew a lease, because the user may not write one of its keys. */
  refuse(lease: bigint): void {
    this.world.touch('refusal', 'write');
    this.#refusedLease = lease;
  }

  #refuses({ id }: Partial<LeaseKeepAliveRequest>): boolean {
    this.world.touch('refusal', 'read');
    return this.#refusedLease !== undefined && id === this.#refusedLease;
  }

  /** Starts the parties, one after the other. `settle` waits for the promise callbacks of each. */
  async start(parts: Parts, settle: () => Promise<void>): Promise<void> {
    for (const name of parts.keys()) this.#waiting.add(name);
    for (const [name, part] of parts) {
      this.world.party = name;
      part()
        .catch((error: unknown) => this.failed(name, error))
        .finally(() => this.#waiting.delete(name));
      await settle();
    }
  }

  /** The parties that have neither ended nor been killed. */
  get waiting(): readonly string[] {
    return [...this.#waiting].filter((name) => !this.world.isKilled(name));
  }

  /** Notes whether an event has changed the leases of the server. */
  noteLeases(): void {
    const leases = new Set(this.server.member.leases.ids);
    for (const id of [...leases, ...this.#leasesBefore]) {
      if (leases.has(id) && this.#leasesBefore.has(id)) continue;
      this.world.touch(leaseNamed(id), 'write');
      this.world.touch(LEASES, 'part');
    }
    this.#leasesBefore = leases;
  }

  /** Reports that the history breaks a rule. */
  breaks(problem: string): void {
    this.problem ??= problem;
  }

  /** Reports an error that the parties and the explorer do not expect. */
  failed(what: string, error: unknown): void {
    this.breaks(`${what} failed: ${error instanceof Error ? error.stack : error}`);
  }

  /** Adds a fault that happens at most once, in the process of a party or at the server. */
  addFault(label: string, at: string, action: () => void): void {
    this.#add(label, at, action, true);
  }

  /** Adds a decision of a program, such as a cancellation: an event that happens at any time, or never. */
  addDecision(label: string, at: string, action: () => void): void {
    this.#add(label, at, action, false);
  }

  /** Returns a fault for each lease of the server: its end before its time. */
  #endsOfLeases(): readonly (Event & Unplanned)[] {
    const { ids } = this.server.member.leases;
    this.#leases.push(...ids.filter((id) => !this.#leases.includes(id)));
    return ids.map((id) => {
      const action = (): void => {
        this.#endedEarly.add(id);
        this.world.as(SERVER, () => this.server.expireLease(id));
      };
      const place = this.#leases.indexOf(id);
      return {
        // The first leases are those of the sessions of the parties.
        label: `lease ${this.#parties[place]?.name ?? place + 1} ends`,
        at: SERVER,
        isFault: true,
        action,
      };
    });
  }

  #add(label: string, at: string, action: () => void, isFault: boolean): void {
    const event = { label, at, isFault, action: () => this.world.as(at, action) };
    const mayHappen = (): boolean => this.world.runs(at);
    this.world.addSource(() => (mayHappen() ? [event] : []));
  }

  /**
   * Lets a party hold a lock for a moment: it writes through the lock, and then releases it, unless the options say otherwise. Two
   * parties must not hold the lock at once, unless both hold it as readers.
   */
  async holds(
    name: string,
    held: Pick<Held, 'key' | 'token' | 'signal' | 'valid' | 'txn' | 'release'>,
    {
      isShared = false,
      isKept = false,
      writes = true,
      ms = 0,
    }: { readonly isShared?: boolean; readonly isKept?: boolean; readonly writes?: boolean; readonly ms?: number } = {},
  ): Promise<void> {
    const { token } = held;
    const holder = this.#enters({ name, key: held.key, token, isShared, isValid: () => held.valid() });
    // The answer may arrive after the lease of the party has ended, and later contenders have had the lock.
    if (!isShared && this.#exists(holder) && token <= this.#greatestToken)
      this.breaks(`the token of ${name} is ${token}, not greater than ${this.#greatestToken}`);
    if (token > this.#greatestToken) this.#greatestToken = token;
    if (isShared) this.#sharedTokens.add(token);
    if (ms > 0) await this.unlessFailed(pause(ms, held.signal));
    if (writes) await this.unlessFailed(held.txn({ then: [op.put(FENCED, String(token))] }));
    this.leaves(name, holder);
    if (!isKept) await this.unlessFailed(held.release());
  }

  /** Notes that a party that uses another client holds a key. */
  holdsKey(name: string, key: string, token: bigint, session: Session): void {
    this.#enters({ name, key, token, isShared: false, isValid: () => !session.signal.aborted });
  }

  /** Notes that a party no longer holds its locks, or this one. */
  leaves(name: string, only?: Holder): void {
    this.world.touch(JUDGE, 'write');
    for (const holder of this.#holders)
      if (holder.name === name && (only ?? holder) === holder) this.#holders.delete(holder);
  }

  #enters(holder: Holder): Holder {
    this.world.touch(JUDGE, 'write');
    for (const other of this.#holders)
      if (this.#isHeld(other) && this.#exists(holder) && !(holder.isShared && other.isShared))
        this.breaks(`${holder.name} holds the lock together with ${other.name}`);
    this.#holders.add(holder);
    return holder;
  }

  /** Waits for a call that may fail because of a fault or a decision, or if the caller says so. */
  async unlessFailed<T>(call: Promise<T>, { mayFail = false } = {}): Promise<T | undefined> {
    try {
      return await call;
    } catch (error) {
      if (!(error instanceof EtcdError) || (!mayFail && this.world.struck.length === 0)) throw error;
      return undefined;
    }
  }

  /** Adds a check that runs when all parties have ended. */
  atEnd(check: () => void): void {
    this.#checks.push(check);
  }

  /** Whether no fault has happened. Decisions may have. */
  get hasNoFault(): boolean {
    return this.faults.length === 0;
  }

  /** Whether no fault has ended a lease. */
  get keepsLeases(): boolean {
    return this.world.struck.every((label) => !label.startsWith('lease '));
  }

  /** The faults that have happened. */
  get faults(): readonly string[] {
    return this.world.struck.filter((label) => this.world.possible.get(label)?.isFault);
  }

  /** How often a key was put, also before its deletion. */
  putsOf(key: string): number {
    this.world.touch(keyNamed(key), 'read');
    return this.#changes.filter((change) => change.key === key && change.value !== undefined).length;
  }

  /** Checks how often a key was put, also before its deletion. */
  counts(key: string, least: number, most: number): void {
    const puts = this.putsOf(key);
    if (puts < least || puts > most) this.breaks(`${key} was put ${puts} times, and not ${least} to ${most} times`);
  }

  /** Checks that no key under a prefix was put more than once. */
  putsOnce(start: string): void {
    for (const { key } of this.#changes) if (key.startsWith(start)) this.counts(key, 0, 1);
  }

  hasLease(id: bigint): boolean {
    this.world.touch(leaseNamed(id), 'read');
    return this.server.member.leases.ids.includes(id);
  }

  /** Returns the value of a key now, or undefined if the key is missing. */
  valueOf(key: string): string | undefined {
    this.world.touch(keyNamed(key), 'read');
    const kv = this.server.member.store.get(key as KeyId);
    return kv && textOf(kv.value);
  }

  isMissing(key: string): void {
    if (this.valueOf(key) !== undefined) this.breaks(`${key} is left`);
  }

  /** Checks what a client has seen of the keys under a prefix: the keys and values that they had at this revision. */
  wasRange(start: string, revision: bigint, shown: readonly string[]): void {
    const truth = new Map<string, string>();
    for (const change of this.#changes)
      if (change.revision <= revision && change.key.startsWith(start)) {
        if (change.value === undefined) truth.delete(change.key);
        else truth.set(change.key, change.value);
      }
    const expected = [...truth].map(([key, value]) => `${key}=${value}`).sort();
    if (`${expected}` !== `${shown}`)
      this.breaks(`at revision ${revision}, the range was ${expected}, and not ${shown}`);
  }

  /** Closes the sessions and clients, and checks that nothing is left. */
  async end(): Promise<true> {
    for (const check of this.#checks) check();
    const alive = this.#parties.filter(({ name }) => !this.world.isKilled(name));
    // etcd ends the lease of a session that was lost.
    const kept = alive.filter(({ session }) => !session.signal.aborted);
    for (const { name, session, client } of alive) {
      this.world.party = name;
      await this.unlessFailed(session.close());
      this.world.party = name;
      await client.close({ drainMs: 0 });
    }
    const left = this.world.timers.filter((timer) => !timer.startsWith(SERVER));
    if (left.length > 0) this.breaks(`timers are left: ${left.join(', ')}`);
    const { ids } = this.server.member.leases;
    for (const { name, session } of kept)
      if (ids.includes(session.leaseId)) this.breaks(`the lease of ${name} is left`);
    return true;
  }

  /**
   * Whether a holder must not believe that it still holds the lock when another one enters. A holder that was killed or
   * stands still believes nothing, and one whose lease a fault has ended early cannot know.
   */
  #isHeld(holder: Holder): boolean {
    const { name, key, token, isValid } = holder;
    this.world.touch(name, 'write');
    if (!this.world.runs(name)) return false;
    const lease = this.#leaseOf.get(`${key} ${token}`) as bigint;
    if (!this.#exists(holder) && this.#endedEarly.has(lease)) return false;
    return this.world.as(name, isValid);
  }

  #exists({ key, token }: Holder): boolean {
    this.world.touch(keyNamed(key), 'read');
    return this.server.member.store.get(key as KeyId)?.createRevision === token;
  }

  /** Notes each change, and checks each write through a lock when the server commits it: no later holder has written. */
  #judgeCommits(): void {
    let last = 0n;
    let lastWriter = 0n;
    this.server.member.store.onCommit(({ changes }) => {
      for (const { key, kv, type } of changes) {
        const value = type === EventType.PUT ? textOf(kv.value) : undefined;
        this.#changes.push({ key, value, revision: kv.modRevision });
        touchKey(this.world, key);
        if (value === undefined) continue;
        this.#leaseOf.set(`${key} ${kv.createRevision}`, kv.lease);
        if (key !== (FENCED as KeyId)) continue;
        const token = BigInt(value);
        // Readers hold the lock together, so their writes have no order.
        const isReader = this.#sharedTokens.has(token);
        const least = isReader ? lastWriter : last;
        if (token < least) this.breaks(`the holder with token ${token} wrote after the one with token ${least}`);
        if (token > last) last = token;
        if (!isReader) lastWriter = token;
      }
    });
  }
}
