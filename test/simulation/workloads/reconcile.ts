import { prefix } from '../../../src/client/kv/keys.js';
import { compare, op } from '../../../src/client/kv/txn.js';
import type { Client } from '../../../src/extras/full/client.js';
import type { RunReport } from '../../../src/extras/recipes/key-runs.js';
import { type Again, type KeyRun, type LeaderKeyRun, reconcile } from '../../../src/extras/recipes/reconcile.js';
import type { WriteOptions } from '../../../src/rpc/rpc.js';
import type { ProcessPlan } from '../plan.js';
import { stateAt } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A write of a wanted state, a foreign write of an actual state, or a call of `reconcile`. */
interface ReconcileOp {
  readonly type: 'put' | 'delete' | 'interfere' | Kind;
  readonly afterMs: number;
  readonly key: number;
  /** Whether etcd compacts the history after the write. */
  readonly compacts: boolean;
  /** How long a handler runs. */
  readonly handlerMs: number;
  readonly concurrency: number;
  /** Number of runs that fail after each success. */
  readonly failures: number;
  readonly resyncMs: number | undefined;
  /** Whether each handler whose state is new asks for one more run. */
  readonly runsAgain: boolean;
  /** How long `reconcile` runs. Undefined: until the actual state agrees with the wanted one. */
  readonly stopsAfterMs: number | undefined;
}

/**
 * `plain`: each process runs handlers. `led`: the leader writes an actual state for each run. `owning`: the leader makes
 * the actual states equal to the wanted ones, and `owned` watches them.
 */
type Kind = 'plain' | 'led' | 'owning';

const KEYS = 3;
const WANTED = 'd/';
const ACTUAL = { led: 'a/led/', owning: 'a/owning/' } as const;
const TTL_S = 2;
/** The interval, in milliseconds, at which a process checks whether the states agree. */
const LOOK_MS = 250;

/** Controllers: `reconcile`, with and without a leader. */
export const controllers: Workload<ReconcileOp> = {
  name: 'reconcile',
  toleratesCopies: true,
  weight: 2,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 8) }, () => ({
        type: random.chance(0.3)
          ? random.pick(['plain', 'led', 'owning', 'owning'] as const)
          : random.pick(['put', 'put', 'put', 'delete', 'interfere'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        key: random.below(KEYS),
        compacts: random.chance(0.3),
        handlerMs: random.pick([0, 0, random.magnitude(1, 2_000)]),
        concurrency: random.between(1, 3),
        failures: random.pick([0, 0, 0, 1, 3]),
        resyncMs: random.chance(0.1) ? random.between(6_000, 20_000) : undefined,
        runsAgain: random.chance(0.2),
        stopsAfterMs: random.chance(0.2) ? random.magnitude(1, 8_000) : undefined,
      })),
    })),
  // A change of a key causes a run in each controller, and each run makes up to three calls.
  sizeOf: ({ type }) => (isWrite(type) ? 1 : 12),
  begin: (context) => new Controllers(context),
};

/** What the judge knows of one call of `reconcile`. */
interface Controller {
  readonly op: ReconcileOp;
  readonly running: Set<string>;
  /** The number of failed runs since the last success in the same term, for each key. */
  readonly failed: Map<string, number>;
  /** The mod revision of the state of the last successful run of each key. 0n for a deleted key. */
  readonly done: Map<string, bigint>;
  /** The greatest mod revision of the states of each key's runs. */
  readonly seen: Map<string, bigint>;
  /** The keys and states whose handler has asked for one more run. */
  readonly asked: Set<string>;
  /** The keys that have not run since their handlers asked for one more run. */
  readonly awaited: Set<string>;
  token: bigint | undefined;
}

class Controllers implements Player<ReconcileOp> {
  readonly #context: Context<ReconcileOp>;
  #values = 0;

  constructor(context: Context<ReconcileOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<ReconcileOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const running: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      if (isWrite(each.type)) await this.#write(client, each).catch(expected);
      else running.push(this.#reconcile(client, each));
    }
    waits(index, 'its controllers');
    await Promise.all(running);
  }

  async #write(client: Client, { type, key, compacts }: ReconcileOp): Promise<void> {
    if (type === 'put') await client.put(`${WANTED}${key}`, `${this.#values++}`);
    else if (type === 'delete') await client.delete(`${WANTED}${key}`);
    else if (this.#values++ % 2 === 0) await client.put(`${ACTUAL.owning}${key}`, 'foreign');
    else await client.delete(`${ACTUAL.owning}${key}`);
    if (compacts) await client.compact(this.#context.cluster.revision);
  }

  async #reconcile(client: Client, each: ReconcileOp): Promise<void> {
    const { world, healed, violated } = this.#context;
    const { type, concurrency, resyncMs, stopsAfterMs } = each;
    const stop = new AbortController();
    const controller: Controller = {
      op: each,
      running: new Set(),
      failed: new Map(),
      done: new Map(),
      seen: new Map(),
      asked: new Set(),
      awaited: new Set(),
      token: undefined,
    };
    const options = {
      concurrency,
      resyncMs,
      signal: stop.signal,
      onRun: (report: RunReport) => this.#onRun(controller, report),
    };
    const lead = { name: `leaders/${type}`, value: 'x', ttl: TTL_S };
    const owned = [{ keys: prefix(ACTUAL.owning), ownerOf: (key: string) => WANTED + key.slice(ACTUAL.owning.length) }];
    const run = (handler: (run: LeaderKeyRun) => Promise<void>) => (keyRun: LeaderKeyRun) =>
      this.#run(controller, keyRun, () => handler(keyRun));
    const start = (): Promise<void> => {
      if (type === 'led')
        return reconcile(
          client,
          prefix(WANTED),
          { ...options, lead },
          run((keyRun) => record(client, keyRun)),
        );
      if (type === 'owning')
        return reconcile(
          client,
          prefix(WANTED),
          { ...options, lead, owned },
          run((keyRun) => copy(client, keyRun)),
        );
      return reconcile(client, prefix(WANTED), options, (keyRun) => this.#run(controller, keyRun, async () => {}));
    };
    let isStopped = false;
    const reconciling = start().then(
      () => {
        if (!isStopped) violated('reconcile ended', `${type} controller, although nothing has stopped it`);
      },
      (error: unknown) => violated('reconcile rejected', `${type} controller: ${String(error)}`),
    );
    if (stopsAfterMs === undefined) {
      await healed();
      while (!this.#isSettled(controller)) await world.sleep(LOOK_MS);
    } else await world.sleep(stopsAfterMs);
    isStopped = true;
    stop.abort();
    await reconciling;
    if (controller.running.size > 0) violated('run after the end', [...controller.running].join());
  }

  /** One run of a handler: checks its argument, and fails if the plan says so. */
  async #run(controller: Controller, keyRun: KeyRun, handler: () => Promise<void>): Promise<Again | undefined> {
    const { world, violated } = this.#context;
    const { op: each, running, failed, done, seen, asked, awaited } = controller;
    const { key, kv, attempt, signal } = keyRun;
    const from = kv?.modRevision ?? 0n;
    if (running.has(key)) violated('two runs of a key', key);
    running.add(key);
    awaited.delete(key);
    if (running.size > each.concurrency) violated('too many runs', `${running.size} of ${each.concurrency}`);
    const token = (keyRun as Partial<LeaderKeyRun>).held?.token;
    if (token !== controller.token) {
      if (running.size > 1) violated('runs of two terms', `${[...running].join()}, of term ${token}`);
      failed.clear();
    }
    controller.token = token;
    if (attempt !== (failed.get(key) ?? 0) + 1) violated('wrong attempt', `${attempt} of ${key}`);
    if (from > 0n && from < (seen.get(key) ?? 0n)) violated('older state', `${key} of ${from}, after ${seen.get(key)}`);
    if (from > 0n) seen.set(key, from);
    try {
      if (each.handlerMs > 0) await world.sleep(each.handlerMs);
      await handler();
      if (attempt <= each.failures) throw new Planned('planned');
      if (!signal.aborted) done.set(key, from);
      if (!each.runsAgain || asked.has(`${key} ${from}`)) return undefined;
      asked.add(`${key} ${from}`);
      awaited.add(key);
      return { againMs: 50 };
    } finally {
      running.delete(key);
    }
  }

  #onRun({ failed }: Controller, { key, attempt, error }: RunReport): void {
    failed.set(key, error === undefined ? 0 : attempt);
    if (error !== undefined && !(error instanceof Planned)) expected(error);
  }

  #isSettled({ op: { type }, done, seen, awaited }: Controller): boolean {
    const { cluster } = this.#context;
    const wanted = stateAt(cluster, WANTED, cluster.revision);
    if (type === 'plain') {
      if (awaited.size > 0) return false;
      for (const key of seen.keys()) if (!wanted.has(key) && done.get(key) !== 0n) return false;
      return [...wanted].every(([key, { revision }]) => done.get(key) === revision);
    }
    const folder = type === 'led' ? ACTUAL.led : ACTUAL.owning;
    const actual = stateAt(cluster, folder, cluster.revision);
    if (type === 'owning' && actual.size !== wanted.size) return false;
    return [...wanted].every(
      ([key, { revision }]) =>
        actual
          .get(folder + key.slice(WANTED.length))
          ?.value.split(' ')
          .at(-1) === String(revision),
    );
  }

  check(): void {
    const { cluster, violated } = this.#context;
    for (const folder of Object.values(ACTUAL)) {
      let last = 0n;
      const states = new Map<string, bigint>();
      for (const { type, key, value, revision } of cluster.truth) {
        if (type !== 'put' || !key.startsWith(folder) || value === 'foreign') continue;
        const [token = 0n, from = 0n] = value.split(' ').map(BigInt);
        if (token < last) violated('write of an old leader', `${key} by ${token} after ${last}, at ${revision}`);
        last = token;
        if (from > 0n && from < (states.get(key) ?? 0n))
          violated('old state written', `${key} from ${from} after ${states.get(key)}, at ${revision}`);
        if (from > 0n) states.set(key, from);
      }
    }
  }

  mayStay(key: string): boolean {
    return key.startsWith(WANTED) || key.startsWith('a/');
  }
}

function isWrite(type: ReconcileOp['type']): boolean {
  return type === 'put' || type === 'delete' || type === 'interfere';
}

/** What a handler throws because the plan says so. */
class Planned extends Error {}

/** Writes an actual state in each run, so that a late write of an earlier run has no effect. */
async function record(client: Client, { key, kv, held }: LeaderKeyRun): Promise<void> {
  await writeActual(client, ACTUAL.led + key.slice(WANTED.length), held, (actual) =>
    op.put(actual, `${held.token} ${kv?.modRevision ?? 0n}`),
  );
}

/**
 * Makes the actual state agree with the wanted one. The write needs a guard, because a late copy of a put would
 * otherwise take effect after a later run has put and deleted the key: its comparison is then true again.
 */
async function copy(client: Client, { key, kv, held }: LeaderKeyRun): Promise<void> {
  const actual = ACTUAL.owning + key.slice(WANTED.length);
  await writeActual(
    client,
    actual,
    held,
    (name, value) => {
      const has = value?.split(' ').at(-1);
      if (has === kv?.modRevision.toString()) return undefined;
      return kv === undefined ? op.delete(name) : op.put(name, `${held.token} ${kv.modRevision}`);
    },
    { retryWrites: true },
  );
}

async function writeActual(
  client: Client,
  name: string,
  held: LeaderKeyRun['held'],
  change: (
    name: string,
    value: string | undefined,
  ) => ReturnType<typeof op.put> | ReturnType<typeof op.delete> | undefined,
  options: WriteOptions = {},
): Promise<void> {
  const actual = await client.get(name);
  const operation = change(name, actual?.text());
  if (operation === undefined) return;
  const isUnchanged = compare.modRevision(name, '==', actual?.modRevision ?? 0n);
  const { succeeded } = await held.txn({ if: [isUnchanged], then: [operation] }, options);
  if (!succeeded) throw new Planned('another write came first');
}
