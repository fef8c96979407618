import type { Client } from '../../../src/extras/full/client.js';
import { checkOrder, type OrderedCall, type OrderedResult } from '../../../src/testing/checks/check-calls.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { WorldHistory } from '../world-history.js';
import { expected } from './expected.js';

/** A serializable read, or a write. */
interface OrderedOp {
  readonly type: 'read' | 'write';
  readonly afterMs: number;
  readonly key: string;
  readonly isParallel: boolean;
}

/** Serializable reads at members that lag behind, with the option `orderedReads`. */
export const orderedReads: Workload<OrderedOp> = {
  name: 'ordered reads',
  weight: 1,
  isUnary: true,
  without: ['duplicate request'],
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(2, 8) }, () => ({
        type: random.pick(['read', 'read', 'write'] as const),
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
        key: random.pick(['o/a', 'o/b']),
        isParallel: random.chance(0.3),
      })),
    })),
  begin: (context) => new OrderedReadsPlayer(context),
};

class OrderedReadsPlayer implements Player<OrderedOp> {
  readonly #context: Context<OrderedOp>;
  /** The calls of each process. The order holds for each client, not between clients. */
  readonly #histories: readonly WorldHistory<OrderedCall, OrderedResult>[];
  #values = 0;

  constructor(context: Context<OrderedOp>) {
    this.#context = context;
    this.#histories = context.plan.processes.map(() => new WorldHistory(context.world));
  }

  async play(index: number, { ops }: ProcessPlan<OrderedOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index, { orderedReads: true });
    const history = this.#histories[index] as WorldHistory<OrderedCall, OrderedResult>;
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, `${each.type} of ${each.key}`);
      const call = this.#call(client, history, `process ${index}`, each).catch(expected);
      if (each.isParallel) parallel.push(call);
      else await call;
    }
    await Promise.all(parallel);
  }

  async #call(
    client: Client,
    history: WorldHistory<OrderedCall, OrderedResult>,
    process: string,
    { type, key }: OrderedOp,
  ): Promise<void> {
    const value = `v${this.#values++}`;
    if (type === 'write')
      await history.record(process, { type, key, value }, async () => ({
        revision: (await client.put(key, value)).header.revision,
      }));
    else
      await history.record(process, { type, key }, async () => {
        const { header, kvs } = await client.range(key, { serializable: true });
        return { revision: header.revision, value: kvs[0]?.text() };
      });
  }

  check(): void {
    for (const { operations } of this.#histories)
      for (const { rule, detail } of checkOrder(operations, this.#context.cluster.truth))
        this.#context.violated(rule, detail);
  }

  mayStay(): boolean {
    return true;
  }
}
