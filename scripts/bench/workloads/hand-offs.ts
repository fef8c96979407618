import type { HandOffs } from '../child/hand-offs.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

export const HAND_OFFS_GROUP = 'hand-offs of a contended lock';
export const LOCKERS = [2, 10, 50] as const;

const WAYS = { etcdwire: 'etcdwire', 'the way Go waits': 'go' } as const;

export function lockersVariant(lockers: number): string {
  return `${lockers} contenders`;
}

/** A lock that goes from hand to hand, by two ways of waiting in one process. */
export function handOffWorkloads(settings: Settings): Workload[] {
  const quiet = LOCKERS.map((lockers) => handOffs(lockersVariant(lockers), { lockers, otherWrites: false }, settings));
  if (!settings.otherWrites) return quiet;
  return [...quiet, handOffs('10 contenders, with other writes', { lockers: 10, otherWrites: true }, settings)];
}

function handOffs(
  variant: string,
  how: Pick<HandOffs, 'lockers' | 'otherWrites'>,
  { rounds, handOffSeconds: seconds }: Settings,
): Workload<keyof typeof WAYS> {
  const measure: Workload<keyof typeof WAYS>['measure'] = (bench, way) =>
    bench.perform('etcdwire', { kind: 'hand-offs', handOffs: { way: WAYS[way], seconds, ...how } });
  return {
    group: HAND_OFFS_GROUP,
    variant,
    contenders: Object.keys(WAYS) as (keyof typeof WAYS)[],
    rounds,
    prepare: (bench) => measure(bench, 'etcdwire'),
    measure,
  };
}
