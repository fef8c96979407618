import { describe, expect, test } from 'vitest';
import { prefix } from '../../src/index.js';
import { checkPuts, checkRegister, checkWatch, type SeenEvent } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { type FaultyCluster, faultyCluster, watchesExactly } from '../support/faults/cluster.js';
import { FAULTS, makeFaults } from '../support/faults/nemesis.js';
import { RegisterWorkload } from '../support/faults/register-workload.js';
import { rounds } from '../support/faults/rounds.js';
import { seenEvents, Truth } from '../support/truth.js';

// Writers, readers and watches on three members, each behind a proxy, judged by what etcdctl saw (S1, S2, S27, S28).

const WRITERS = 4;
const LAST = 'n/~last';

describe.for(FAULTS.map((kind) => [kind.what, kind] as const))('while %s', ([, kind]) => {
  test.for(rounds())(
    'watches are exact, puts applied at most once, reads linearizable (seed $seed)',
    { timeout: 600_000 },
    async (round, context) => {
      const cluster = await faultyCluster();
      if (cluster === undefined) return context.skip('the servers are not ours, or etcdctl is missing');
      const truth = new Truth(cluster.etcd.etcdctl, cluster.etcd.endpoints, 'n/', LAST);
      const watches = [0, 1, 2].map((first) => watched(cluster, first));
      for (const watch of watches) watch.catch(() => {});
      const workload = new RegisterWorkload(['n/a', 'n/b', 'n/c'], round.random);
      let over = false;
      const faults = makeFaults(kind, cluster, round).finally(() => {
        over = true;
      });
      const writers = Array.from({ length: WRITERS }, (_, writer) => {
        const etcd = openClient({ endpoints: cluster.endpointsFrom(writer), timeoutMs: 5_000 });
        return workload.run(etcd, `w${writer}`, () => !over);
      });
      await Promise.all([faults, ...writers]);
      await openClient({ endpoints: cluster.etcd.endpoints, timeoutMs: 30_000 }).put(LAST, 'last');

      const happened = await truth.events();
      const { operations } = workload.puts;
      expect(checkPuts(operations, happened.slice(0, -1))).toEqual([]);
      expect(operations.filter(({ outcome }) => outcome === 'ok').length).toBeGreaterThan(operations.length / 4);
      for (const [key, register] of workload.registers)
        expect([key, checkRegister(register.operations)]).toEqual([key, []]);
      if (!watchesExactly(cluster.etcd)) return;
      for (const watch of watches) expect(checkWatch(happened, await watch)).toEqual([]);
    },
  );
});

async function watched(cluster: FaultyCluster, first: number): Promise<SeenEvent[][]> {
  const etcd = openClient({ endpoints: cluster.endpointsFrom(first) });
  const batches: SeenEvent[][] = [];
  for await (const batch of etcd.watch(prefix('n/'), { startRevision: 1n }).batches()) {
    const seen = seenEvents(batch);
    batches.push(seen);
    if (seen.some(({ key }) => key === LAST)) break;
  }
  return batches;
}
