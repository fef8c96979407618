import type { Sample } from '../sample.js';

const BYTES_PER_KB = 1_000;
/** What one collection lets go another one may free. */
const COLLECTIONS = 3;

/** What the process weighs when all that can be collected is; Node.js must run with --expose-gc. */
export async function footprint(): Promise<Sample> {
  for (let pass = 0; pass < COLLECTIONS; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    globalThis.gc?.();
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heapKb: (heapUsed + external) / BYTES_PER_KB, rssKb: rss / BYTES_PER_KB };
}
