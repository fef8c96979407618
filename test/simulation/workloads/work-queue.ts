import { EtcdError } from '../../../src/base/etcd-error.js';
import { op } from '../../../src/client/kv/txn.js';
import type { Job } from '../../../src/extras/recipes/job.js';
import { WorkQueue } from '../../../src/extras/recipes/work-queue.js';
import { WALL_CLOCK_FAULTS } from '../faults.js';
import type { ProcessPlan } from '../plan.js';
import type { Context, Player, Workload } from '../workload.js';
import { expected } from './expected.js';

/** A job that a process enqueues, and the action of its handler at the first try. Every later try completes the job. */
interface JobOp {
  readonly afterMs: number;
  /** An ID that the caller chooses. Several jobs may have the same ID. */
  readonly id: string | undefined;
  readonly priority: number;
  readonly delayMs: number;
  readonly firstTry: 'complete' | 'throw' | 'retry' | 'release' | 'ignore';
  readonly handlerMs: number;
}

const NAME = 'w';
/** Longer than any history, so that no job with an ID from the caller may run twice. */
const ID_TTL_S = 1_000;

/** Jobs that workers complete, each together with a result. */
export const jobs: Workload<JobOp> = {
  name: 'work queue',
  weight: 1,
  generate: (random) =>
    Array.from({ length: random.between(1, 3) }, () => ({
      ops: Array.from({ length: random.between(1, 5) }, () => ({
        afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
        id: random.chance(0.5) ? `own-${random.below(3)}` : undefined,
        priority: random.below(3),
        delayMs: random.pick([0, 0, random.magnitude(1, 2_000)]),
        firstTry: random.pick(['complete', 'complete', 'throw', 'retry', 'release', 'ignore'] as const),
        handlerMs: random.pick([0, 0, random.magnitude(1, 5_000)]),
      })),
    })),
  begin: (context) => new Jobs(context),
};

class Jobs implements Player<JobOp> {
  readonly #context: Context<JobOp>;
  /** The outcome of each `enqueue`, by the job's value. */
  readonly #enqueued = new Map<string, 'ok' | 'known' | 'unknown' | 'fail'>();
  readonly #ops = new Map<string, JobOp>();
  /** The values of the jobs of each process, in the order of its calls of `enqueue`. */
  readonly #calls: (readonly string[])[] = [];
  #values = 0;
  #finished = 0;

  constructor(context: Context<JobOp>) {
    this.#context = context;
  }

  async play(index: number, { ops }: ProcessPlan<JobOp>): Promise<void> {
    const { world, waits } = this.#context;
    const client = this.#context.client(index);
    const queue = new WorkQueue(client, NAME, { maxAttempts: 1_000, retryDelayMs: () => 100, idTtl: ID_TTL_S });
    const stop = new AbortController();
    const working = queue.work({ concurrency: 3, ttl: 2, signal: stop.signal }, (job) => this.#handle(job));
    // A rejection must not be unhandled until the process awaits it.
    working.catch(() => {});
    let calls: Promise<void>[] = [];
    const own: string[] = [];
    this.#calls.push(own);
    for (const each of ops) {
      // Calls without a pause between them begin in the same millisecond.
      if (each.afterMs > 0) {
        waits(index, 'enqueue');
        await Promise.all(calls);
        calls = [];
        await world.sleep(each.afterMs);
      }
      const value = `job ${this.#values++}`;
      own.push(value);
      calls.push(this.#enqueue(queue, value, each));
    }
    waits(index, 'enqueue');
    await Promise.all(calls);
    await this.#context.healed();
    waits(index, 'the rest of the queue');
    while (!(await isEmpty(queue))) await world.sleep(200);
    stop.abort();
    waits(index, 'the end of its work');
    await working;
    this.#finished += 1;
  }

  async #enqueue(queue: WorkQueue, value: string, each: JobOp): Promise<void> {
    this.#enqueued.set(value, 'unknown');
    this.#ops.set(value, each);
    const { id, priority, delayMs } = each;
    try {
      const { added } = await queue.enqueue(value, { id, priority, delayMs, timeoutMs: 5_000 });
      this.#enqueued.set(value, added ? 'ok' : 'known');
    } catch (error) {
      expected(error);
      this.#enqueued.set(value, (error as EtcdError).outcome === 'unknown' ? 'unknown' : 'fail');
    }
  }

  async #handle(job: Job): Promise<void> {
    const each = this.#ops.get(job.text());
    if (each === undefined) return this.#context.violated('invented job', job.text());
    if (each.handlerMs > 0) await this.#context.world.sleep(each.handlerMs);
    const result = [op.put(`r/${job.text()}`, `${job.id} ${job.attempt}`)];
    if (job.attempt > 1 || each.firstTry === 'complete') return job.complete(result);
    if (each.firstTry === 'throw') throw new Error('the first try fails');
    if (each.firstTry === 'retry') return job.retry({ delayMs: 50 });
    if (each.firstTry === 'release') return job.held.release();
    // This handler ignores the loss of its job. If the job is not lost, `work` completes the job without a result.
    await job.held.txn({ then: result });
  }

  check(): void {
    this.#checkOrder();
    const { cluster, violated } = this.#context;
    /** The results by the value of the job, and by its ID. */
    const results = new Map<string, string[]>();
    const byId = new Map<string, Set<string>>();
    for (const { type, key, value } of cluster.truth) {
      if (type !== 'put' || !key.startsWith('r/')) continue;
      const job = key.slice('r/'.length);
      const [id = ''] = value.split(' ');
      results.set(job, [...(results.get(job) ?? []), value]);
      byId.set(id, (byId.get(id) ?? new Set()).add(job));
    }
    for (const [value, outcome] of this.#enqueued) {
      const of = results.get(value) ?? [];
      const { id } = this.#ops.get(value) as JobOp;
      if (outcome === 'ok' && of.length === 0 && this.#finished > 0) violated('lost job', value);
      if (outcome === 'fail' && of.length > 0) violated('job of a failed call', value);
      // A handler that writes its result before the job is complete may write it once for each try.
      const isAtomic = this.#ops.get(value)?.firstTry !== 'ignore';
      if (id !== undefined && isAtomic && of.length > 1) violated('two results', `${value}: ${of.join(', ')}`);
    }
    for (const [id, values] of byId)
      if (id.startsWith('own-') && values.size > 1) violated('two jobs of one ID', `${id}: ${[...values].join(', ')}`);
  }

  /** Checks that the keys of the ready jobs of one process and one priority have the order of its calls. */
  #checkOrder(): void {
    const { cluster, plan, violated } = this.#context;
    if (plan.faults.some(({ kind }) => (WALL_CLOCK_FAULTS as readonly string[]).includes(kind))) return;
    const values = new Map<string, string>();
    const readyOf = new Map<string, string>();
    for (const { type, key, value } of cluster.truth) {
      const id = key.slice(key.lastIndexOf('/') + 1);
      if (type === 'put' && key.startsWith('w/jobs/')) values.set(id, value);
      if (type === 'put' && key.startsWith('w/todo/ready/')) readyOf.set(values.get(id) ?? id, key);
    }
    for (const calls of this.#calls) {
      const latest = new Map<number, string>();
      for (const value of calls) {
        const { priority } = this.#ops.get(value) as JobOp;
        const [ready, before] = [readyOf.get(value), latest.get(priority)];
        if (ready === undefined) continue;
        if (before !== undefined && ready < before) violated('order of the jobs', `${before} before ${ready}`);
        latest.set(priority, ready);
      }
    }
  }

  mayStay(key: string): boolean {
    // A late copy of a request may add a job after the last worker has stopped.
    if (/^w\/(?:jobs|todo)\//.test(key) || key.startsWith('r/')) return true;
    if (key.startsWith('w/done/')) return true;
    // If all workers were killed, no process returns their jobs.
    return key.startsWith('w/held/claimed/') && this.#finished === 0;
  }

  /** A late copy of a grant creates another lease for IDs, which lasts longer than the history. */
  mayLeasesStay(): boolean {
    return true;
  }
}

async function isEmpty(queue: WorkQueue): Promise<boolean> {
  try {
    const { ready, delayed, running } = await queue.counts({ timeoutMs: 50_000 });
    return ready + delayed + running === 0;
  } catch (error) {
    if (error instanceof EtcdError) expected(error);
    return false;
  }
}
