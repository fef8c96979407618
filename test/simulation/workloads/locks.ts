import { getEventListeners } from 'node:events';
import { textOf } from '../../../src/base/bytes.js';
import type { Client } from '../../../src/extras/full/client.js';
import { withLock } from '../../../src/locks/mutex.js';
import { Session } from '../../../src/locks/session.js';
import { type Claim, checkLock } from '../../../src/testing/checks/check-events.js';
import type { TrueEvent } from '../cluster.js';
import { MIN_RATE } from '../draw-plan.js';
import { PROCESS_FAULTS, STRANGE_COPIES } from '../faults.js';
import type { ProcessPlan } from '../plan.js';
import type { Random } from '../random.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';
import { acquire, FENCED, type Holding, holdingOf, LIMITED, type LockKind, NAME, PERMITS } from './lock-kinds.js';

/** One attempt to acquire a lock, and the steps that the holder then takes. */
interface LockOp {
  readonly afterMs: number;
  readonly kind: LockKind;
  /** The times between the steps of the holder, in milliseconds. */
  readonly steps: readonly number[];
  readonly maxWaitMs: number | undefined;
  /** The kinds without the option `maxHoldMs` ignore this value. */
  readonly maxHoldMs: number | undefined;
  /** The caller's signal aborts after this time. */
  readonly abortMs: number | undefined;
  readonly isTry: boolean;
  /** Whether the process does not wait for the end of this attempt. */
  readonly isParallel: boolean;
  /** Index of the session of the process that the attempt uses. */
  readonly session: number;
  /**
   * Whether the process keeps its sessions open for a while after its last attempt. One attempt with this setting is
   * enough.
   */
  readonly lingers: boolean;
}

/**
 * How long a process that lingers keeps its sessions open after its last attempt and after the end of the faults. By
 * then, most late requests have arrived.
 */
const LINGER_MS = 20_000;
const TTL_S = 2;

function lockWorkload(name: string, weight: number, kinds: readonly LockKind[]): Workload<LockOp> {
  return {
    name,
    weight,
    hasStates: true,
    toleratesCopies: true,
    generate: (random) =>
      Array.from({ length: random.pick([1, 2, 2, 2, 3, 4]) }, () => ({
        ops: Array.from({ length: random.between(1, 4) }, () => drawOp(random, kinds)),
      })),
    begin: (context) => new Locks(context),
  };
}

function drawOp(random: Random, kinds: readonly LockKind[]): LockOp {
  return {
    afterMs: random.pick([0, 0, 0, random.magnitude(1, 6_000)]),
    kind: random.pick(kinds),
    steps: Array.from({ length: random.pick([0, 1, 2, 3, 4, 8]) }, () => random.pick([0, random.magnitude(1, 3_000)])),
    maxWaitMs: random.chance(0.2) ? random.magnitude(1, 6_000) : undefined,
    maxHoldMs: random.chance(0.15) ? random.magnitude(1, 4_000) : undefined,
    abortMs: random.chance(0.15) ? random.magnitude(1, 6_000) : undefined,
    isTry: random.chance(0.15),
    isParallel: random.chance(0.25),
    session: random.chance(0.8) ? 0 : 1,
    lingers: random.chance(0.08),
  };
}

export const LOCKS = [
  lockWorkload('mutex', 4, ['mutex']),
  lockWorkload('reentrant', 1, ['reentrant', 'mutex']),
  lockWorkload('rwmutex', 2, ['read', 'write']),
  lockWorkload('semaphore', 2, ['semaphore']),
  lockWorkload('election', 2, ['election', 'mutex']),
  lockWorkload('withLock', 1, ['withLock', 'mutex']),
  lockWorkload('etcd3 mutex', 2, ['etcd3 mutex', 'etcd3 mutex', 'etcd3', 'etcd3', 'mutex']),
];

/** Whether the key is a queue key of the lock, or the key with which holders who use etcd3 hold the lock. */
function isLockKey(key: string): boolean {
  return key === NAME || key.startsWith(`${NAME}/`);
}

interface LockClaim extends Claim {
  readonly kind: LockKind;
  readonly maxHoldMs: number | undefined;
  /** Whether the holder still uses the lock. */
  isHeld: boolean;
}

class Locks implements Player<LockOp> {
  readonly #context: Context<LockOp>;
  readonly #claims: LockClaim[] = [];
  /** The sessions of each process, by the index in the plan. */
  readonly #sessions: (Session | undefined)[][] = [];
  /** The contenders that are putting their key, by lease. */
  readonly #enqueuing = new Map<bigint, { readonly contender: object; readonly process: number }>();
  /** The latest put of each queue key. */
  readonly #created = new Map<string, { readonly lease: bigint; readonly createRevision: bigint }>();
  /** When a contender was last added to a queue or removed from it. */
  #changedMs = 0;
  #values = 0;

  constructor(context: Context<LockOp>) {
    this.#context = context;
    context.cluster.onEvent(({ type, key, lease, createRevision }) => {
      if (isLockKey(key)) this.#changedMs = context.world.now;
      if (key.startsWith(`${NAME}/`)) {
        const known = this.#created.get(key);
        if (type === 'put') this.#created.set(key, { lease, createRevision });
        else if (known !== undefined) this.#deleted(key, known.lease, known.createRevision);
      }
      const found = type === 'put' && key.startsWith(`${NAME}/`) ? this.#enqueuing.get(lease) : undefined;
      if (found !== undefined) context.enters(found.contender, found.process, 'waiting');
    });
  }

  async play(index: number, { ops }: ProcessPlan<LockOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const parallel: Promise<void>[] = [];
    this.#sessions[index] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, `${each.kind}${each.isTry ? ' (try)' : ''}`);
      const attempt = this.#attempt(client, index, each);
      if (each.isParallel) parallel.push(attempt);
      else await attempt;
    }
    await Promise.all(parallel);
    if (ops.some(({ lingers }) => lingers)) await this.#linger(index);
    waits(index, 'the close of its sessions');
    for (const session of this.#sessions[index] ?? []) await session?.close().catch(expected);
  }

  /** Keeps the sessions of a process open, and then checks that they have no unused key. */
  async #linger(index: number): Promise<void> {
    const { world, healed, cluster, violated } = this.#context;
    await healed();
    await world.sleep(LINGER_MS);
    for (const session of this.#sessions[index] ?? []) {
      if (!session?.valid()) continue;
      const keys = cluster.server.member.leases.keysOf(session.leaseId).map((key) => textOf(key));
      for (const key of keys) if (isLockKey(key)) violated('queue key left', `${key}, although no contender uses it`);
    }
  }

  /** Checks the sessions and holders to whom a deleted queue key belongs. */
  #deleted(key: string, lease: bigint, createRevision: bigint): void {
    const { world, cluster, process, violated } = this.#context;
    if (cluster.server.member.leases.has(lease)) {
      const claim = this.#claims.find(
        ({ token, isHeld, maxHoldMs }) => isHeld && maxHoldMs === undefined && token === createRevision,
      );
      if (claim !== undefined) violated('lock taken away', `${key} of ${claim.holder}, while its lease existed`);
      return;
    }
    for (const [index, sessions] of this.#sessions.entries()) {
      const session = sessions?.find((each) => each?.leaseId === lease);
      if (session === undefined) continue;
      // The process compares the lease with its own clock, after everything that it has done before.
      world.soon(process(index), 'compares a lease', () => {
        if (session.valid()) violated('valid without a lease', `session ${lease.toString(16)} of process ${index}`);
      });
    }
  }

  async #attempt(client: Client, index: number, each: LockOp): Promise<void> {
    const contender = {};
    const { enters } = this.#context;
    enters(contender, index, 'idle');
    try {
      if (each.kind === 'withLock') await this.#withLock(client, index, each, contender);
      else await this.#lock(client, index, each, contender);
    } catch (error) {
      enters(contender, index, 'lost');
      expected(error);
    }
  }

  async #session(client: Client, index: number, number: number): Promise<Session> {
    const sessions = this.#sessions[index] as (Session | undefined)[];
    const found = sessions[number];
    if (found?.valid()) return found;
    const session = await Session.open(client, { ttl: TTL_S });
    sessions[number] = session;
    return session;
  }

  async #lock(client: Client, index: number, each: LockOp, contender: object): Promise<void> {
    const { world, enters } = this.#context;
    const session = await this.#session(client, index, each.session);
    const abort = new AbortController();
    if (each.abortMs !== undefined) void world.sleep(each.abortMs).then(() => abort.abort());
    const options = { maxWaitMs: each.maxWaitMs, maxHoldMs: each.maxHoldMs, signal: abort.signal };
    this.#enqueuing.set(session.leaseId, { contender, process: index });
    enters(contender, index, 'enqueuing');
    const startMs = world.time;
    const holding = await acquire(session, each.kind, each.isTry, options).finally(() => {
      const limitMs = Math.min(each.maxWaitMs ?? Number.POSITIVE_INFINITY, each.abortMs ?? Number.POSITIVE_INFINITY);
      if (each.kind !== 'etcd3') this.#context.checkEnd(startMs, limitMs, each.kind);
      if (this.#enqueuing.get(session.leaseId)?.contender === contender) this.#enqueuing.delete(session.leaseId);
    });
    if (holding === undefined) return enters(contender, index, 'idle');
    await this.#hold(index, each, holding, contender);
    enters(contender, index, 'releasing');
    await holding.release().catch(expected);
    enters(contender, index, 'idle');
    const listeners = getEventListeners(abort.signal, 'abort').length;
    if (listeners > 0) this.#context.violated('listener left', `${listeners} on the signal of a released ${each.kind}`);
  }

  async #withLock(client: Client, index: number, each: LockOp, contender: object): Promise<void> {
    const { enters } = this.#context;
    enters(contender, index, 'enqueuing');
    await withLock(client, NAME, { ttl: TTL_S, maxWaitMs: each.maxWaitMs, maxHoldMs: each.maxHoldMs }, async (held) => {
      await this.#hold(index, each, { ...holdingOf(held), release: async () => {} }, contender);
      enters(contender, index, 'releasing');
    });
    enters(contender, index, 'idle');
  }

  /** Takes the steps of a holder, as long as the lock is valid. */
  async #hold(index: number, { steps, kind, maxHoldMs }: LockOp, holding: Holding, contender: object): Promise<void> {
    const { world, enters } = this.#context;
    if (!holding.valid()) return enters(contender, index, 'lost');
    const claim = {
      holder: `process ${index}`,
      token: holding.token,
      kind,
      maxHoldMs: LIMITED.has(kind) ? maxHoldMs : undefined,
      fromMs: world.time,
      untilMs: world.time,
      isHeld: true,
    };
    this.#claims.push(claim);
    // The change that has made this contender the next holder is not later than the last change.
    this.#context.checkLate(this.#changedMs, kind);
    enters(contender, index, 'held');
    await this.#takeSteps(index, steps, holding, contender, claim);
    claim.isHeld = false;
  }

  async #takeSteps(
    index: number,
    steps: readonly number[],
    holding: Holding,
    contender: object,
    claim: { untilMs: number },
  ): Promise<void> {
    const { world, enters } = this.#context;
    for (const stepMs of steps) {
      if (stepMs > 0) await world.sleep(stepMs);
      if (!holding.valid()) return enters(contender, index, 'lost');
      claim.untilMs = world.time;
      if (stepMs % 2 === 0) await holding.txn(`${holding.token} ${this.#values++}`).catch(expected);
    }
  }

  check(): void {
    const { cluster, violated } = this.#context;
    const truth = cluster.truth.filter(({ key }) => key.startsWith(`${NAME}/`));
    const exclusive = this.#claims.filter(({ kind }) => !['read', 'semaphore', 'etcd3'].includes(kind));
    // A holder who uses etcd3 is not in the queue. Holders of a `Mutex` do not exclude such a holder.
    this.#checkExclusion(this.#claims.filter(({ kind }) => kind === 'etcd3' || kind === 'etcd3 mutex'));
    const isShared = this.#claims.some(({ kind }) => kind === 'read' || kind === 'write');
    const isReentrant = this.#claims.some(({ kind }) => kind === 'reentrant');
    if (isShared) this.#checkReaders();
    else if (this.#claims.some(({ kind }) => kind === 'semaphore')) this.#checkPermits();
    else if (!isReentrant) for (const { rule, detail } of checkLock(exclusive, truth)) violated(rule, detail);
    else this.#checkExclusion(exclusive);
    this.#checkHoldTimes();
    this.#checkFencing();
    this.#checkProclamations(truth);
  }

  /** Checks that no leader's key gets a value that is older than a value that it has had before. */
  #checkProclamations(truth: readonly TrueEvent[]): void {
    // No client can prevent that a copy of a proclamation takes effect before the proclamation, or after a server has
    // refused it.
    if (this.#context.plan.faults.some(({ kind }) => (STRANGE_COPIES as readonly string[]).includes(kind))) return;
    const last = new Map<string, number>();
    for (const { type, key, value, createRevision, revision } of truth) {
      if (type === 'delete' || !/^\d+ \d+$|^elected$/.test(value)) continue;
      const id = `${key} ${createRevision}`;
      // A leader numbers its values. The value of the campaign is the first one.
      const number = value === 'elected' ? -1 : Number(value.split(' ')[1]);
      const before = last.get(id);
      if (before !== undefined && number <= before)
        this.#context.violated('old value', `${value} after number ${before} at revision ${revision}`);
      last.set(id, number);
    }
  }

  /** Checks that claims with different tokens do not overlap. */
  #checkExclusion(claims: readonly LockClaim[]): void {
    for (const one of claims)
      for (const other of claims)
        if (one.token !== other.token && one.fromMs < other.untilMs && other.fromMs < one.untilMs)
          this.#context.violated('two holders', `${one.holder} ${one.token} and ${other.holder} ${other.token}`);
  }

  /** Checks that no holder uses the lock for longer than its limit. */
  #checkHoldTimes(): void {
    const { plan, violated } = this.#context;
    if (plan.faults.some(({ kind }) => (PROCESS_FAULTS as readonly string[]).includes(kind))) return;
    for (const { maxHoldMs = Number.POSITIVE_INFINITY, fromMs, untilMs, holder } of this.#claims)
      if (untilMs - fromMs > maxHoldMs / MIN_RATE + plan.timerLagMs + 1)
        violated('held for too long', `${holder}: ${untilMs - fromMs} ms instead of ${maxHoldMs}`);
  }

  #checkReaders(): void {
    for (const one of this.#claims)
      for (const other of this.#claims) {
        if (one === other || one.kind !== 'write') continue;
        if (one.fromMs < other.untilMs && other.fromMs < one.untilMs)
          this.#context.violated('two holders', `writer ${one.holder} and ${other.kind} ${other.holder}`);
      }
  }

  #checkPermits(): void {
    for (const { fromMs, holder } of this.#claims) {
      const held = this.#claims.filter((other) => other.fromMs <= fromMs && fromMs < other.untilMs).length;
      if (held > PERMITS) this.#context.violated('too many holders', `${held} when ${holder} took a permit`);
    }
  }

  /** Checks that each write of a holder took effect while the key with its token existed. */
  #checkFencing(): void {
    const keys = new Map<string, bigint>();
    const withEtcd3 = new Set(this.#claims.filter(({ kind }) => kind === 'etcd3 mutex').map(({ token }) => token));
    for (const { type, key, value, createRevision, revision, lease } of this.#context.cluster.truth) {
      if (key === FENCED && type === 'put') {
        const token = BigInt(value.split(' ')[0] as string);
        const queueKey = [...keys].find(([each, created]) => each !== NAME && created === token)?.[0];
        // The value of `keys` for the key of etcd3 is its lease.
        const hasBoth = `${NAME}/${keys.get(NAME)?.toString(16)}` === queueKey;
        if (queueKey === undefined || (withEtcd3.has(token) && !hasBoth))
          this.#context.violated('stale write', `value ${value} at revision ${revision}`);
      }
      if (!isLockKey(key)) continue;
      if (type === 'put') keys.set(key, key === NAME ? lease : createRevision);
      else keys.delete(key);
    }
  }

  mayStay(key: string): boolean {
    return key === FENCED;
  }
}
