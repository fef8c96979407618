import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { memoryCluster, realCluster } from '../../test/differential/cluster-control.js';
import { type ClusterResult, compareClusters } from '../../test/differential/cluster-run.js';
import { kindsOf } from '../../test/differential/cluster-steps.js';
import { showMismatch } from '../../test/differential/compare.js';

/** Where to begin, and when to stop. */
interface ClusterArguments {
  /** The number of sequences after which the comparison stops. */
  readonly sequences: number;
  readonly seed: number;
}

/**
 * Sends sequences of requests to a `MemoryEtcd` with three members and to a real cluster of three, with elections, cuts,
 * kills and new members between the requests, and compares every answer. Each sequence has its own seed: the next one
 * after that of the sequence before. Returns whether there was no difference. A difference counts if it appears again
 * when the sequence is played again.
 */
export async function testClusters(version: MemoryVersion, { sequences, seed }: ClusterArguments): Promise<boolean> {
  const real = await realCluster(version);
  const counts = new Map<string, number>();
  const add = (name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);
  const play = async (sequenceSeed: number): Promise<ClusterResult> => {
    const memory = memoryCluster(version);
    try {
      return await compareClusters(sequenceSeed, [memory, real], (step) => kindsOf(step).forEach(add));
    } finally {
      await memory.close();
    }
  };
  const summary = (): string => [...counts].map(([name, count]) => `${name} ${count}`).join(', ');
  try {
    for (let next = seed; next < seed + sequences; next += 1) {
      const { steps, mismatch } = await play(next);
      add(steps.some((step) => 'rpc' in step && step.rpc === 'auth.authEnable') ? 'guarded' : 'open');
      if (mismatch === undefined) process.stderr.write(`${version}, seed ${next}: ${summary()}\n`);
      else {
        const { mismatch: again } = await play(next);
        process.stdout.write(
          `Difference in the sequence of seed ${next}${again === undefined ? '' : ', which appeared again'}:\n` +
            `${showMismatch(steps, again ?? mismatch, ['MemoryEtcd', 'etcd'])}\n`,
        );
        if (again !== undefined) return false;
        add('difference once');
      }
    }
    process.stdout.write(`seed ${seed}: no difference that appeared again in ${sequences} sequences: ${summary()}\n`);
    return true;
  } finally {
    await real.close();
  }
}
