import type { Metric } from '../sample.js';
import { spreadOf } from '../statistics.js';
import { callGroup, inFlightVariant } from '../workloads/calls.js';
import { COLD_START_GROUP, COLD_START_VARIANT } from '../workloads/cold-start.js';
import { LIVE_EVENTS_GROUP, ONE_WATCHER_VARIANT } from '../workloads/live-events.js';
import { CATCH_UP_VARIANT, MANY_KEYS_GROUP, SCAN_VARIANT } from '../workloads/many-keys.js';
import type { Outcome, Workload } from '../workloads/workload.js';

/** By how much etcdwire is to be better than npm's etcd3. */
interface Target {
  readonly what: string;
  readonly workload: Pick<Workload, 'group' | 'variant'>;
  readonly metric: Metric;
  /** Of a rate: so many times as much. Of anything else: at most this part of it. */
  readonly factor: number;
}

const gets = (inFlight: number): Target['workload'] => ({
  group: callGroup('get', 100),
  variant: inFlightVariant(inFlight),
});
const puts = (inFlight: number): Target['workload'] => ({
  group: callGroup('put', 100),
  variant: inFlightVariant(inFlight),
});

const TARGETS: readonly Target[] = [
  { what: 'gets a second, 128 in flight', workload: gets(128), metric: 'rate', factor: 5 },
  { what: 'CPU per get, 128 in flight', workload: gets(128), metric: 'cpuUs', factor: 1 / 8 },
  { what: 'puts a second, 128 in flight', workload: puts(128), metric: 'rate', factor: 3.5 },
  { what: 'puts a second, 512 in flight', workload: puts(512), metric: 'rate', factor: 5 },
  { what: 'gets a second, 1 in flight', workload: gets(1), metric: 'rate', factor: 1.8 },
  {
    what: 'events a second of a watch in the past',
    workload: { group: MANY_KEYS_GROUP, variant: CATCH_UP_VARIANT },
    metric: 'rate',
    factor: 3,
  },
  {
    what: 'keys a second of a scan',
    workload: { group: MANY_KEYS_GROUP, variant: SCAN_VARIANT },
    metric: 'rate',
    factor: 3,
  },
  {
    what: 'CPU per live watch event',
    workload: { group: LIVE_EVENTS_GROUP, variant: ONE_WATCHER_VARIANT },
    metric: 'cpuUs',
    factor: 1 / 3,
  },
  {
    what: 'cold start less an empty Node',
    workload: { group: COLD_START_GROUP, variant: COLD_START_VARIANT },
    metric: 'netStartMs',
    factor: 1 / 5,
  },
];

export interface Verdict {
  readonly what: string;
  readonly metric: Metric;
  readonly factor: number;
  /** etcdwire's median over etcd3's. */
  readonly ratio: number;
  readonly holds: boolean;
}

/** Of what was measured of both. */
export function verdictsOn(outcomes: readonly Outcome[]): Verdict[] {
  return TARGETS.flatMap(({ what, workload: { group, variant }, metric, factor }) => {
    const medianOf = (contender: string): number | undefined => {
      const outcome = outcomes.find(
        (candidate) => candidate.group === group && candidate.variant === variant && candidate.contender === contender,
      );
      return spreadOf(outcome?.samples ?? [], metric)?.median;
    };
    const [ours, theirs] = [medianOf('etcdwire'), medianOf('etcd3')];
    if (ours === undefined || theirs === undefined) return [];
    const ratio = ours / theirs;
    return [{ what, metric, factor, ratio, holds: metric === 'rate' ? ratio >= factor : ratio <= factor }];
  });
}
