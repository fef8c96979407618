import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { memoryCluster, realCluster } from '../../test/differential/cluster-control.js';
import { type ClusterMismatch, compareClusters } from '../../test/differential/cluster-run.js';
import type { ClusterStep } from '../../test/differential/cluster-steps.js';

/** Where to begin, and when to stop. */
interface ClusterArguments {
  /** The number of requests after which the comparison stops. */
  readonly requests: number;
  readonly seed: number;
}

/**
 * Sends sequences of requests to a `MemoryEtcd` with three members and to a real cluster of three, with elections, cuts
 * and restarts between the requests, and compares every answer. Returns whether there was no difference. A difference
 * counts if it appears again when the sequence is played again.
 */
export async function testClusters(version: MemoryVersion, { requests, seed }: ClusterArguments): Promise<boolean> {
  const real = await realCluster(version);
  const counts = { requests: 0, faults: 0, sequences: 0 };
  const count = (step: ClusterStep): void => {
    if ('rpc' in step) counts.requests += 1;
    else counts.faults += 1;
  };
  const play = async (sequenceSeed: number): Promise<ClusterMismatch | undefined> => {
    const memory = memoryCluster(version);
    try {
      return await compareClusters(sequenceSeed, [memory, real], count);
    } finally {
      await memory.close();
    }
  };
  try {
    for (let next = seed; counts.requests < requests; next += 1) {
      counts.sequences += 1;
      const mismatch = (await play(next)) && (await play(next));
      if (mismatch !== undefined) {
        process.stdout.write(`${describe(mismatch, next)}\n`);
        return false;
      }
      process.stderr.write(`${version}: ${summary(counts)}\n`);
    }
    process.stdout.write(`seed ${seed}: no difference in ${summary(counts)}\n`);
    return true;
  } finally {
    await real.close();
  }
}

function summary({ requests, faults, sequences }: Record<'requests' | 'faults' | 'sequences', number>): string {
  return `${requests} requests and ${faults} elections, cuts and restarts in ${sequences} sequences`;
}

function describe({ steps, index, first, left, right }: ClusterMismatch, seed: number): string {
  return [
    `Difference in the sequence of seed ${seed}, which appeared again:`,
    ...steps.slice(0, index + 1).map((step, at) => `${String(at + 1).padStart(3)}. ${JSON.stringify(step)}`),
    `first difference: ${first.path}`,
    `MemoryEtcd ${JSON.stringify(left)}`,
    `etcd       ${JSON.stringify(right)}`,
  ].join('\n');
}
