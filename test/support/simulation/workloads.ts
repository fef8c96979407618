import type { Workload } from './history.js';
import { Random } from './random.js';
import { backups } from './workloads/backups.js';
import { barriers, doubleBarriers } from './workloads/barriers.js';
import { elections } from './workloads/elections.js';
import { keys } from './workloads/keys.js';
import { leases } from './workloads/leases.js';
import { LOCKS } from './workloads/locks.js';
import { orderedReads } from './workloads/ordered-reads.js';
import { QUEUES } from './workloads/queues.js';
import { rates } from './workloads/rates.js';
import { registers } from './workloads/registers.js';
import { registrations } from './workloads/self-healing.js';
import { transfers } from './workloads/stm.js';
import { views } from './workloads/views.js';
import { watches } from './workloads/watches.js';
import { jobs } from './workloads/work-queue.js';

/** All workloads. */
export const WORKLOADS = [
  ...LOCKS,
  ...QUEUES,
  jobs,
  backups,
  leases,
  orderedReads,
  rates,
  barriers,
  doubleBarriers,
  elections,
  keys,
  registers,
  registrations,
  transfers,
  views,
  watches,
] as unknown as readonly Workload<unknown>[];

/** Returns the workload of the history with this seed. `only` is the name of a workload; undefined for all. */
export function workloadOf(seed: number, only: string | undefined): Workload<unknown> {
  if (only !== undefined) {
    const found = WORKLOADS.find(({ name }) => name === only);
    if (found === undefined) throw new Error(`no workload has the name ${only}`);
    return found;
  }
  const weights = WORKLOADS.reduce((sum, { weight }) => sum + weight, 0);
  let left = new Random(seed, 7).below(weights);
  for (const workload of WORKLOADS) {
    left -= workload.weight;
    if (left < 0) return workload;
  }
  return WORKLOADS[0] as Workload<unknown>;
}
