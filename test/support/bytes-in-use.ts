import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** On the heap and outside of it, after all garbage is gone. */
export function bytesInUse(): number {
  // What a first collection finds dead may hold bytes outside of the heap, which a second one frees.
  for (let round = 0; round < 2; round += 1) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
