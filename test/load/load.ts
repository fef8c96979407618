import { setTimeout as pause } from 'node:timers/promises';
import { sharedClockMs } from '../../scripts/shared-clock.js';
import { Client, type ClientOptions, op, prefix, type Watch, type WithHeader } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { isExact } from '../../src/testing/etcd/versions.js';
import {
  type Claim,
  checkLock,
  checkOrder,
  checkPuts,
  checkRegister,
  checkWatch,
  History,
  type OrderedCall,
  type OrderedResult,
  type PutCall,
  type RegisterCall,
  type RegisterResult,
  type SeenEvent,
  type Violation,
} from '../../src/testing/index.js';
import { historyOf, seenEvents } from '../support/etcdctl.js';
import { proxiedFrom, type Target } from './cluster.js';
import { ignoringEtcdErrors, putUntilSuccess } from './recovery.js';
import { between, branchOf, pick } from './rounds.js';

const WRITERS = 4;
const WATCHES = 3;
const KEYS = 4;
const MAX_PUTS_PER_TXN = 20;
/** The maximum pause, in milliseconds, between two calls by one writer. */
const MAX_PAUSE_MS = 60;
/**
 * The buffer size of one watch. It is so small that the client sometimes has to remove the watch from its stream
 * because the buffer is full.
 */
const SMALL_BUFFER_BYTES = 4_096;
const CALL_TIMEOUT_MS = 5_000;
/**
 * The maximum time, in milliseconds, to wait for an event after the faults. An event that has not arrived by then
 * counts as lost.
 */
const LAST_TIMEOUT_MS = 30_000;
/**
 * The maximum number of calls with unknown outcome on one key. A key with more such calls is not checked, because
 * `checkRegister` searches for an order of the calls that explains their results. This search takes time that is
 * exponential in this number.
 */
const MAX_UNKNOWN = 12;

export interface LoadOptions {
  /** Options for the clients. */
  readonly client?: Partial<ClientOptions> | undefined;
  /** The prefix of all keys. */
  readonly name: string;
  readonly random: () => number;
}

interface Writer {
  readonly etcd: Client;
  readonly process: string;
  readonly random: () => number;
}

/** The batches of events that one watch has delivered so far. */
export interface Watched {
  readonly batches: readonly (readonly SeenEvent[])[];
  /** Resolves after the first event of the key that is put when the load has ended. */
  readonly done: Promise<void>;
}

/** Reads a watch until it delivers an event of the key `last`. */
export function readWatch(watch: Watch, last: string): Watched {
  const batches: SeenEvent[][] = [];
  const reading = async (): Promise<void> => {
    for await (const batch of watch.batches()) {
      const seen = seenEvents(batch);
      batches.push(seen);
      if (seen.some(({ key }) => key === last)) break;
    }
  };
  const done = reading();
  done.catch(() => {});
  return { batches, done };
}

/** Finds writes with a smaller fencing token than the previous write. All writes are to the same key. */
export function staleWrites(writes: readonly SeenEvent[]): Violation[] {
  return writes.flatMap(({ value }, at) => {
    const before = writes[at - 1]?.value ?? value;
    return BigInt(value) < BigInt(before) ? [{ rule: 'stale write', detail: `token ${value} after ${before}` }] : [];
  });
}

/** The violations that were found, and the amounts of data that were compared. */
export interface LoadResult {
  readonly violations: readonly Violation[];
  /** The number of events that watches delivered and that were compared with the history. */
  readonly events: number;
  /** The number of attempted puts, including the puts in transactions. */
  readonly puts: number;
  readonly unknown: number;
  readonly succeeded: number;
  /**
   * The number of keys whose calls `checkRegister` checked. These are the keys with at most `MAX_UNKNOWN` calls whose
   * outcome is unknown.
   */
  readonly registers: number;
}

/**
 * Clients that write, read and watch through the proxies of a cluster while a test causes faults. The clients start
 * with different members. Their results are compared with the history that etcdctl reads without proxies.
 */
export class Load implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: LoadOptions;
  readonly #prefix: string;
  readonly #last: string;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #watched: readonly Watched[];
  readonly #writers: Promise<unknown>;
  readonly #puts = new History<PutCall, unknown>();
  readonly #ordered = new History<OrderedCall, OrderedResult>();
  readonly #registers = new Map<string, History<RegisterCall, RegisterResult>>();
  /** For each writer, the prefix of the keys that the previous transaction of the writer put. */
  readonly #previous = new Map<string, string>();
  #over = false;

  private constructor(target: Target, options: LoadOptions, fromRevision: bigint) {
    this.#target = target;
    this.#options = options;
    this.#prefix = `${options.name}/`;
    this.#last = `${this.#prefix}~last`;
    this.#fromRevision = fromRevision;
    this.#watched = Array.from({ length: WATCHES }, (_, index) => this.#watch(index));
    this.#writers = Promise.all(
      Array.from({ length: WRITERS }, (_, index) => this.#write(index, branchOf(options.random))),
    );
    this.#writers.catch(() => {});
  }

  static async start(target: Target, options: LoadOptions): Promise<Load> {
    await using etcd = new Client({ endpoints: target.endpoints });
    const { header } = await etcd.range(options.name, { timeoutMs: LAST_TIMEOUT_MS });
    return new Load(target, options, header.revision);
  }

  /** Ends the load and compares its results with the history of etcd. The caller must heal the cluster first. */
  async verify(): Promise<LoadResult> {
    this.#over = true;
    await this.#writers;
    await using etcd = new Client({ endpoints: this.#target.endpoints });
    await putUntilSuccess(etcd, this.#last);
    const { etcdctl, endpoints } = this.#target;
    const [prefix, last, fromRevision] = [this.#prefix, this.#last, this.#fromRevision];
    const history = await historyOf({ etcdctl, endpoints, prefix, last, fromRevision });
    const puts = this.#puts.operations;
    const violations: Violation[] = [
      ...checkPuts(
        puts,
        history.slice(0, -1).filter(({ type }) => type === 'put'),
      ),
    ];
    violations.push(...checkOrder(this.#ordered.operations, history));
    const searched = [...this.#registers.values()].filter(
      ({ operations }) => operations.filter(({ outcome }) => outcome === 'unknown').length <= MAX_UNKNOWN,
    );
    for (const { operations } of searched) violations.push(...checkRegister(operations));
    let events = 0;
    for (const { batches, done } of isExact(this.#target.version) ? this.#watched : []) {
      await Promise.race([done, pause(LAST_TIMEOUT_MS, undefined, { ref: false })]);
      violations.push(...checkWatch(history, batches));
      for (const batch of batches) events += batch.length;
    }
    const count = (wanted: string): number => puts.filter(({ outcome }) => outcome === wanted).length;
    const [unknown, succeeded] = [count('unknown'), count('ok')];
    return { violations, events, puts: puts.length, unknown, succeeded, registers: searched.length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  #open(first: number): Client {
    const client = new Client({ endpoints: proxiedFrom(this.#target, first), ...this.#options.client });
    this.#clients.push(client);
    return client;
  }

  #watch(index: number): Watched {
    const bufferBytes = index === 0 ? SMALL_BUFFER_BYTES : undefined;
    const watch = this.#open(index).watch(prefix(this.#prefix), { startRevision: this.#fromRevision, bufferBytes });
    return readWatch(watch, this.#last);
  }

  /** Makes random calls, one after the other, until the load ends. Ignores EtcdErrors. */
  async #write(index: number, random: () => number): Promise<void> {
    const process = `w${index}`;
    const writer = { etcd: this.#open(index), process, random };
    for (let call = 0; !this.#over; call += 1) {
      await pause(MAX_PAUSE_MS * random());
      const key = `${this.#prefix}r${Math.floor(KEYS * random())}`;
      const value = `${process}.${call}`;
      const act = pick([this.#read, this.#put, this.#putMany], random);
      await ignoringEtcdErrors(() => act.call(this, writer, key, value));
    }
  }

  async #read({ etcd, process }: Writer, key: string): Promise<void> {
    await this.#register(key).record(process, { type: 'read' }, async () => {
      const { value } = await this.#ordered.record(process, { type: 'read', key }, async () => {
        const { header, kvs } = await etcd.range(key, { timeoutMs: CALL_TIMEOUT_MS });
        return { revision: header.revision, value: kvs[0]?.text() };
      });
      return value;
    });
  }

  async #put({ etcd, process }: Writer, key: string, value: string): Promise<void> {
    await this.#register(key).record(process, { type: 'write', value }, async () => {
      await this.#recordPuts(process, [{ key, value }], () => etcd.put(key, value, { timeoutMs: CALL_TIMEOUT_MS }));
      return undefined;
    });
  }

  /** Puts many keys in one transaction, which also deletes the keys of the writer's previous transaction. */
  async #putMany({ etcd, process, random }: Writer, _key: string, value: string): Promise<void> {
    const own = `${this.#prefix}${process}`;
    const count = 1 + Math.floor(MAX_PUTS_PER_TXN * random());
    const puts = Array.from({ length: count }, (_, index) => ({ key: `${own}/${value}/${index}`, value }));
    const then = [
      ...(this.#previous.has(own) ? [op.delete(prefix(this.#previous.get(own) as string))] : []),
      ...puts.map((put) => op.put(put.key, put.value)),
    ];
    this.#previous.set(own, `${own}/${value}/`);
    await this.#recordPuts(process, puts, () => etcd.txn({ then }, { timeoutMs: CALL_TIMEOUT_MS }));
  }

  /** Makes a call that puts these keys, and records the puts with the outcome of the call. */
  async #recordPuts(process: string, puts: readonly PutCall[], act: () => Promise<WithHeader<object>>): Promise<void> {
    const done = this.#ordered.record(process, { type: 'write', ...(puts[0] as PutCall) }, async () => {
      const { header } = await act();
      return { revision: header.revision };
    });
    await Promise.all(puts.map((put) => this.#puts.record(process, put, () => done)));
  }

  #register(key: string): History<RegisterCall, RegisterResult> {
    let register = this.#registers.get(key);
    if (register === undefined) {
      register = new History();
      this.#registers.set(key, register);
    }
    return register;
  }
}

const CONTENDERS = 3;
/** The TTL of the leases in seconds. It is short, so that some leases expire during the faults. */
const TTL = 3;
const HOLD_MS = 20;
/**
 * The maximum time in milliseconds to wait, after the faults, until a contender holds the lock again. It is much longer
 * than the remaining time of a lease, even after the election of an etcd leader has extended the lease.
 */
const HELD_AGAIN_MS = 30_000;

/**
 * Clients that contend for one lock through the proxies of a cluster while a test causes faults. The holder writes to a
 * key.
 */
export class LockLoad implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: LoadOptions;
  readonly #fromRevision: bigint;
  readonly #clients: Client[] = [];
  readonly #claims: Claim[] = [];
  readonly #contending: Promise<unknown>;
  readonly #over = new AbortController();

  private constructor(target: Target, options: LoadOptions, fromRevision: bigint) {
    this.#target = target;
    this.#options = options;
    this.#fromRevision = fromRevision;
    this.#contending = Promise.all(
      Array.from({ length: CONTENDERS }, (_, index) => this.#contend(index, branchOf(options.random))),
    );
    this.#contending.catch(() => {});
  }

  static async start(target: Target, options: LoadOptions): Promise<LockLoad> {
    await using etcd = new Client({ endpoints: target.endpoints });
    return new LockLoad(target, options, (await etcd.range(options.name, { timeoutMs: 30_000 })).header.revision);
  }

  /** Resolves when a contender has acquired the lock after this call and has released the lock. */
  async heldAgain(): Promise<void> {
    const sinceMs = sharedClockMs();
    const deadline = performance.now() + HELD_AGAIN_MS;
    while (!this.#claims.some(({ fromMs }) => fromMs >= sinceMs)) {
      if (performance.now() > deadline) throw new Error(`no contender held the lock within ${HELD_AGAIN_MS} ms`);
      await pause(HOLD_MS);
    }
  }

  /** Ends the load and looks for two holders at the same time, holders out of order, and stale writes. */
  async verify(): Promise<{ readonly violations: readonly Violation[]; readonly holds: number }> {
    this.#over.abort();
    await this.#contending;
    const { etcdctl, endpoints } = this.#target;
    const [prefix, last, fromRevision] = [`${this.#options.name}/`, `${this.#options.name}/~last`, this.#fromRevision];
    await using etcd = new Client({ endpoints });
    await putUntilSuccess(etcd, last);
    const history = await historyOf({ etcdctl, endpoints, prefix, last, fromRevision });
    const queueEvents = history.filter(({ key }) => key.startsWith(`${this.#lock}/`));
    const writes = history.filter(({ key }) => key === this.#guarded);
    const violations = [...checkLock(this.#claims, queueEvents), ...staleWrites(writes)];
    return { violations, holds: this.#claims.length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over.abort();
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  get #lock(): string {
    return `${this.#options.name}/lock`;
  }

  get #guarded(): string {
    return `${this.#options.name}/value`;
  }

  /** Contends for the lock until the load ends. Opens a new session whenever the previous session is lost. */
  async #contend(index: number, random: () => number): Promise<void> {
    const etcd = new Client({ endpoints: proxiedFrom(this.#target, index), ...this.#options.client });
    this.#clients.push(etcd);
    while (!this.#over.signal.aborted) {
      await ignoringEtcdErrors(async () => {
        await using session = await Session.open(etcd, { ttl: TTL });
        const mutex = new Mutex(session, this.#lock);
        while (!session.signal.aborted && !this.#over.signal.aborted)
          await this.#hold(mutex, `contender ${index}`, random);
      });
    }
  }

  async #hold(mutex: Mutex, holder: string, random: () => number): Promise<void> {
    const held = await mutex.lock({ signal: this.#over.signal });
    const until = sharedClockMs() + between(0, HOLD_MS, random);
    let claim: { readonly fromMs: number; readonly untilMs: number } | undefined;
    try {
      for (;;) {
        // Read the clock first, because a lock that is valid afterwards was also valid at this time.
        const nowMs = sharedClockMs();
        if (!held.valid()) break;
        claim = { fromMs: claim?.fromMs ?? nowMs, untilMs: nowMs };
        if (nowMs > until) break;
        await pause(1);
      }
      await held.txn({ then: [op.put(this.#guarded, `${held.token}`)] });
    } finally {
      if (claim !== undefined) this.#claims.push({ holder, token: held.token, ...claim });
      await held.release();
    }
  }
}
