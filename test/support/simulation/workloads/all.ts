import { Random } from '../random.js';
import type { Workload } from '../workload.js';
import { backups } from './backups.js';
import { barriers, doubleBarriers } from './barriers.js';
import { elections } from './elections.js';
import { expiringKeys } from './expiring-keys.js';
import { histories } from './histories.js';
import { keys } from './keys.js';
import { leases } from './leases.js';
import { LOCKS } from './locks.js';
import { orderedReads } from './ordered-reads.js';
import { persistedRanges } from './persisted.js';
import { QUEUES } from './queues.js';
import { rates } from './rates.js';
import { controllers } from './reconcile.js';
import { registers } from './registers.js';
import { schedules, wholeSchedules } from './schedules.js';
import { registrations } from './self-healing.js';
import { shards } from './shards.js';
import { slots } from './slots.js';
import { transfers } from './stm.js';
import { views } from './views.js';
import { watches } from './watches.js';
import { jobs } from './work-queue.js';

/** All workloads. */
export const WORKLOADS = [
  ...LOCKS,
  ...QUEUES,
  jobs,
  backups,
  leases,
  orderedReads,
  persistedRanges,
  rates,
  barriers,
  controllers,
  doubleBarriers,
  elections,
  expiringKeys,
  histories,
  keys,
  registers,
  registrations,
  schedules,
  shards,
  slots,
  transfers,
  views,
  watches,
  wholeSchedules,
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
