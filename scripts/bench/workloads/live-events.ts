import { CONTENDERS, type ContenderName } from '../contenders/open-contender.js';
import type { Settings } from '../settings.js';
import type { Workload } from './workload.js';

export const LIVE_EVENTS_GROUP = 'live watch events';
export const ONE_WATCHER_VARIANT = '1 watcher';

/** Keys that are written: with many watchers each has one of them to itself. */
const WATCHED_KEYS = 1_000;

/** Watches while another process, the same for all, puts one event after the other. */
export function liveEventWorkloads(settings: Settings): Workload[] {
  return [
    liveEvents(ONE_WATCHER_VARIANT, 1, settings),
    liveEvents(`${WATCHED_KEYS.toLocaleString('en')} watchers on one stream`, WATCHED_KEYS, settings),
  ];
}

function liveEvents(
  variant: string,
  watchers: number,
  { rounds, liveEvents: events }: Settings,
): Workload<ContenderName> {
  /** Each its own, for the watches of all stay open between the rounds. */
  const prefixOf = (contender: ContenderName): string => `bench/watched/${watchers}/${contender}/`;
  const measure: Workload<ContenderName>['measure'] = async (bench, contender) => {
    await bench.perform(contender, { kind: 'expect-events', events });
    const seen = bench.perform(contender, { kind: 'await-events' });
    const prefix = prefixOf(contender);
    await Promise.all([seen, bench.perform('writer', { kind: 'write-events', prefix, events, keys: WATCHED_KEYS })]);
    return seen;
  };
  return {
    group: LIVE_EVENTS_GROUP,
    variant,
    contenders: CONTENDERS,
    rounds,
    prepare: async (bench) => {
      for (const contender of CONTENDERS) {
        await bench.perform(contender, { kind: 'open-watchers', prefix: prefixOf(contender), watchers });
        await measure(bench, contender);
      }
    },
    measure,
    finish: (bench) => bench.performAll(CONTENDERS, { kind: 'close-watchers' }),
  };
}
