import type { EtcdError } from '../../../src/base/etcd-error.js';
import { stm } from '../../../src/extras/recipes/stm.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A transfer between two accounts. */
interface TransferOp {
  readonly afterMs: number;
  readonly from: number;
  readonly to: number;
  readonly isolation: 'serializableSnapshot' | 'serializable' | 'repeatableReads';
  readonly maxWaitMs: number | undefined;
}

const ACCOUNTS = 3;

/** Transfers between accounts, whose sum must not change. */
export const transfers: Workload<TransferOp> = {
  name: 'stm',
  weight: 1,
  isUnary: true,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 5) }, () => ({
        afterMs: random.pick([0, 0, random.magnitude(1, 3_000)]),
        from: random.below(ACCOUNTS),
        to: random.below(ACCOUNTS),
        isolation: random.pick(['serializableSnapshot', 'serializable', 'repeatableReads'] as const),
        maxWaitMs: random.chance(0.3) ? random.magnitude(1, 5_000) : undefined,
      })),
    })),
  begin: (context) => new Transfers(context),
};

class Transfers implements Player<TransferOp> {
  readonly #context: Context<TransferOp>;
  #done = 0;
  /** Number of transfers with an unknown outcome, including the transfers of a killed process. */
  #unknown = 0;

  constructor(context: Context<TransferOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<TransferOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    for (const { afterMs, from, to, isolation, maxWaitMs } of ops) {
      if (afterMs > 0) await world.sleep(afterMs);
      waits(index, 'a transfer');
      this.#unknown += 1;
      try {
        await stm(client, { isolation, maxWaitMs }, async (tx) => {
          const [source, target] = [Number((await tx.text(`a/${from}`)) ?? 0), await tx.text(`a/${to}`)];
          const count = Number((await tx.text('a/count')) ?? 0);
          tx.put('a/count', String(count + 1));
          if (from === to) return;
          tx.put(`a/${from}`, String(source - 1));
          tx.put(`a/${to}`, String(Number(target ?? 0) + 1));
        });
        this.#done += 1;
        this.#unknown -= 1;
      } catch (error) {
        expected(error);
        const { outcome } = error as EtcdError;
        if (outcome !== 'unknown') this.#unknown -= 1;
        if (outcome === 'applied') this.#done += 1;
      }
    }
  }

  check(): void {
    const { cluster, violated } = this.#context;
    const values = new Map<string, number>();
    const truth = cluster.truth.filter(({ key }) => key.startsWith('a/'));
    for (const [at, { key, value, revision }] of truth.entries()) {
      values.set(key, Number(value));
      if (truth[at + 1]?.revision === revision) continue;
      const sum = [...values].reduce((total, [name, amount]) => (name === 'a/count' ? total : total + amount), 0);
      if (sum !== 0) violated('wrong sum', `${sum} at revision ${revision}`);
    }
    const count = values.get('a/count') ?? 0;
    if (count < this.#done || count > this.#done + this.#unknown)
      violated('wrong count', `${count} after ${this.#done} transfers and ${this.#unknown} with an unknown outcome`);
  }

  mayStay(): boolean {
    return true;
  }
}
