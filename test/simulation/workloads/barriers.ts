import { EtcdError } from '../../../src/base/etcd-error.js';
import type { Client } from '../../../src/extras/full/client.js';
import { Barrier } from '../../../src/extras/recipes/barrier.js';
import { DoubleBarrier } from '../../../src/extras/recipes/double-barrier.js';
import { Session } from '../../../src/locks/session.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A call to a barrier, or a round of a double barrier. */
interface BarrierOp {
  readonly type: 'hold' | 'release' | 'wait' | 'round';
  readonly afterMs: number;
  readonly maxWaitMs: number | undefined;
  /** How long a round lasts, in milliseconds. */
  readonly workMs: number;
}

const NAME = 'b/gate';
const DOUBLE = 'b/double';
const COUNT = 2;

/** Barriers: a waiter passes only when the key does not exist. */
export const barriers: Workload<BarrierOp> = {
  name: 'barrier',
  toleratesCopies: true,
  weight: 1,
  without: ['kill'],
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 5) }, () => ({
        type: random.pick(['hold', 'release', 'wait', 'wait'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        maxWaitMs: random.chance(0.3) ? random.magnitude(1, 5_000) : undefined,
        workMs: 0,
      })),
    })),
  begin: (context) => new Barriers(context),
};

/** Double barriers: the participants begin together, and end together. */
export const doubleBarriers: Workload<BarrierOp> = {
  name: 'double barrier',
  weight: 1,
  // A killed process leaves its round when its lease ends, which is not recorded.
  without: ['kill'],
  generate: (random) =>
    Array.from({ length: COUNT }, () => ({
      ops: Array.from({ length: random.between(1, 3) }, () => ({
        type: 'round' as const,
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        maxWaitMs: random.pick([1_000, 4_000, 15_000]),
        workMs: random.pick([0, random.magnitude(1, 2_000)]),
      })),
    })),
  begin: (context) => new Barriers(context),
};

/** A time during which a participant was inside a round, from its entrance to the start of its leave. */
interface Inside {
  readonly process: number;
  readonly enteredMs: number;
  leavingMs: number;
  leftMs: number;
  /** Whether the session was lost or `leave` failed, which counts as leaving. */
  isLost: boolean;
}

class Barriers implements Player<BarrierOp> {
  readonly #context: Context<BarrierOp>;
  /** The waits that have ended, each with its start and its end. */
  readonly #passed: { readonly process: number; readonly fromMs: number; readonly toMs: number }[] = [];
  readonly #inside: Inside[] = [];
  /** The times of the calls of `enter`. */
  readonly #arrived: number[] = [];

  constructor(context: Context<BarrierOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<BarrierOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      await this.#call(client, index, each).catch(expected);
    }
    await this.#context.healed();
    // Each process releases the barrier at its end, so the last process lets the remaining waiters pass.
    waits(index, 'the release');
    for (let isOpen = false; !isOpen; ) {
      await new Barrier(client, NAME).release().then(
        () => {
          isOpen = true;
        },
        (error: unknown) => expected(error),
      );
      await world.sleep(100);
    }
  }

  async #call(client: Client, index: number, { type, maxWaitMs, workMs }: BarrierOp): Promise<void> {
    const { world } = this.#context;
    const barrier = new Barrier(client, NAME);
    switch (type) {
      case 'hold':
        await barrier.hold();
        return;
      case 'release':
        await barrier.release();
        return;
      case 'wait': {
        const fromMs = world.time;
        // The process that holds the barrier may be waiting, too, so the wait needs a limit.
        await barrier.wait({ maxWaitMs: maxWaitMs ?? 8_000 });
        this.#passed.push({ process: index, fromMs, toMs: world.time });
        return;
      }
      case 'round':
        return this.#round(client, index, maxWaitMs, workMs);
    }
  }

  async #round(client: Client, index: number, maxWaitMs: number | undefined, workMs: number): Promise<void> {
    const { world } = this.#context;
    const session = await Session.open(client, { ttl: 2 });
    try {
      const barrier = new DoubleBarrier(session, DOUBLE, COUNT);
      this.#arrived.push(world.time);
      await barrier.enter({ maxWaitMs });
      const inside: Inside = {
        process: index,
        enteredMs: world.time,
        leavingMs: Number.POSITIVE_INFINITY,
        leftMs: Number.POSITIVE_INFINITY,
        isLost: false,
      };
      this.#inside.push(inside);
      if (workMs > 0) await world.sleep(workMs);
      if (!session.valid()) {
        inside.isLost = true;
        return;
      }
      inside.leavingMs = world.time;
      await barrier.leave({ maxWaitMs: 30_000 }).catch((error: unknown) => {
        inside.isLost = true;
        throw error;
      });
      inside.leftMs = world.time;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
    } finally {
      await session.close().catch(expected);
    }
  }

  check(): void {
    const { cluster, violated } = this.#context;
    /** The times when the barrier's key existed, in order. */
    const closed: { fromMs: number; toMs: number }[] = [];
    for (const { type, key, ms } of cluster.truth) {
      if (key !== NAME) continue;
      const last = closed.at(-1);
      if (type === 'put' && last?.toMs !== Number.POSITIVE_INFINITY)
        closed.push({ fromMs: ms, toMs: Number.POSITIVE_INFINITY });
      else if (type === 'delete' && last !== undefined) last.toMs = ms;
    }
    for (const { process, fromMs, toMs } of this.#passed)
      if (closed.some((time) => time.fromMs < fromMs && time.toMs > toMs))
        violated('passed a closed barrier', `process ${process} at ${toMs}`);
    for (const { process, enteredMs } of this.#inside) {
      // A process may count twice: the key of a session that could not be closed exists until its lease ends.
      if (this.#arrived.filter((fromMs) => fromMs <= enteredMs).length < COUNT)
        violated('began alone', `process ${process} at ${enteredMs}`);
    }
    for (const one of this.#inside) {
      const together = this.#inside.find(
        (other) => other.process !== one.process && other.enteredMs < one.leftMs && one.enteredMs < other.leftMs,
      );
      // The participants of a round leave together, unless one of them is lost.
      if (one.leftMs < (together?.leavingMs ?? 0) && together?.isLost === false)
        violated('left alone', `process ${one.process} at ${one.leftMs}`);
    }
  }

  mayStay(key: string): boolean {
    return key.startsWith('b/__') || key === `${DOUBLE}/epoch` || key === `${DOUBLE}/ready` || key === NAME;
  }
}
