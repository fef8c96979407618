import { setTimeout as sleep } from 'node:timers/promises';
import { Client, prefix } from '../../../src/index.js';
import { measureLongestBlock } from '../../longest-block.js';
import type { Sample } from '../metrics.js';

/** The interval, in milliseconds, between two samples of the memory and of the event loop's longest block. */
const TICK_MS = 5;
/** The interval between the puts that the other watch of the client receives, in milliseconds. */
const PUT_EVERY_MS = 100;
const SIBLING = 'bench/sibling';

export interface CatchUp {
  readonly prefix: string;
  /** The first and the last revision of the events. */
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * Measures how long a watch takes to deliver past events. In this time, another client puts a key again and again, and
 * a second watch of the first client watches this key. Also measures how long after the answer to a put the second
 * watch delivers the event.
 */
export async function measureCatchUp(endpoint: string, { prefix: keys, first, last }: CatchUp): Promise<Sample> {
  await using client = new Client({ endpoints: [endpoint], timeoutMs: 60_000 });
  await using writer = new Client({ endpoints: [endpoint], timeoutMs: 60_000 });
  const [answeredAt, receivedAt] = [new Map<bigint, number>(), new Map<bigint, number>()];
  await using sibling = client.watch(SIBLING);
  await sibling.created();
  const receiving = (async () => {
    for await (const { modRevision } of sibling) receivedAt.set(modRevision, performance.now());
  })();
  let isOver = false;
  const putting = (async () => {
    while (!isOver) {
      // etcd may be too busy with the past events to answer in time.
      const put = await writer.put(SIBLING, 'x').catch(() => undefined);
      if (put !== undefined) answeredAt.set(put.header.revision, performance.now());
      await sleep(PUT_EVERY_MS);
    }
  })();
  let rssKb = 0;
  const sampling = setInterval(() => {
    rssKb = Math.max(rssKb, process.memoryUsage.rss() / 1_000);
  }, TICK_MS);
  await sleep(3 * PUT_EVERY_MS);
  const block = measureLongestBlock(TICK_MS);
  const startCpu = process.cpuUsage();
  const startMs = performance.now();
  for await (const { revision } of client.watch(prefix(keys), { startRevision: first }).batches())
    if (revision >= last) break;
  const totalMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(startCpu);
  block.stop();
  clearInterval(sampling);
  isOver = true;
  await putting;
  while ([...answeredAt.keys()].some((revision) => !receivedAt.has(revision))) await sleep(TICK_MS);
  await sibling.close();
  await receiving;
  const late = [...answeredAt].map(([revision, at]) => (receivedAt.get(revision) as number) - at);
  const lateMs = Math.max(0, ...late);
  return { totalMs, cpuMs: (user + system) / 1_000, lateMs, longestBlockMs: block.longestMs(), rssKb };
}
