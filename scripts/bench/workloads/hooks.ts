import type { Work } from '../child/task.js';
import { HOOKED, type HookedName } from '../contenders/hooks.js';
import type { Settings } from '../settings.js';
import { inFlightVariant, putValues } from './calls.js';
import type { Workload } from './workload.js';

export const HOOKS_GROUP = 'gets, and hooks around them';

const VALUE_BYTES = 100;
/** What is to be told apart is small. */
const ROUNDS_FACTOR = 3;

/** What it costs that calls can be looked at, and what it costs to look. */
export function hookWorkloads({ inFlight, rounds, seconds, warmUpSeconds, firstWarmUp }: Settings): Workload[] {
  const work: Work = { kind: 'get', valueBytes: VALUE_BYTES };
  return inFlight[VALUE_BYTES].map(
    (calls): Workload<HookedName> => ({
      group: HOOKS_GROUP,
      variant: inFlightVariant(calls),
      contenders: HOOKED,
      rounds: rounds * ROUNDS_FACTOR,
      prepare: async (bench) => {
        await putValues(bench, VALUE_BYTES);
        if (bench.once('warm-up of hooks'))
          await bench.performAll(HOOKED, { kind: 'calls', work, limits: firstWarmUp });
        await bench.performAll(HOOKED, { kind: 'calls', work, limits: { inFlight: calls, seconds: warmUpSeconds } });
      },
      measure: (bench, contender) =>
        bench.perform(contender, { kind: 'calls', work, limits: { inFlight: calls, seconds } }),
    }),
  );
}
