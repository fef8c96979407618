import { environment } from '../../src/base/environment.js';
import { EtcdError, textOf } from '../../src/base/index.js';
import { Client, type ClientOptions, op } from '../../src/index.js';
import { type Held, Session } from '../../src/locks.js';
import { MemoryEtcd } from '../../src/testing/index.js';
import type { KeyId } from '../../src/testing/memory/key-range.js';
import { network } from './network.js';
import { type Event, SERVER, type World } from './world.js';

/** The TTL of all sessions, in seconds. */
export const TTL_S = 4;
/** A logger without output, so that the client prints no warning of the network. */
const SILENT = { warn: () => {} };
/** The key that holders write through `held.txn`. Its value is the token of the holder. */
const FENCED = 'fenced';

/** A client in a process of its own, with a session. */
export interface Party {
  readonly name: string;
  readonly client: Client;
  readonly session: Session;
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
  readonly #parties: Party[] = [];
  /** The parties that have not ended. */
  readonly #waiting = new Set<string>();
  /** Who holds something exclusively. A set, because a name may hold several locks one after the other. */
  readonly #holders = new Set<{ readonly name: string; readonly held: Held; readonly isShared: boolean }>();
  readonly #checks: (() => void)[] = [];
  #greatestToken = 0n;

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
          const timer = world.as(SERVER, () => environment.setTimeout(action, delayMs));
          return () => environment.clearTimeout(timer);
        },
      },
    });
    this.#judgeFencedWrites();
  }

  /** Opens a client and a session for each name. */
  async open(names: readonly string[], options: Partial<ClientOptions> = {}): Promise<readonly Party[]> {
    for (const name of names) {
      const transport = network(this.world, this.server, name);
      const client = this.world.as(name, () => new Client({ logger: SILENT, ...options, transport }));
      const session = await this.world.as(name, () => Session.open(client, { ttl: TTL_S }));
      this.#parties.push({ name, client, session });
      this.addFault(`the lease of ${name} ends`, SERVER, () => {
        if (this.server.member.leases.ids.includes(session.leaseId)) this.server.expireLease(session);
      });
      this.addFault(`${name} is killed`, name, () => this.world.kill(name));
    }
    return this.#parties;
  }

  start(parts: Parts): void {
    for (const name of parts.keys()) this.#waiting.add(name);
    for (const [name, part] of parts)
      this.world
        .as(name, part)
        .catch((error: unknown) => this.breaks(`${name} failed: ${error instanceof Error ? error.stack : error}`))
        .finally(() => this.#waiting.delete(name));
  }

  /** The parties that have neither ended nor been killed. */
  get waiting(): readonly string[] {
    return [...this.#waiting].filter((name) => !this.world.isKilled(name));
  }

  /** Reports that the history breaks a rule. */
  breaks(problem: string): void {
    this.problem ??= problem;
  }

  /** Adds a fault that happens at most once, in the process of a party or at the server. */
  addFault(label: string, at: string, action: () => void): void {
    let isDone = false;
    const fault: Event = {
      label,
      at,
      isFault: true,
      action: () => {
        isDone = true;
        this.world.as(at, action);
      },
    };
    this.world.addFaults(() => (isDone || this.world.isKilled(at) ? [] : [fault]));
  }

  /**
   * Lets a party hold a lock for a moment: it writes through the lock, and then releases it. Two parties must not hold
   * the lock at once, unless both hold it as readers.
   */
  async holds(name: string, held: Held, isShared = false): Promise<void> {
    for (const other of this.#holders)
      if (this.#isHeld(other) && this.#exists(held) && !(isShared && other.isShared))
        this.breaks(`${name} holds the lock together with ${other.name}`);
    if (!isShared && held.token <= this.#greatestToken)
      this.breaks(`the token of ${name} is ${held.token}, not greater than ${this.#greatestToken}`);
    if (held.token > this.#greatestToken) this.#greatestToken = held.token;
    const holder = { name, held, isShared };
    this.#holders.add(holder);
    const write = held.txn({ then: [op.put(FENCED, String(held.token))] });
    await unlessFailed(write);
    this.#holders.delete(holder);
    await unlessFailed(held.release());
  }

  /** Adds a check that runs when all parties have ended. */
  atEnd(check: () => void): void {
    this.#checks.push(check);
  }

  /** Checks how often a key was put. */
  counts(key: string, least: number, most: number): void {
    const puts = Number(this.server.member.store.get(key as KeyId)?.version ?? 0n);
    if (puts < least || puts > most) this.breaks(`${key} was put ${puts} times, and not ${least} to ${most} times`);
  }

  /** Closes the sessions and clients, and checks that nothing is left. */
  async end(): Promise<true> {
    for (const check of this.#checks) check();
    const alive = this.#parties.filter(({ name }) => !this.world.isKilled(name));
    for (const { name, session, client } of alive) {
      await this.world.as(name, () => unlessFailed(session.close()));
      await this.world.as(name, () => client.close({ drainMs: 0 }));
    }
    const left = this.world.timers.filter((timer) => !timer.startsWith(SERVER));
    if (left.length > 0) this.breaks(`timers are left: ${left.join(', ')}`);
    const { ids } = this.server.member.leases;
    for (const { name, session } of alive)
      if (ids.includes(session.leaseId)) this.breaks(`the lease of ${name} is left`);
    return true;
  }

  /** Whether the lock of a holder is certainly its own: a killed party and one whose lease ended early cannot know. */
  #isHeld({ name, held }: { readonly name: string; readonly held: Held }): boolean {
    return held.valid() && !this.world.isKilled(name) && this.#exists(held);
  }

  #exists(held: Held): boolean {
    return this.server.member.store.get(held.key as KeyId)?.createRevision === held.token;
  }

  /** Checks each write through a lock when the server commits it: the lock belongs to the writer, and no later one wrote. */
  #judgeFencedWrites(): void {
    const { store } = this.server.member;
    let last = 0n;
    store.onCommit(({ changes }) => {
      for (const { key, kv } of changes) {
        if (key !== (FENCED as KeyId)) continue;
        const token = BigInt(textOf(kv.value));
        if (token < last) this.breaks(`the holder with token ${token} wrote after the one with token ${last}`);
        last = token;
      }
    });
  }
}

/** Waits for a call that a fault may end. Other errors than those of the client are defects. */
export async function unlessFailed<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof EtcdError) return undefined;
    throw error;
  }
}
