import { EtcdError } from '../../../src/base/etcd-error.js';
import { prefix } from '../../../src/client/kv/keys.js';
import type { Client } from '../../../src/extras/full/client.js';
import { PriorityQueue, Queue } from '../../../src/extras/recipes/queue.js';
import { Session } from '../../../src/locks/session.js';
import type { ProcessPlan } from '../plan.js';
import { stateAt } from '../states.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** An item that a process enqueues, or a wait for an item. */
interface QueueOp {
  readonly type: 'enqueue' | 'dequeue';
  readonly afterMs: number;
  readonly priority: number;
  readonly maxWaitMs: number | undefined;
  readonly isParallel: boolean;
}

const NAME = 'q/jobs';

function queueWorkload(name: string, hasPriorities: boolean): Workload<QueueOp> {
  return {
    name,
    weight: 1,
    generate: (random) =>
      Array.from({ length: random.between(1, 3) }, () => ({
        ops: Array.from({ length: random.between(1, 6) }, () => ({
          type: random.pick(['enqueue', 'enqueue', 'dequeue'] as const),
          afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
          priority: random.below(3),
          maxWaitMs: random.chance(0.3) ? random.magnitude(1, 5_000) : undefined,
          isParallel: random.chance(0.3),
        })),
      })),
    begin: (context) => new Queues(context, hasPriorities),
  };
}

export const QUEUES = [queueWorkload('queue', false), queueWorkload('priority queue', true)];

class Queues implements Player<QueueOp> {
  readonly #context: Context<QueueOp>;
  readonly #hasPriorities: boolean;
  /** The outcome of each `enqueue`, by item. */
  readonly #enqueued = new Map<string, 'ok' | 'unknown' | 'fail'>();
  readonly #dequeued: string[] = [];
  /**
   * Number of waits that may have taken an item although no consumer has got the item, including the waits of killed
   * processes.
   */
  #lost = 0;
  #items = 0;

  constructor(context: Context<QueueOp>, hasPriorities: boolean) {
    this.#context = context;
    this.#hasPriorities = hasPriorities;
  }

  async play(index: number, { ops }: ProcessPlan<QueueOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const parallel: Promise<void>[] = [];
    for (const each of ops) {
      if (each.afterMs > 0) await world.sleep(each.afterMs);
      waits(index, each.type);
      const call = each.type === 'enqueue' ? this.#enqueue(client, each) : this.#dequeue(client, each);
      if (each.isParallel) parallel.push(call);
      else await call;
    }
    await Promise.all(parallel);
    await this.#context.healed();
    waits(index, 'the rest of the queue');
    await this.#drain(client);
  }

  async #enqueue(client: Client, { priority }: QueueOp): Promise<void> {
    const item = `item ${this.#items++}`;
    this.#enqueued.set(item, 'unknown');
    try {
      if (this.#hasPriorities) await new PriorityQueue(client, NAME).enqueue(item, priority);
      else await new Queue(client, NAME).enqueue(item);
      this.#enqueued.set(item, 'ok');
    } catch (error) {
      expected(error);
      this.#enqueued.set(item, (error as EtcdError).outcome === 'unknown' ? 'unknown' : 'fail');
    }
  }

  async #dequeue(client: Client, { maxWaitMs }: QueueOp): Promise<void> {
    // Without a limit, the wait could last until the end, because no process has to enqueue another item.
    await this.#take(client, maxWaitMs ?? 5_000).catch(expected);
  }

  async #take(client: Client, maxWaitMs: number): Promise<void> {
    const session = await Session.open(client, { ttl: 2 });
    this.#lost += 1;
    try {
      const queue = this.#hasPriorities ? new PriorityQueue(client, NAME) : new Queue(client, NAME);
      this.#dequeued.push((await queue.dequeue(session, { maxWaitMs })).text());
      this.#lost -= 1;
    } catch (error) {
      if (!(error instanceof EtcdError) || error.outcome !== 'unknown') this.#lost -= 1;
      throw error;
    } finally {
      await session.close().catch(expected);
    }
  }

  /** Takes all items that are left. */
  async #drain(client: Client): Promise<void> {
    for (;;) {
      const { count } = await client.range(prefix(`${NAME}/`), { countOnly: true, timeoutMs: 50_000 });
      if (count === 0) return;
      await this.#take(client, 2_000).catch(expected);
    }
  }

  check(): void {
    const { violated, cluster } = this.#context;
    const taken = new Set<string>();
    for (const item of this.#dequeued) {
      if (taken.has(item)) violated('taken twice', item);
      taken.add(item);
      const outcome = this.#enqueued.get(item);
      if (outcome === undefined || outcome === 'fail') violated('invented item', `${item}: ${outcome}`);
    }
    const left = this.#hasKills
      ? new Set([...stateAt(cluster, 'q/', cluster.revision).values()].map(({ value }) => value))
      : new Set();
    const missing = [...this.#enqueued].filter(
      ([item, outcome]) => outcome === 'ok' && !taken.has(item) && !left.has(item),
    );
    if (missing.length > this.#lost) violated('lost item', missing.map(([item]) => item).join());
  }

  /** Whether a process may have been killed, so that no process empties the queue after its last item. */
  get #hasKills(): boolean {
    return this.#context.plan.faults.some(({ kind }) => kind === 'kill');
  }

  mayStay(key: string): boolean {
    if (key.startsWith('q/__') || key.startsWith('__q/')) return true;
    if (this.#hasKills) return true;
    // A request may arrive after the last process has emptied the queue.
    const item = this.#context.cluster.truth.findLast((event) => event.key === key)?.value ?? '';
    return this.#enqueued.get(item) === 'unknown';
  }
}
