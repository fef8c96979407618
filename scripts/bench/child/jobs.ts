import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../../../src/index.js';
import { WorkQueue } from '../../../src/recipes.js';
import { inTurn } from '../in-turn.js';
import type { Sample } from '../metrics.js';
import { Stopwatch } from './tasks.js';

const ENQUEUED_AT_ONCE = 256;

export interface Jobs {
  readonly jobs: number;
  readonly workers: number;
  /** Number of jobs that a worker works on at the same time. */
  readonly concurrency: number;
  /** How long a job takes, in milliseconds. */
  readonly handlerMs: number;
}

/**
 * Measures how long workers take for the jobs of a queue. Each worker has its own client.
 *
 * @throws Error if a job runs more than once, or is left in the queue.
 */
export async function measureJobs(endpoint: string, { jobs, workers, concurrency, handlerMs }: Jobs): Promise<Sample> {
  const clients = Array.from({ length: workers }, () => new Client({ endpoints: [endpoint], timeoutMs: 60_000 }));
  const name = `bench/jobs/${Math.random().toString(36).slice(2)}`;
  const queues = clients.map((client) => new WorkQueue(client, name));
  const [first] = queues as [WorkQueue];
  await inTurn(ENQUEUED_AT_ONCE, jobs, (index) => first.enqueue(`${index}`));
  const stop = new AbortController();
  const runs = new Map<string, number>();
  const stopwatch = new Stopwatch();
  const startMs = performance.now();
  const handle = async (job: { text(): string }): Promise<void> => {
    await sleep(handlerMs);
    runs.set(job.text(), (runs.get(job.text()) ?? 0) + 1);
    if (runs.size === jobs) stop.abort();
  };
  await Promise.all(queues.map((queue) => queue.work({ concurrency, signal: stop.signal }, handle)));
  const sample = { ...stopwatch.sample(jobs), totalMs: performance.now() - startMs };
  const again = [...runs.values()].filter((count) => count > 1).length;
  const { ready, delayed, running, dead } = await first.counts();
  await Promise.all(clients.map((client) => client.close()));
  const left = ready + delayed + running + dead;
  if (again + left > 0) throw new Error(`${again} jobs ran more than once, and ${left} jobs are left`);
  return sample;
}
