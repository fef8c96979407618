import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Collects garbage. Returns the number of bytes in use on the JavaScript heap and in buffers outside it. */
export function bytesInUse(): number {
  // The first collection may find dead objects that own bytes outside of the heap. The second collection frees those
  // bytes.
  for (let round = 0; round < 2; round += 1) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/**
 * The maximum result of `growth` that a test accepts. If the count is ten times as large, linear work takes 10 times as
 * long, and quadratic work takes 100 times as long. This limit lies between the two to allow for noise.
 */
export const MAX_GROWTH = 40;

/**
 * Returns the factor by which the CPU time of some work grows if the work processes ten times `count` items instead of
 * `count` items. `prepare` returns a function that does the work. Only the time of this function is measured, not the
 * time of `prepare`.
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
