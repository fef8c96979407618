import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes on the heap and outside of it, after garbage collections. */
export function bytesInUse(): number {
  // The first collection may find dead objects that own bytes outside of the heap. The second one frees those bytes.
  for (let round = 0; round < 2; round += 1) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * The greatest result of `growth` that a test accepts. Linear work grows by a factor of 10 and quadratic work by a
 * factor of 100. The limit between them allows for noise.
 */
export const MAX_GROWTH = 40;

/**
 * Measures the factor by which the CPU time of the work grows when the count is ten times as large. `prepare` returns
 * the work.
 */
export function growth(count: number, prepare: (count: number) => () => void): number {
  const [few, many] = [count, 10 * count].map((each) => {
    const times = Array.from({ length: 5 }, () => {
      const work = prepare(each);
      const before = process.cpuUsage();
      work();
      const { user, system } = process.cpuUsage(before);
      return user + system;
    });
    return Math.min(...times);
  }) as [number, number];
  // Times below 1,000 µs are not precise enough to divide by.
  return many / Math.max(few, 1_000);
}
