import type { Work } from '../child/task.js';
import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

export const LEASES_AND_LOCKS_GROUP = 'leases and locks';

const KEEPALIVES_IN_FLIGHT = 16;
const WITH_LOCKS = ['etcdwire', 'etcdwire over grpc-js', 'etcd3'] as const;

/** Keepalives of a lease, and locks that nobody else wants. */
export function leaseAndLockWorkloads(settings: Settings): Workload[] {
  return [
    workload(`keepalive, ${KEEPALIVES_IN_FLIGHT} in flight`, 'lease', KEEPALIVES_IN_FLIGHT, CONTENDERS, settings),
    workload('uncontended lock cycle', 'lock', 1, WITH_LOCKS, settings),
  ];
}

function workload(
  variant: string,
  kind: 'lease' | 'lock',
  inFlight: number,
  contenders: readonly ContenderName[],
  { rounds, seconds, warmUpSeconds }: Settings,
): Workload<ContenderName> {
  const work: Work = { kind };
  return {
    group: LEASES_AND_LOCKS_GROUP,
    variant,
    contenders,
    rounds,
    prepare: (bench) =>
      bench.performAll(contenders, { kind: 'calls', work, limits: { inFlight, seconds: warmUpSeconds } }),
    measure: (bench, contender) => bench.perform(contender, { kind: 'calls', work, limits: { inFlight, seconds } }),
  };
}
