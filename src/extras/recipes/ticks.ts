import { checkPositiveCount, invalidInput } from '../../base/index.js';

/**
 * The times of a schedule, which are called its ticks. A number is an interval in milliseconds: the ticks are the
 * multiples of the interval since 1970, in UTC, so all processes agree on them. A function gets a time and returns the
 * first tick after this time, or null if there is no further tick. The ticks must not depend on the times that the
 * function gets: use the number 3,600,000 instead of a function that adds an hour to its argument.
 */
export type When = number | ((after: Date) => Date | null | undefined);

/**
 * Returns the time of the first tick after a time, in milliseconds since 1970. Infinity if there is no further tick.
 */
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
 * Returns the latest tick that is not after `nowMs`. `firstMs` is a tick that is not after `nowMs`. Searches by
 * bisection, because there may be millions of ticks between the two times.
 */
export function latestTick(next: NextTick, firstMs: number, nowMs: number): number {
  // At each step, `latest` is a tick that is not after `nowMs`, and no tick is later than `end` but not later than
  // `nowMs`.
  let [latest, end] = [firstMs, nowMs];
  while (latest < end) {
    const middle = Math.floor((latest + end) / 2);
    const tick = next(middle);
    if (tick <= nowMs) latest = tick;
    else end = middle;
  }
  return latest;
}
