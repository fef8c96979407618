import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Client, prefix } from '../../../src/index.js';
import { WorkQueue, type WorkQueueOptions } from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// When a worker runs a delayed job, on a virtual clock: at the time in the key of the job, but at the latest when the
// delay has passed since the worker first saw the job.

const DELAY_MS = 10_000;
const HOUR_MS = 3_600_000;

let clock: VirtualClock;
let etcd: Client;

beforeEach(() => {
  clock = new VirtualClock();
  etcd = new Client({ transport: memory(new MemoryEtcd()) });
  onTestFinished(() => etcd.close());
});

afterEach(() => clock.restore());

/** Runs the jobs of the queue until the test ends. Each entry of the result is the text of a job and the time. */
function work(options: WorkQueueOptions = {}, handler: (text: string) => void = () => {}): [string, number][] {
  const runs: [string, number][] = [];
  const stop = new AbortController();
  const queue = new WorkQueue(etcd, 'emails', options);
  const working = queue.work({ signal: stop.signal, ttl: 600 }, (job) => {
    runs.push([job.text(), clock.now - begun]);
    handler(job.text());
  });
  const begun = clock.now;
  onTestFinished(async () => {
    stop.abort();
    await working;
  });
  return runs;
}

describe('a worker whose wall clock is an hour behind that of the process that has enqueued a job with a delay of 10 s', () => {
  test('runs the job 10 s after it has first seen the job, although it has looked at the queue again in between', async () => {
    const queue = new WorkQueue(etcd, 'emails');
    await queue.enqueue('delayed', { delayMs: DELAY_MS });
    clock.wallOffsetMs -= HOUR_MS;
    const runs = work();
    await clock.pass(6_000);
    await queue.enqueue('at once');
    await clock.pass(6_000);
    expect(runs).toEqual([
      ['at once', 6_000],
      ['delayed', DELAY_MS],
    ]);
  });

  test('waits 10 s again when another worker has tried the job in the meantime and has delayed it again', async () => {
    const queue = new WorkQueue(etcd, 'emails');
    await queue.enqueue('delayed', { delayMs: DELAY_MS });
    clock.wallOffsetMs -= HOUR_MS;
    const runs = work();
    await clock.pass(6_000);
    const [kv] = (await etcd.range(prefix('emails/todo/delayed/'))).kvs;
    // This put does in one step what the claim and the retry of the other worker do.
    await etcd.put(kv?.key ?? '', JSON.stringify({ ...JSON.parse(kv?.text() ?? ''), attempts: 1 }));
    await clock.pass(DELAY_MS - 1_000);
    expect(runs).toEqual([]);
    await clock.pass(2_000);
    expect(runs).toEqual([['delayed', 6_000 + DELAY_MS]]);
  });
});

test('a worker that sees a delayed job after 6 of 10 s runs the job 4 s later', async () => {
  await new WorkQueue(etcd, 'emails').enqueue('delayed', { delayMs: DELAY_MS });
  clock.block(6_000);
  const runs = work();
  await clock.pass(6_000);
  expect(runs).toEqual([['delayed', 4_000]]);
});

test('a job that was dead and is tried again waits for the whole delay after its next failure', async () => {
  const options = { maxAttempts: 2, retryDelayMs: () => DELAY_MS };
  const queue = new WorkQueue(etcd, 'emails', options);
  const { id } = await queue.enqueue('bad');
  const runs = work(options, () => {
    throw new Error('bad');
  });
  await clock.pass(15_000);
  expect((await queue.counts()).dead).toBe(1);
  await queue.requeue(id);
  await clock.pass(15_000);
  expect(runs.map(([, at]) => at)).toEqual([0, DELAY_MS, 15_000, 15_000 + DELAY_MS]);
});
