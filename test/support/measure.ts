import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Collects garbage. Returns the number of bytes in use on the JavaScript heap and outside of the heap. */
export function bytesInUse(): number {
  // The first collection may find dead objects that own bytes outside of the heap. The second collection frees those
  // bytes.
  for (let round = 0; round < 2; round += 1) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * The maximum result of `growth` that a test accepts. Linear work grows by a factor of 10 and quadratic work by a
 * factor of 100. The limit between them allows for noise.
 */
export const MAX_GROWTH = 40;

/**
 * Measures the factor by which the CPU time of the work grows when the count is ten times as large. `prepare` returns
 * the work as a function, which runs only while the CPU time is measured.
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
