import { EtcdError } from '../../../src/base/etcd-error.js';
import type { Client } from '../../../src/extras/full/client.js';
import { ExpiringKeys } from '../../../src/extras/recipes/expiring-keys.js';
import type { TrueEvent } from '../cluster.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A call of a process, or the revocation of the lease that a key has. */
interface ExpiringOp {
  readonly type: 'put' | 'touch' | 'persist' | 'remainingTtl' | 'revoke';
  readonly key: string;
  readonly ttl: number;
  readonly afterMs: number;
  readonly timeoutMs: number | undefined;
  readonly isParallel: boolean;
}

/** A call that has begun. */
interface Made extends ExpiringOp {
  readonly value: string;
  readonly startMs: number;
  /** When the call ended. Infinity if it has not ended, or if its outcome is unknown. */
  endMs: number;
  /** Whether the call has certainly written nothing. */
  isVoid: boolean;
}

/** What the store did with a key from one put to the next change. */
interface Life {
  readonly put: TrueEvent;
  /** Undefined if the key still has this state at the end of the history. */
  end: TrueEvent | undefined;
}

const KEYS = ['x/a', 'x/b', 'x/c', 'x/d'];
const GRANULARITY = 0.2;
const MAX_KEYS = 3;
const MAX_TTL = 12;
/** The greatest rounding error of the clocks and timers of a history, in milliseconds. */
const ROUNDING_MS = 1;
/** The time after which all keys have expired, in milliseconds, also if all clocks run slowly. */
const EXPIRED_MS = 18_000;

/** Keys with TTLs that share leases, which other clients may revoke. */
export const expiringKeys: Workload<ExpiringOp> = {
  name: 'expiring keys',
  weight: 1,
  isUnary: true,
  // A copy of a plain write takes effect twice, which no client can prevent.
  without: ['duplicate request'],
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 12) }, () => ({
        type: random.chance(0.06)
          ? ('revoke' as const)
          : random.pick(['put', 'put', 'put', 'put', 'touch', 'touch', 'persist', 'remainingTtl'] as const),
        key: random.pick(KEYS),
        ttl: random.chance(0.5) ? random.between(1, 4) : random.between(1, MAX_TTL),
        afterMs: random.pick([0, 0, random.magnitude(1, 1_000), random.magnitude(1, 6_000)]),
        timeoutMs: random.chance(0.2) ? random.magnitude(5, 5_000) : undefined,
        isParallel: random.chance(0.4),
      })),
    })),
  begin: (context) => new ExpiringKeysPlayer(context),
};

class ExpiringKeysPlayer implements Player<ExpiringOp> {
  readonly #context: Context<ExpiringOp>;
  readonly #calls: Made[] = [];
  /** The leases that a process has revoked or has tried to revoke. */
  readonly #revoked = new Set<bigint>();
  #values = 0;

  constructor(context: Context<ExpiringOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<ExpiringOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    const client = this.#context.client(index);
    const keys = new ExpiringKeys(client, { granularity: GRANULARITY, maxKeysPerLease: MAX_KEYS });
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      const call = each.type === 'revoke' ? this.#revoke(client, each) : this.#call(keys, each);
      if (each.isParallel) parallel.push(call.catch(expected));
      else await call.catch(expected);
    }
    await Promise.all(parallel);
    waits(index, 'the end of the faults');
    await healed();
    await world.sleep(EXPIRED_MS);
  }

  async #revoke(client: Client, { key, timeoutMs }: ExpiringOp): Promise<void> {
    const lease = (await client.get(key, { timeoutMs }))?.lease ?? 0n;
    if (lease === 0n) return;
    this.#revoked.add(lease);
    await client.lease.revoke(lease, { timeoutMs });
  }

  async #call(keys: ExpiringKeys, each: ExpiringOp): Promise<void> {
    const { world } = this.#context;
    const { type, key, ttl, timeoutMs } = each;
    const value = `v${this.#values++}`;
    const unknown = Number.POSITIVE_INFINITY;
    const made: Made = { ...each, value, startMs: world.time, endMs: unknown, isVoid: type === 'remainingTtl' };
    this.#calls.push(made);
    try {
      const result = await this.#result(keys, { type, key, ttl, timeoutMs }, value);
      made.endMs = world.time;
      if (result === false) made.isVoid = true;
      this.#checkResult(made, result);
    } catch (error) {
      expected(error);
      if (!(error instanceof EtcdError) || error.outcome === 'unknown') return;
      // Only a write with `retryWrites` has the outcome `applied`.
      if (error.outcome !== 'applied') made.isVoid = true;
      made.endMs = world.time;
    }
  }

  async #result(
    keys: ExpiringKeys,
    { type, key, ttl, timeoutMs }: Pick<ExpiringOp, 'type' | 'key' | 'ttl' | 'timeoutMs'>,
    value: string,
  ): Promise<unknown> {
    if (type === 'put') return keys.put(key, value, { ttl, timeoutMs });
    if (type === 'touch') return keys.touch(key, { ttl, timeoutMs });
    return type === 'persist' ? keys.persist(key, { timeoutMs }) : keys.remainingTtl(key, { timeoutMs });
  }

  /** Checks that the result of a call that has just ended was true at some time during the call. */
  #checkResult({ type, key, value, startMs, endMs }: Made, result: unknown): void {
    const { violated } = this.#context;
    const lives = this.#livesOf(key);
    const during = lives.filter(({ put, end }) => put.ms <= endMs && (end?.ms ?? endMs) >= startMs);
    const wasMissing = wasMissingDuring(lives, startMs, endMs);
    const written = during.filter(({ put }) => put.ms >= startMs).map(({ put }) => put);
    const isTrue = (): boolean => {
      if (type === 'put') return written.some((put) => put.value === value && put.lease !== 0n);
      if (result === false || result === undefined) return wasMissing;
      if (type === 'touch') return written.some(({ lease }) => lease !== 0n);
      if (type === 'persist') return written.some(({ lease }) => lease === 0n);
      if (result === Number.POSITIVE_INFINITY) return during.some(({ put }) => put.lease === 0n);
      return during.some(({ put }) => put.lease !== 0n) && (result as number) <= longestS(MAX_TTL);
    };
    if (!isTrue()) violated('wrong result', `${type} of ${key} resolved with ${String(result)}`);
  }

  /** Returns what has happened to a key, in order. */
  #livesOf(key: string): Life[] {
    const lives: Life[] = [];
    for (const event of this.#context.cluster.truth) {
      if (event.key !== key) continue;
      const last = lives.at(-1);
      if (last !== undefined) last.end ??= event;
      if (event.type === 'put') lives.push({ put: event, end: undefined });
    }
    return lives;
  }

  check(): void {
    for (const key of KEYS) {
      const values = new Set<string>();
      for (const life of this.#livesOf(key)) {
        this.#checkLife(life, this.#candidates(life.put, !values.has(life.put.value)));
        values.add(life.put.value);
      }
    }
    this.#checkSharing();
  }

  /** Returns the calls that may have made a put. `isNew`: the key has this value for the first time. */
  #candidates({ key, value, ms, lease }: TrueEvent, isNew: boolean): Made[] {
    return this.#calls.filter((call) => {
      if (call.key !== key || call.isVoid || call.startMs > ms) return false;
      if (isNew || call.type === 'put') return isNew && call.type === 'put' && call.value === value;
      return ms <= call.endMs && call.type === (lease === 0n ? 'persist' : 'touch');
    });
  }

  /** Checks that a key did not live for a shorter or longer time than one of the calls has asked for. */
  #checkLife({ put, end }: Life, candidates: readonly Made[]): void {
    const { world, plan, violated } = this.#context;
    const what = `${put.key} = ${put.value} of revision ${put.revision}`;
    if (candidates.length === 0) return violated('write without a call', what);
    const isDeleted = end?.type === 'delete';
    if (put.lease === 0n) return isDeleted ? violated('persisted key expired', what) : undefined;
    if (this.#revoked.has(put.lease) || (end !== undefined && !isDeleted)) return;
    const clockMs = (fromMs: number): number => ((end?.ms ?? world.time) - fromMs) * world.outside.rate;
    const isEarly = ({ startMs, ttl }: Made): boolean => clockMs(startMs) < ttl * 1_000 - ROUNDING_MS;
    if (isDeleted && candidates.every(isEarly)) violated('key expired early', what);
    // A restart of the whole cluster gives each lease its full TTL again.
    if (plan.faults.some(({ kind }) => kind === 'restart cluster')) return;
    const isLate = ({ endMs, ttl }: Made): boolean => clockMs(endMs) > longestS(ttl) * 1_000 + ROUNDING_MS;
    if (candidates.every(isLate)) violated('key expired late', what);
  }

  /** Checks that no lease has more keys than `maxKeysPerLease`. */
  #checkSharing(): void {
    const writes = new Map<bigint, number>();
    for (const { type, lease, key } of this.#context.cluster.truth)
      if (type === 'put' && lease !== 0n && KEYS.includes(key)) writes.set(lease, (writes.get(lease) ?? 0) + 1);
    for (const [lease, count] of writes) {
      if (count > MAX_KEYS) this.#context.violated('too many keys', `${count} writes with lease ${lease.toString(16)}`);
      if (count > 1) this.#context.count('shared leases');
    }
  }

  mayStay(key: string): boolean {
    return KEYS.includes(key);
  }

  mayLeasesStay(): boolean {
    return true;
  }
}

/** How long a key with this TTL may live, in seconds. The minimum TTL of the server, 2 s, is never above this bound. */
function longestS(ttl: number): number {
  return Math.max(ttl + 1, ttl * (1 + GRANULARITY));
}

function wasMissingDuring(lives: readonly Life[], startMs: number, endMs: number): boolean {
  const first = lives[0];
  if (first === undefined || first.put.ms >= startMs) return true;
  return lives.some(
    ({ end }, index) =>
      end?.type === 'delete' && end.ms <= endMs && (lives[index + 1]?.put.ms ?? Number.POSITIVE_INFINITY) >= startMs,
  );
}
