import { type Slot, Slots } from '../../../src/extras/recipes/slots.js';
import { Session } from '../../../src/locks/session.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A number that a process takes, and for how long the process holds it. */
interface SlotOp {
  readonly afterMs: number;
  readonly heldMs: number;
  readonly maxWaitMs: number | undefined;
  readonly isTry: boolean;
  readonly isParallel: boolean;
}

const NAME = 'n';
const COUNT = 3;
/** Matches the key of a holder. */
const SLOT_KEY = /^n\/slots\/(\d+)\//;

/** Processes that take numbers from 0 to 2. */
export const slots: Workload<SlotOp> = {
  name: 'slots',
  weight: 1,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 5) }, () => ({
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        heldMs: random.pick([0, random.magnitude(1, 4_000)]),
        maxWaitMs: random.chance(0.3) ? random.magnitude(1, 5_000) : undefined,
        isTry: random.chance(0.3),
        isParallel: random.chance(0.4),
      })),
    })),
  begin: (context) => new TakenSlots(context),
};

class TakenSlots implements Player<SlotOp> {
  readonly #context: Context<SlotOp>;

  constructor(context: Context<SlotOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<SlotOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, 'its session');
      const session = await Session.open(client, { ttl: 2 }).catch(expected);
      if (session === undefined) continue;
      waits(index, each.isTry ? 'tryTake' : 'take');
      const attempt = this.#hold(session, each);
      if (each.isParallel) parallel.push(attempt);
      else await attempt;
    }
    await Promise.all(parallel);
  }

  async #hold(session: Session, { heldMs, maxWaitMs, isTry }: SlotOp): Promise<void> {
    const { world, violated } = this.#context;
    const numbers = new Slots(session, NAME, COUNT);
    try {
      const slot: Slot | undefined = await (isTry ? numbers.tryTake({ maxWaitMs }) : numbers.take({ maxWaitMs }));
      if (slot === undefined) return;
      if (slot.number >= COUNT) violated('number without a slot', String(slot.number));
      await world.sleep(heldMs);
      await slot.release();
    } catch (error) {
      expected(error);
    } finally {
      await session.close().catch(expected);
    }
  }

  check(): void {
    const { cluster, violated } = this.#context;
    const holders = new Map<string, string>();
    for (const { type, key, revision } of cluster.truth) {
      const number = SLOT_KEY.exec(key)?.[1];
      if (number === undefined) continue;
      const holder = holders.get(number);
      if (type === 'put' && holder !== undefined && holder !== key)
        violated('two holders of a number', `${holder} and ${key} at revision ${revision}`);
      if (type === 'put') holders.set(number, key);
      else holders.delete(number);
    }
  }

  mayStay(): boolean {
    return false;
  }
}
