import { setTimeout as pause } from 'node:timers/promises';
import { sharedClockMs } from '../../scripts/shared-clock.js';
import { Client, type ClientOptions, type EtcdError, op, prefix, type Reason } from '../../src/index.js';
import { type Held, Mutex, Session } from '../../src/locks.js';
import { isExact } from '../../src/testing/etcd/versions.js';
import {
  type Claim,
  checkLock,
  checkPuts,
  checkWatch,
  History,
  type PutCall,
  type SeenEvent,
  type Violation,
} from '../../src/testing/index.js';
import { historyOf } from '../support/etcdctl.js';
import type { FaultyCluster } from './cluster.js';
import { readWatch, staleWrites, type Watched } from './load.js';
import { ignoringEtcdErrors, putUntilSuccess } from './recovery.js';
import { branchOf } from './rounds.js';

const LOCKS = 50;
const WATCHES = 50;
const WRITERS = 4;
/** The time between two writes of one holder, in milliseconds. */
const HOLDER_PAUSE_MS = 500;
/** The maximum time, in milliseconds, between two puts by one writer. */
const MAX_WRITER_PAUSE_MS = 20;
/** The interval, in milliseconds, between two checks of all locks. */
const CHECK_INTERVAL_MS = 10;
const CALL_TIMEOUT_MS = 5_000;
/**
 * The maximum time to wait for a condition or an event, in milliseconds. An event that has not arrived by then counts
 * as lost.
 */
const LAST_TIMEOUT_MS = 30_000;

/** The error reasons that tell a holder that its key or lease is gone before the deadline of the lease has passed. */
const TAKEN: ReadonlySet<Reason> = new Set(['LockLost', 'LeaseExpired', 'LeaseNotFound']);

export interface CrowdOptions {
  /** The prefix of all keys. */
  readonly name: string;
  readonly random: () => number;
  /** The TTL, in seconds, of each lock's lease. */
  readonly ttl: number;
  /** Options for the clients. */
  readonly client?: Partial<ClientOptions> | undefined;
}

/** The violations that were found, and the amounts of data that were compared. */
export interface CrowdResult {
  readonly violations: readonly Violation[];
  readonly events: number;
  readonly puts: number;
  readonly holds: number;
  /** The number of holders whose queue key etcd deleted while they held the lock. */
  readonly taken: number;
  /** The maximum time, in milliseconds, for which a holder and the next holder both found their lock valid. */
  readonly overlapMs: number;
}

/** One period when a contender held a lock, and the times when the lock was observed to be valid. */
interface Hold {
  readonly held: Held;
  readonly holder: string;
  fromMs: number | undefined;
  untilMs: number;
  /** Whether the holder released the lock rather than lost it. */
  isReleased: boolean;
}

/**
 * A load of 50 locks and 50 watches. Each lock has its own lease, a holder that writes, and a waiter in another client.
 * Each watch has its own prefix. A holder keeps its lock until the lock is lost or the load ends.
 */
export class Crowd implements AsyncDisposable {
  readonly #cluster: FaultyCluster;
  readonly #options: CrowdOptions;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #holds: Hold[][] = Array.from({ length: LOCKS }, () => []);
  readonly #watched: readonly Watched[];
  readonly #puts = new History<PutCall, unknown>();
  readonly #writing: Promise<unknown>;
  readonly #contending: Promise<unknown>;
  readonly #checking: NodeJS.Timeout;
  /** Its signal makes the writers end and each holder release its lock. */
  readonly #over = new AbortController();

  private constructor(cluster: FaultyCluster, options: CrowdOptions, fromRevision: bigint) {
    this.#cluster = cluster;
    this.#options = options;
    this.#fromRevision = fromRevision;
    const [first, second] = [this.#open(0), this.#open(1)];
    this.#watched = Array.from({ length: WATCHES }, (_, index) => this.#watch(index % 2 === 0 ? first : second, index));
    this.#writing = Promise.all(Array.from({ length: WRITERS }, (_, index) => this.#write(this.#open(index), index)));
    this.#contending = Promise.all(
      Array.from({ length: LOCKS }, (_, index) => [
        this.#contend(first, index, 'a'),
        this.#contend(second, index, 'b'),
      ]).flat(),
    );
    for (const each of [this.#writing, this.#contending]) each.catch(() => {});
    this.#checking = setInterval(() => {
      for (const holds of this.#holds) noteValid(holds);
    }, CHECK_INTERVAL_MS);
  }

  /** Starts the load. Resolves as soon as every lock has a holder. */
  static async start(cluster: FaultyCluster, options: CrowdOptions): Promise<Crowd> {
    await using etcd = new Client({ endpoints: cluster.endpoints });
    const { header } = await etcd.range(options.name, { timeoutMs: LAST_TIMEOUT_MS });
    const crowd = new Crowd(cluster, options, header.revision);
    await crowd.#until('every lock has a holder', () => crowd.#holds.every((holds) => holds.length > 0));
    return crowd;
  }

  /**
   * Ends the load, so that each holder hands its lock to the waiter, and compares the results with the history of etcd.
   * The caller must heal the cluster first.
   */
  async verify(): Promise<CrowdResult> {
    const before = this.#holds.map(({ length }) => length);
    this.#over.abort();
    await this.#writing;
    await this.#until('every lock has gone to its waiter', () =>
      this.#holds.every(({ length }, index) => length > (before[index] ?? 0)),
    );
    await this.#contending;
    clearInterval(this.#checking);
    const { etcdctl, endpoints } = this.#cluster;
    await using etcd = new Client({ endpoints });
    for (let index = 0; index < WATCHES; index += 1) await putUntilSuccess(etcd, this.#lastOf(index));
    const [name, last] = [`${this.#options.name}/`, `${this.#options.name}/~last`];
    await putUntilSuccess(etcd, last);
    const history = await historyOf({ etcdctl, endpoints, prefix: name, last, fromRevision: this.#fromRevision });
    const written = history.filter(
      ({ type, key }) => type === 'put' && key.startsWith(`${name}w/`) && !key.endsWith('~last'),
    );
    const puts = this.#puts.operations;
    const violations: Violation[] = [...checkPuts(puts, written)];
    let events = 0;
    for (const [index, { batches, done }] of isExact(this.#cluster.version) ? this.#watched.entries() : []) {
      await Promise.race([done, pause(LAST_TIMEOUT_MS, undefined, { ref: false })]);
      violations.push(
        ...checkWatch(
          history.filter(({ key }) => key.startsWith(this.#watchedPrefix(index))),
          batches,
        ),
      );
      for (const batch of batches) events += batch.length;
    }
    const [taken, overlaps] = [[] as Hold[], [0]];
    for (const [index, holds] of this.#holds.entries()) {
      const queueEvents = history.filter(({ key }) => key.startsWith(`${this.#lockName(index)}/`));
      taken.push(...holds.filter((hold) => isTaken(hold, queueEvents)));
      const found = checkLock(holds.flatMap(claimOf), queueEvents);
      // If etcd itself deleted the queue key of a holder, only fencing tokens protect against a second holder, so two
      // holders are then not a violation.
      violations.push(
        ...found.filter(({ rule }) => rule !== 'two holders' || !holds.some((hold) => taken.includes(hold))),
      );
      for (const [at, hold] of holds.entries()) {
        const next = holds[at + 1]?.fromMs;
        if (next !== undefined && hold.fromMs !== undefined) overlaps.push(hold.untilMs - next);
      }
      violations.push(...staleWrites(history.filter(({ key }) => key === this.#guarded(index))));
    }
    for (const { held } of taken) {
      if (!held.signal.aborted)
        violations.push({
          rule: 'not told',
          detail: `${held.key} is gone, but the signal of its holder is not aborted`,
        });
    }
    const holds = this.#holds.flat().length;
    return { violations, events, puts: puts.length, holds, taken: taken.length, overlapMs: Math.max(...overlaps) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    clearInterval(this.#checking);
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  #open(first: number): Client {
    const { endpoints } = this.#cluster;
    const own = [...endpoints.slice(first), ...endpoints.slice(0, first)];
    const client = new Client({ endpoints: own, ...this.#options.client });
    this.#clients.push(client);
    return client;
  }

  #lockName(index: number): string {
    return `${this.#options.name}/lock/${index}`;
  }

  #guarded(index: number): string {
    return `${this.#options.name}/value/${index}`;
  }

  #watchedPrefix(index: number): string {
    return `${this.#options.name}/w/${index}/`;
  }

  #lastOf(index: number): string {
    return `${this.#watchedPrefix(index)}~last`;
  }

  #watch(etcd: Client, index: number): Watched {
    const watch = etcd.watch(prefix(this.#watchedPrefix(index)), { startRevision: this.#fromRevision });
    return readWatch(watch, this.#lastOf(index));
  }

  async #write(etcd: Client, writer: number): Promise<void> {
    const random = branchOf(this.#options.random);
    for (let call = 0; !this.#over.signal.aborted; call += 1) {
      await pause(MAX_WRITER_PAUSE_MS * random());
      const key = `${this.#watchedPrefix(Math.floor(WATCHES * random()))}${Math.floor(3 * random())}`;
      const value = `${writer}.${call}`;
      await ignoringEtcdErrors(() =>
        this.#puts.record(`w${writer}`, { key, value }, () => etcd.put(key, value, { timeoutMs: CALL_TIMEOUT_MS })),
      );
    }
  }

  /**
   * Contends for one lock. Opens a new session whenever the previous session is lost. Ends when this contender has held
   * the lock and the load has ended.
   */
  async #contend(etcd: Client, index: number, holder: string): Promise<void> {
    for (let hasHeld = false; !hasHeld || !this.#over.signal.aborted; ) {
      await ignoringEtcdErrors(async () => {
        await using session = await Session.open(etcd, { ttl: this.#options.ttl });
        const held = await new Mutex(session, this.#lockName(index)).lock();
        hasHeld = true;
        await this.#hold(held, index, holder);
      });
    }
  }

  async #hold(held: Held, index: number, holder: string): Promise<void> {
    const holds = this.#holds[index] as Hold[];
    const hold: Hold = { held, holder, fromMs: undefined, untilMs: 0, isReleased: false };
    holds.push(hold);
    noteValid(holds);
    const write = { then: [op.put(this.#guarded(index), `${held.token}`)] };
    do {
      await ignoringEtcdErrors(() => held.txn(write, { timeoutMs: CALL_TIMEOUT_MS }));
      const over = AbortSignal.any([held.signal, this.#over.signal]);
      await pause(HOLDER_PAUSE_MS, undefined, { signal: over }).catch(() => {});
    } while (held.valid() && !this.#over.signal.aborted);
    noteValid(holds);
    hold.isReleased = held.valid();
    await held.release();
  }

  async #until(condition: string, holds: () => boolean): Promise<void> {
    const deadline = performance.now() + LAST_TIMEOUT_MS;
    while (!holds()) {
      if (performance.now() > deadline) throw new Error(`condition not met within ${LAST_TIMEOUT_MS} ms: ${condition}`);
      await pause(CHECK_INTERVAL_MS);
    }
  }
}

/** Records the current time in each hold whose lock is valid now. */
function noteValid(holds: readonly Hold[]): void {
  for (const hold of holds) {
    // Read the clock first, because a lock that is valid afterwards was also valid at this time.
    const nowMs = sharedClockMs();
    if (!hold.held.valid()) continue;
    hold.fromMs ??= nowMs;
    hold.untilMs = nowMs;
  }
}

function claimOf({ held, holder, fromMs, untilMs }: Hold): Claim[] {
  return fromMs === undefined ? [] : [{ holder, token: held.token, fromMs, untilMs }];
}

/** Whether etcd deleted the queue key of a holder before the lease expired according to the holder's client. */
function isTaken({ held, isReleased }: Hold, queueEvents: readonly SeenEvent[]): boolean {
  if (isReleased || !TAKEN.has((held.signal.reason as EtcdError | undefined)?.reason ?? 'LockLost')) return false;
  return queueEvents.some(({ type, key, revision }) => type === 'delete' && key === held.key && revision > held.token);
}
