import { invalidInput } from '../errors/etcd-error.js';
import { checkPositiveCount } from '../runtime/arguments.js';

/**
 * When a schedule runs. A number is an interval in milliseconds: the ticks are at its multiples since 1970, in UTC, so
 * all processes agree on them. A function gets a time and returns the first tick after this time, or null if there is
 * no further tick. Its ticks must not depend on how often it is called: use the number 3,600,000 instead of a function
 * that adds an hour to its argument.
 */
export type When = number | ((after: Date) => Date | null | undefined);

/** Returns the time of the first tick after a time, in milliseconds since 1970. Infinity if there is no further tick. */
export type NextTick = (afterMs: number) => number;

/** @throws EtcdError with reason `InvalidInput` if `when` is neither an interval nor a function. */
export function nextTickOf(when: When): NextTick {
  if (typeof when !== 'function') {
    const intervalMs = checkPositiveCount(when, 'when');
    return (afterMs) => (Math.floor(afterMs / intervalMs) + 1) * intervalMs;
  }
  return (afterMs) => {
    const tick = when(new Date(afterMs));
    if (tick === null || tick === undefined) return Number.POSITIVE_INFINITY;
    const ms = typeof tick.getTime === 'function' ? tick.getTime() : undefined;
    if (typeof ms === 'number' && ms > afterMs) return ms;
    const after = new Date(afterMs).toISOString();
    throw invalidInput('when', `a function that returned ${describe(ms)} for ${after}`, 'a later Date, or null');
  };
}

function describe(ms: number | undefined): string {
  if (ms === undefined) return 'no Date';
  return Number.isNaN(ms) ? 'an invalid Date' : 'a Date that is not later';
}

/**
 * Returns the latest tick that is not after `nowMs`. `firstMs` is a tick that is not after `nowMs`. Halves the time
 * between the two, because a schedule of years may have millions of ticks.
 */
export function latestTick(next: NextTick, firstMs: number, nowMs: number): number {
  // `latest` is a tick, and no tick is after `end` and not after `nowMs`.
  let [latest, end] = [firstMs, nowMs];
  while (latest < end) {
    const middle = Math.floor((latest + end) / 2);
    const tick = next(middle);
    if (tick <= nowMs) latest = tick;
    else end = middle;
  }
  return latest;
}
