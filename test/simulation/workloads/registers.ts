import { EtcdError } from '../../../src/base/etcd-error.js';
import { GUARD_PREFIX } from '../../../src/client/kv/keys.js';
import { compare, op } from '../../../src/client/kv/txn.js';
import type { Client } from '../../../src/extras/full/client.js';
import {
  checkOrder,
  checkPuts,
  checkRegister,
  type OrderedCall,
  type OrderedResult,
  type PutCall,
  type RegisterCall,
  type RegisterResult,
} from '../../../src/testing/checks/check-calls.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { WorldHistory } from '../world-history.js';

/** One call to a register, or the end of the client while calls run. */
interface RegisterOp {
  readonly type: 'read' | 'write' | 'delete' | 'swap' | 'close';
  readonly key: string;
  readonly afterMs: number;
  readonly timeoutMs: number | undefined;
  /** Whether the process does not wait for the call. */
  readonly isParallel: boolean;
}

/**
 * The time limits, in milliseconds, of the calls with which a client finds out whether a server answers again. The
 * longer limit is for histories with authentication and long delays: if a learner refuses to authenticate the client,
 * the client tries another member. With the tests of idle connections (S43), one of these calls takes up to seven round
 * trips of 400 ms.
 */
const SHORT_MS = 1_000;
const SHORT_WITH_AUTH_MS = 3_000;
/** The time in milliseconds between two calls with which a client finds out whether a server answers again. */
const REST_MS = 6_000;

/** Reads, writes and compare-and-swaps of single keys by several processes. */
export const registers: Workload<RegisterOp> = {
  name: 'registers',
  weight: 2,
  isUnary: true,
  // A copy of a plain put takes effect twice, which no client can prevent.
  without: ['duplicate request'],
  generate: (random) => {
    const keys = random.chance(0.7) ? ['r/a'] : ['r/a', 'r/b'];
    return Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 8) }, () => ({
        type: random.chance(0.05)
          ? ('close' as const)
          : random.pick(['read', 'read', 'write', 'write', 'delete', 'swap'] as const),
        key: random.pick(keys),
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        timeoutMs: random.chance(0.2) ? random.magnitude(5, 5_000) : undefined,
        isParallel: random.chance(0.3),
      })),
    }));
  },
  begin: (context) => new Registers(context),
};

class Registers implements Player<RegisterOp> {
  readonly #context: Context<RegisterOp>;
  readonly #puts: WorldHistory<PutCall, unknown>;
  readonly #order: WorldHistory<OrderedCall, OrderedResult>;
  readonly #registers = new Map<string, WorldHistory<RegisterCall, RegisterResult>>();
  /** The last value of a key that each process has seen. */
  readonly #known = new Map<string, string | undefined>();
  #values = 0;

  constructor(context: Context<RegisterOp>) {
    this.#context = context;
    this.#puts = new WorldHistory(context.world);
    this.#order = new WorldHistory(context.world);
  }

  async play(index: number, { ops }: ProcessPlan<RegisterOp>): Promise<void> {
    const { world } = this.#context;
    const client = this.#context.client(index);
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      this.#context.waits(index, `${each.type} of ${each.key}`);
      const call = this.#call(client, `process ${index}`, each).catch((error: unknown) => {
        if (!(error instanceof EtcdError) || error.reason === 'InvalidInput') throw error;
      });
      if (each.isParallel) parallel.push(call);
      else await call;
    }
    await Promise.all(parallel);
    if (ops.every(({ type }) => type !== 'close')) await this.#reachServer(client, index);
  }

  /**
   * Makes short calls, with pauses of `REST_MS`, until one of them succeeds. The client must not make all these calls
   * on a dead connection.
   */
  async #reachServer(client: Client, index: number): Promise<void> {
    const { healed, waits, world, plan } = this.#context;
    const timeoutMs = plan.traits?.hasAuth && plan.delays === 'long' ? SHORT_WITH_AUTH_MS : SHORT_MS;
    await healed();
    waits(index, 'a call that succeeds');
    for (;;) {
      const isReached = await client.get('r/a', { timeoutMs }).then(
        () => true,
        () => false,
      );
      if (isReached) return;
      await world.sleep(REST_MS);
    }
  }

  async #call(client: Client, process: string, { type, key, timeoutMs }: RegisterOp): Promise<void> {
    const options = { timeoutMs };
    const known = `${process} ${key}`;
    const register = this.#registers.get(key) ?? new WorldHistory<RegisterCall, RegisterResult>(this.#context.world);
    this.#registers.set(key, register);
    const value = `v${this.#values++}`;
    switch (type) {
      case 'read':
        await register.record(process, { type }, async () => {
          const { value: read } = await this.#order.record(process, { type, key }, async () => {
            const { header, kvs } = await client.range(key, options);
            return { revision: header.revision, value: kvs[0]?.text() };
          });
          this.#known.set(known, read);
          return read;
        });
        return;
      case 'write': {
        // The caller may change its buffer as soon as the call has started.
        const buffer = new TextEncoder().encode(value);
        await register.record(process, { type, value }, async () => {
          await this.#puts.record(process, { key, value }, () =>
            this.#order.record(process, { type, key, value }, async () => {
              const putting = client.put(key, buffer, options);
              buffer.fill(63);
              return { revision: (await putting).header.revision };
            }),
          );
          return undefined;
        });
        this.#known.set(known, value);
        return;
      }
      case 'close':
        return client.close();
      case 'delete':
        await register.record(process, { type: 'write', value: undefined }, async () => {
          await client.delete(key, options);
          return undefined;
        });
        return;
      case 'swap': {
        const expected = this.#known.get(known);
        await register.record(process, { type: 'compare-and-swap', expected, value }, async () => {
          const isExpected = expected === undefined ? compare.missing(key) : compare.value(key, '==', expected);
          const { succeeded } = await client.txn({ if: [isExpected], then: [op.put(key, value)] }, options);
          return succeeded;
        });
      }
    }
  }

  check(): void {
    const { cluster, violated } = this.#context;
    const { truth } = cluster;
    const puts = truth.filter(({ type, key }) => type === 'put' && !key.startsWith(GUARD_PREFIX));
    const written = new Set(this.#puts.operations.map(({ call }) => call.value));
    // Values of compare-and-swaps are checked by `checkRegister`.
    const swapped = new Set(
      [...this.#registers.values()].flatMap(({ operations }) =>
        operations.flatMap(({ call }) => (call.type === 'compare-and-swap' ? [call.value] : [])),
      ),
    );
    for (const { rule, detail } of checkPuts(
      this.#puts.operations,
      puts.filter(({ value }) => written.has(value) || !swapped.has(value)),
    ))
      violated(rule, detail);
    for (const { rule, detail } of checkOrder(this.#order.operations, truth)) violated(rule, detail);
    for (const [key, { operations }] of this.#registers)
      for (const { rule, detail } of checkRegister(operations)) violated(rule, `${key}: ${detail}`);
  }

  mayStay(): boolean {
    return true;
  }
}
