import { setTimeout as pause } from 'node:timers/promises';
import { sharedClockMs } from '../../../scripts/shared-clock.js';
import { type Held, Mutex, Session } from '../../../src/concurrency/index.js';
import { Client, type ClientOptions, EtcdError, op, prefix, type Reason } from '../../../src/index.js';
import {
  type Claim,
  checkLock,
  checkPuts,
  checkWatch,
  History,
  type PutCall,
  type SeenEvent,
  type Violation,
} from '../../../src/testing/index.js';
import { seenEvents, whatHappened } from '../truth.js';
import { type FaultyCluster, watchesExactly } from './cluster.js';
import { branchOf } from './rounds.js';
import { untilPut } from './until-put.js';

const LOCKS = 50;
const WATCHES = 50;
const WRITERS = 4;
/** Between two writes of one holder, and between two puts of one writer. */
const HOLDER_WRITES_MS = 500;
const WRITER_PAUSE_MS = 20;
/** Between two looks at all locks. */
const LOOK_MS = 10;
const CALL_TIMEOUT_MS = 5_000;
/** A bound for hangs: what has not come by then is lost. */
const LAST_TIMEOUT_MS = 30_000;

/** How a holder hears that its key or its lease is gone, where the lease's deadline has not passed. */
const TAKEN: ReadonlySet<Reason> = new Set(['LockLost', 'LeaseExpired', 'LeaseNotFound']);

export interface CrowdOptions {
  /** Under which all keys are. */
  readonly name: string;
  readonly random: () => number;
  /** Seconds: of the lease of each lock. */
  readonly ttl: number;
  /** Of the clients. */
  readonly client?: Partial<ClientOptions> | undefined;
}

/** What was found, and of how much. */
export interface CrowdJudgement {
  readonly violations: readonly Violation[];
  readonly events: number;
  readonly puts: number;
  readonly holds: number;
  /** Locks whose key etcd deleted while the holder held it. */
  readonly taken: number;
  /** For how long such a holder took itself for the holder when the next one did too: the longest, in milliseconds. */
  readonly overlapMs: number;
}

/** One hold of a lock, from the grant on. */
interface Hold {
  readonly held: Held;
  readonly holder: string;
  fromMs: number | undefined;
  untilMs: number;
  /** The holder unlocked it, and did not lose it. */
  isReleased: boolean;
}

/**
 * 50 locks, each with a lease of its own, a holder that writes and a waiter in another client, and 50 watches on prefixes
 * of their own, for as long as faults last. A holder keeps its lock until it loses it or the load ends.
 */
export class Crowd implements AsyncDisposable {
  readonly #cluster: FaultyCluster;
  readonly #options: CrowdOptions;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #holds: Hold[][] = Array.from({ length: LOCKS }, () => []);
  readonly #watched: readonly { readonly batches: readonly (readonly SeenEvent[])[]; readonly done: Promise<void> }[];
  readonly #puts = new History<PutCall, unknown>();
  readonly #writing: Promise<unknown>;
  readonly #contending: Promise<unknown>;
  readonly #looking: NodeJS.Timeout;
  /** Ends the writers and lets each holder unlock. */
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
    this.#looking = setInterval(() => {
      for (const holds of this.#holds) look(holds);
    }, LOOK_MS);
  }

  /** Resolves once each lock is held. */
  static async start(cluster: FaultyCluster, options: CrowdOptions): Promise<Crowd> {
    await using etcd = new Client({ endpoints: cluster.endpoints });
    const { header } = await etcd.range(options.name, { timeoutMs: LAST_TIMEOUT_MS });
    const crowd = new Crowd(cluster, options, header.revision);
    await crowd.#until('each lock is held', () => crowd.#holds.every((holds) => holds.length > 0));
    return crowd;
  }

  /**
   * Ends the load, after which each lock goes from its holder to the waiter, and compares what was seen with what
   * happened. The cluster has to be healed by then.
   */
  async judge(): Promise<CrowdJudgement> {
    const before = this.#holds.map(({ length }) => length);
    this.#over.abort();
    await this.#writing;
    await this.#until('each lock is handed over', () =>
      this.#holds.every(({ length }, index) => length > (before[index] ?? 0)),
    );
    await this.#contending;
    clearInterval(this.#looking);
    const { etcdctl, endpoints } = this.#cluster;
    await using etcd = new Client({ endpoints });
    for (let index = 0; index < WATCHES; index += 1) await untilPut(etcd, this.#lastOf(index));
    const [name, last] = [`${this.#options.name}/`, `${this.#options.name}/~last`];
    await untilPut(etcd, last);
    const truth = await whatHappened({ etcdctl, endpoints, prefix: name, last, fromRevision: this.#fromRevision });
    const written = truth.filter(
      ({ type, key }) => type === 'put' && key.startsWith(`${name}w/`) && !key.endsWith('~last'),
    );
    const puts = this.#puts.operations;
    const violations: Violation[] = [...checkPuts(puts, written)];
    let events = 0;
    for (const [index, { batches, done }] of watchesExactly(this.#cluster) ? this.#watched.entries() : []) {
      await Promise.race([done, pause(LAST_TIMEOUT_MS, undefined, { ref: false })]);
      violations.push(
        ...checkWatch(
          truth.filter(({ key }) => key.startsWith(this.#watchedPrefix(index))),
          batches,
        ),
      );
      for (const batch of batches) events += batch.length;
    }
    const [taken, overlaps] = [[] as Hold[], [0]];
    for (const [index, holds] of this.#holds.entries()) {
      const line = truth.filter(({ key }) => key.startsWith(`${this.#lockName(index)}/`));
      taken.push(...holds.filter((hold) => isTaken(hold, line)));
      const found = checkLock(holds.flatMap(claimOf), line);
      // Where etcd itself deleted the key of a holder, only the tokens keep two holders apart.
      violations.push(
        ...found.filter(({ rule }) => rule !== 'two holders' || !holds.some((hold) => taken.includes(hold))),
      );
      for (const [at, hold] of holds.entries()) {
        const next = holds[at + 1]?.fromMs;
        if (next !== undefined && hold.fromMs !== undefined) overlaps.push(hold.untilMs - next);
      }
      violations.push(...staleWrites(truth.filter(({ key }) => key === this.#guarded(index))));
    }
    for (const { held } of taken) {
      if (!held.signal.aborted)
        violations.push({ rule: 'not told', detail: `${held.key} is gone, its holder goes on` });
    }
    const holds = this.#holds.flat().length;
    return { violations, events, puts: puts.length, holds, taken: taken.length, overlapMs: Math.max(...overlaps) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    clearInterval(this.#looking);
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

  #watch(etcd: Client, index: number): { batches: readonly (readonly SeenEvent[])[]; done: Promise<void> } {
    const watch = etcd.watch(prefix(this.#watchedPrefix(index)), { startRevision: this.#fromRevision });
    const batches: SeenEvent[][] = [];
    const taking = async (): Promise<void> => {
      for await (const batch of watch.batches()) {
        const seen = seenEvents(batch);
        batches.push(seen);
        if (seen.some(({ key }) => key === this.#lastOf(index))) break;
      }
    };
    const done = taking();
    done.catch(() => {});
    return { batches, done };
  }

  async #write(etcd: Client, writer: number): Promise<void> {
    const random = branchOf(this.#options.random);
    for (let call = 0; !this.#over.signal.aborted; call += 1) {
      await pause(WRITER_PAUSE_MS * random());
      const key = `${this.#watchedPrefix(Math.floor(WATCHES * random()))}${Math.floor(3 * random())}`;
      const value = `${writer}.${call}`;
      await ignoringEtcd(() =>
        this.#puts.record(`w${writer}`, { key, value }, () => etcd.put(key, value, { timeoutMs: CALL_TIMEOUT_MS })),
      );
    }
  }

  /** A session after the other, as each is lost, until this contender has held the lock once the load is over. */
  async #contend(etcd: Client, index: number, who: string): Promise<void> {
    for (let hasHeld = false; !hasHeld || !this.#over.signal.aborted; ) {
      await ignoringEtcd(async () => {
        await using session = await Session.open(etcd, { ttl: this.#options.ttl });
        const held = await new Mutex(session, this.#lockName(index)).lock();
        hasHeld = true;
        await this.#hold(held, index, who);
      });
    }
  }

  async #hold(held: Held, index: number, holder: string): Promise<void> {
    const holds = this.#holds[index] as Hold[];
    const hold: Hold = { held, holder, fromMs: undefined, untilMs: 0, isReleased: false };
    holds.push(hold);
    look(holds);
    const write = { then: [op.put(this.#guarded(index), `${held.token}`)] };
    do {
      await ignoringEtcd(() => held.txn(write, { timeoutMs: CALL_TIMEOUT_MS }));
      const over = AbortSignal.any([held.signal, this.#over.signal]);
      await pause(HOLDER_WRITES_MS, undefined, { signal: over }).catch(() => {});
    } while (held.valid() && !this.#over.signal.aborted);
    look(holds);
    hold.isReleased = held.valid();
    await held.release();
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const deadline = performance.now() + LAST_TIMEOUT_MS;
    while (!isSo()) {
      if (performance.now() > deadline) throw new Error(`not within ${LAST_TIMEOUT_MS} ms: ${what}`);
      await pause(LOOK_MS);
    }
  }
}

/** Notes which of them take themselves for the holder now. */
function look(holds: readonly Hold[]): void {
  for (const hold of holds) {
    // The clock first: the lock was held at this time if it is so afterwards.
    const nowMs = sharedClockMs();
    if (!hold.held.valid()) continue;
    hold.fromMs ??= nowMs;
    hold.untilMs = nowMs;
  }
}

function claimOf({ held, holder, fromMs, untilMs }: Hold): Claim[] {
  return fromMs === undefined ? [] : [{ holder, token: held.token, fromMs, untilMs }];
}

/** Whether etcd deleted the key of a holder whose lease was alive by all that its client had been told. */
function isTaken({ held, isReleased }: Hold, line: readonly SeenEvent[]): boolean {
  if (isReleased || !TAKEN.has((held.signal.reason as EtcdError | undefined)?.reason ?? 'LockLost')) return false;
  return line.some(({ type, key, revision }) => type === 'delete' && key === held.key && revision > held.token);
}

function staleWrites(writes: readonly SeenEvent[]): Violation[] {
  return writes.flatMap(({ value }, at) => {
    const before = writes[at - 1]?.value ?? value;
    return BigInt(value) < BigInt(before) ? [{ rule: 'stale write', detail: `token ${value} after ${before}` }] : [];
  });
}

/** Errors of etcd's are part of a load. */
async function ignoringEtcd(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
  }
}
