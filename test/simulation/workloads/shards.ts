import { pause } from '../../../src/base/timers.js';
import { op } from '../../../src/client/kv/txn.js';
import type { Client } from '../../../src/extras/full/client.js';
import { quotasOf } from '../../../src/extras/recipes/shard-plan.js';
import { type Shard, shardOwners, shards as workOnShards } from '../../../src/extras/recipes/shards.js';
import type { TrueEvent } from '../cluster.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** For how long a process works on shards, and how its handlers behave. */
interface ShardsOp {
  readonly afterMs: number;
  readonly workMs: number;
  readonly weight: number;
  /** Time between two writes of a handler, in milliseconds. */
  readonly everyMs: number;
  /** How long a handler goes on after its signal has aborted, in milliseconds. */
  readonly handOverMs: number;
  /** What a handler does at its first run. `leave`: the handler returns at once. */
  readonly firstRun: 'work' | 'throw' | 'leave';
}

/** A time during which a handler considered itself the owner of its shard. */
interface Owning {
  readonly number: number;
  readonly token: bigint;
  readonly fromMs: number;
  untilMs: number;
}

/** A worker as the events of the store show it: from the put of its key until the key is deleted. */
interface TrueWorker {
  readonly text: string;
  readonly lease: bigint;
  readonly weight: number;
  readonly sinceRevision: bigint;
  untilRevision: bigint;
}

const NAME = 'p';
const COUNT = 7;
const TTL_S = 2;
/** How long the last workers work together, without any change, in milliseconds. */
const STEADY_MS = 45_000;
/** How long after the last change a shard may move, in milliseconds. The faults may hold messages back until then. */
const SETTLED_MS = 30_000;
const SHARD_KEY = /^p\/shards\/(\d+)\//;
const WORKER_KEY = /^p\/shards\/workers\//;

/** Workers that join and leave, and share the shards 0 to 6. */
export const shards: Workload<ShardsOp> = {
  name: 'shards',
  toleratesCopies: true,
  weight: 1,
  // The writes of the handlers, in addition to the calls for each worker.
  sizeOf: ({ workMs, everyMs }) => 3 + Math.ceil((COUNT * workMs) / everyMs / 10),
  generate: (random) =>
    Array.from({ length: random.between(1, 4) }, () => ({
      ops: Array.from({ length: random.between(1, 3) }, () => ({
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        workMs: random.magnitude(1, 6_000),
        weight: random.pick([1, 1, 1, 2, 0.5]),
        everyMs: random.pick([100, 500, 2_000]),
        handOverMs: random.pick([0, 0, 0, random.magnitude(1, 3_000)]),
        firstRun: random.pick(['work', 'work', 'work', 'work', 'throw', 'leave'] as const),
      })),
    })),
  begin: (context) => new SharedShards(context),
};

class SharedShards implements Player<ShardsOp> {
  readonly #context: Context<ShardsOp>;
  readonly #owning: Owning[] = [];
  /** The times at which the processes asked their workers to stop, by the texts of the workers. */
  readonly #stopped = new Map<string, number>();
  /** The processes whose last worker works. */
  readonly #steady = new Set<number>();
  #steadySinceMs = 0;
  /** When the first of the processes stops its last worker. */
  #steadyUntilMs: number | undefined;
  #workers = 0;

  constructor(context: Context<ShardsOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<ShardsOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    const client = this.#context.client(index);
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, 'the end of its work');
      await this.#work(client, each, () => world.sleep(each.workMs));
    }
    await healed();
    waits(index, 'the others');
    const last = { ...(ops.at(-1) as ShardsOp), everyMs: 10_000 };
    await this.#work(client, last, () => this.#together(index, client));
  }

  /** Waits until the last workers of all living processes have worked together for `STEADY_MS`. */
  async #together(index: number, client: Client): Promise<void> {
    const { world, plan } = this.#context;
    this.#steady.add(index);
    this.#steadySinceMs = world.time;
    const isComplete = (): boolean =>
      plan.processes.every((_, each) => this.#steady.has(each) || this.#context.process(each).isKilled);
    while (!isComplete() || world.time < this.#steadySinceMs + STEADY_MS) await world.sleep(1_000);
    if (this.#steadyUntilMs === undefined) {
      this.#steadyUntilMs = world.time;
      await this.#look(client);
    }
  }

  async #look(client: Client): Promise<void> {
    const { header, shards } = await shardOwners(client, NAME, { timeoutMs: 20_000 });
    const shown = shards.map(({ owner }) => owner?.token).join();
    const { holders } = this.#stateAt(header.revision);
    const wanted = shards.map(({ number }) => holders.get(number)?.createRevision).join();
    if (shown !== wanted) this.#context.violated('wrong owners', `${shown} instead of ${wanted}`);
  }

  async #work(client: Client, each: ShardsOp, until: () => Promise<void>): Promise<void> {
    const { world, violated } = this.#context;
    const text = `worker ${this.#workers++}`;
    const running = new Set<number>();
    const stop = new AbortController();
    let runs = 0;
    const handler = async (shard: Shard): Promise<void> => {
      const { number } = shard;
      if (running.has(number)) violated('two handlers', `of shard ${number} in one call`);
      running.add(number);
      runs += 1;
      await this.#handle(shard, each, runs === 1).finally(() => running.delete(number));
    };
    const { weight } = each;
    const options = { count: COUNT, weight, worker: text, ttl: TTL_S, signal: stop.signal };
    const working = workOnShards(client, NAME, options, handler);
    // A rejection must not be unhandled until the process awaits it.
    working.catch(() => {});
    await until();
    this.#stopped.set(text, world.time);
    stop.abort();
    await working.catch(expected);
    if (running.size > 0) violated('handler left', `of ${running.size} shards after the end of the call`);
  }

  async #handle({ number, signal, held }: Shard, op: ShardsOp, isFirst: boolean): Promise<void> {
    const { world } = this.#context;
    const owning = this.#begins(number, held.token, held.valid());
    if (isFirst && op.firstRun === 'leave') return;
    if (isFirst && op.firstRun === 'throw') throw new Error('the first run fails');
    while (!signal.aborted) {
      await this.#write(number, held);
      this.#goesOn(owning, held.valid());
      await pause(op.everyMs, signal);
    }
    if (op.handOverMs > 0) await world.sleep(op.handOverMs);
    this.#goesOn(owning, held.valid());
    await this.#write(number, held);
  }

  async #write(number: number, held: Shard['held']): Promise<void> {
    const write = { then: [op.put(`r/${number}`, `${held.token}`)] };
    await held.txn(write, { timeoutMs: 2_000 }).catch(expected);
  }

  /** Records a term. It is empty if its process was stopped before the check, and has lost the shard. */
  #begins(number: number, token: bigint, isValid: boolean): Owning {
    const { time } = this.#context.world;
    const owning = { number, token, fromMs: time, untilMs: isValid ? time : Number.NEGATIVE_INFINITY };
    this.#owning.push(owning);
    return owning;
  }

  #goesOn(owning: Owning, isValid: boolean): void {
    if (isValid) owning.untilMs = this.#context.world.time;
  }

  check(): void {
    const { violated } = this.#context;
    for (const one of this.#owning)
      for (const other of this.#owning)
        if (one.number === other.number && one.token < other.token)
          if (one.fromMs < other.untilMs && other.fromMs < one.untilMs)
            violated('two valid owners', `of shard ${one.number}: ${one.token} and ${other.token}`);
    this.#checkKeys();
    this.#checkMoves();
    this.#checkSteady();
  }

  /** Checks that each shard has at most one holder, and that only the holder writes. */
  #checkKeys(): void {
    const { cluster, violated } = this.#context;
    const holders = new Map<string, TrueEvent>();
    for (const event of cluster.truth) {
      const { type, key, value, revision } = event;
      const number = SHARD_KEY.exec(key)?.[1];
      if (number !== undefined) {
        const holder = holders.get(number);
        if (type === 'put' && holder !== undefined)
          violated('two owners', `${holder.key} and ${key} at revision ${revision}`);
        if (type === 'put') holders.set(number, event);
        else holders.delete(number);
      }
      if (type === 'put' && key.startsWith('r/') && `${holders.get(key.slice('r/'.length))?.createRevision}` !== value)
        violated('write without the shard', `${key} with token ${value} at revision ${revision}`);
    }
  }

  /** The workers so far, in the order in which they joined. */
  #trueWorkers(): TrueWorker[] {
    const workers: TrueWorker[] = [];
    for (const { type, key, value, lease, revision } of this.#context.cluster.truth) {
      if (!WORKER_KEY.test(key)) continue;
      if (type === 'put') {
        const { worker: text, weight } = JSON.parse(value);
        const untilRevision = BigInt(Number.MAX_SAFE_INTEGER);
        workers.push({ text, lease, weight, sinceRevision: revision, untilRevision });
      } else {
        const last = workers.findLast((each) => key === `p/shards/workers/${each.lease.toString(16)}`);
        if (last !== undefined) last.untilRevision = revision;
      }
    }
    return workers;
  }

  /** Checks that a worker that stays does not hand over more shards than its quota has shrunk by. */
  #checkMoves(): void {
    const { cluster, violated } = this.#context;
    const workers = this.#trueWorkers();
    const revisions = workers.flatMap(({ sinceRevision, untilRevision }) => [sinceRevision, untilRevision]);
    const changes = [...new Set(revisions)].sort((a, b) => Number(a - b));
    for (const own of workers) {
      let [allowed, quota] = [0, 0];
      for (const revision of changes) {
        if (revision < own.sinceRevision || revision >= own.untilRevision) continue;
        const next = quotasAt(workers, revision).get(own) ?? 0;
        allowed += Math.max(0, quota - next);
        quota = next;
      }
      const stoppedMs = this.#stopped.get(own.text) ?? Number.POSITIVE_INFINITY;
      const suffix = `/${own.lease.toString(16)}`;
      const moves = cluster.truth.filter(
        ({ type, key, revision, ms }) =>
          type === 'delete' &&
          SHARD_KEY.test(key) &&
          key.endsWith(suffix) &&
          revision < own.untilRevision &&
          ms < stoppedMs,
      );
      if (moves.length > allowed)
        violated('needless moves', `${own.text} has handed over ${moves.length} shards instead of ${allowed}`);
    }
  }

  #stateAt(revision: bigint): {
    readonly holders: ReadonlyMap<number, TrueEvent>;
    readonly workers: readonly TrueWorker[];
  } {
    const holders = new Map<number, TrueEvent>();
    for (const event of this.#context.cluster.truth) {
      const digits = SHARD_KEY.exec(event.key)?.[1];
      if (digits === undefined || event.revision > revision) continue;
      if (event.type === 'put') holders.set(Number(digits), event);
      else holders.delete(Number(digits));
    }
    const workers = this.#trueWorkers().filter((each) => isAt(each, revision));
    return { holders, workers };
  }

  /** Checks that the last workers share all shards as their quotas say, and that no shard moves after `SETTLED_MS`. */
  #checkSteady(): void {
    const { cluster, violated, plan } = this.#context;
    const untilMs = this.#steadyUntilMs;
    if (untilMs === undefined) return;
    const before = cluster.truth.filter(({ ms }) => ms < untilMs);
    const { holders, workers } = this.#stateAt(before.at(-1)?.revision ?? 0n);
    const living = plan.processes.filter((_, index) => !this.#context.process(index).isKilled);
    if (workers.length !== living.length) violated('wrong workers', `${workers.length} instead of ${living.length}`);
    const quotas = quotasAt(workers, workers.at(-1)?.sinceRevision ?? 0n);
    for (const worker of workers) {
      const owned = [...holders.values()].filter(({ lease }) => lease === worker.lease).length;
      if (owned !== quotas.get(worker))
        violated('wrong shares', `${worker.text} owns ${owned} shards instead of ${quotas.get(worker)}`);
    }
    const late = before.find(({ key, ms }) => ms > this.#steadySinceMs + SETTLED_MS && key.startsWith('p/'));
    if (late !== undefined) violated('late move', `${late.type} of ${late.key} at ${late.ms}`);
  }

  mayStay(key: string): boolean {
    return key.startsWith('r/');
  }
}

function isAt({ sinceRevision, untilRevision }: TrueWorker, revision: bigint): boolean {
  return sinceRevision <= revision && revision < untilRevision;
}

function quotasAt(workers: readonly TrueWorker[], revision: bigint): ReadonlyMap<TrueWorker, number> {
  const present = workers.filter((each) => isAt(each, revision));
  const quotas = quotasOf(COUNT, present);
  return new Map(present.map((worker, index) => [worker, quotas[index] as number]));
}
