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
import { deletedSchedules, schedules, wholeSchedules } from './schedules.js';
import { registrations } from './self-healing.js';
import { shards } from './shards.js';
import { slots } from './slots.js';
import { transfers } from './stm.js';
import { views } from './views.js';
import { watches } from './watches.js';
import { jobs } from './work-queue.js';

/** Workloads whose server is a cluster of three members that agree by raft. */
const ON_RAFT = [...LOCKS, keys, leases, registers].map((workload) => ({
  ...(workload as unknown as Workload<unknown>),
  name: `${workload.name}, on raft`,
  weight: 1,
  hasRaft: true,
}));

/** All workloads. */
export const WORKLOADS = [
  ...ON_RAFT,
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
  deletedSchedules,
] as unknown as readonly Workload<unknown>[];

/**
 * Returns the workload of the history with this seed. `only` is the name of a workload, or a part of the names of
 * several workloads, such as `on raft`; undefined for all.
 */
export function workloadOf(seed: number, only: string | undefined): Workload<unknown> {
  const exact = WORKLOADS.filter(({ name }) => name === only);
  const chosen = exact.length > 0 ? exact : WORKLOADS.filter(({ name }) => name.includes(only ?? ''));
  if (chosen.length === 0) throw new Error(`no workload has a name with ${only}`);
  const weights = chosen.reduce((sum, { weight }) => sum + weight, 0);
  let left = new Random(seed, 7).below(weights);
  for (const workload of chosen) {
    left -= workload.weight;
    if (left < 0) return workload;
  }
  return chosen[0] as Workload<unknown>;
}
