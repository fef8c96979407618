import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LatencyHistogram } from '../../../src/extras/observe/latency-histogram.js';

const SEED = 20_260_731;
const MAX_RELATIVE_ERROR = 0.045;
/** Times from 16 µs to 4.7 h, distributed evenly over the magnitudes, and the bounds of the counters themselves. */
const timesMs = fc.array(
  fc.oneof(
    fc.integer({ min: -6_000_000, max: 24_000_000 }).map((millionths) => 2 ** (millionths / 1_000_000)),
    fc.integer({ min: -6, max: 24 }).map((exponent) => 2 ** exponent),
  ),
  { minLength: 1, maxLength: 300 },
);

function histogramOf(times: readonly number[]): LatencyHistogram {
  const histogram = new LatencyHistogram();
  for (const time of times) histogram.add(time);
  return histogram;
}

test('a quantile of a latency histogram differs by at most 4.5 % from the time with this rank', () => {
  fc.assert(
    fc.property(timesMs, fc.double({ min: 0, max: 1, noNaN: true }), (times, fraction) => {
      const rank = Math.max(1, Math.ceil(fraction * times.length));
      const exact = times.toSorted((a, b) => a - b)[rank - 1] as number;
      const found = histogramOf(times).quantileMs(fraction) as number;
      expect(Math.abs(found - exact) / exact).toBeLessThanOrEqual(MAX_RELATIVE_ERROR);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

test('a latency histogram counts exactly the times up to a power of two', () => {
  fc.assert(
    fc.property(timesMs, fc.integer({ min: -6, max: 24 }), (times, exponent) => {
      expect(histogramOf(times).countUpTo(exponent)).toBe(times.filter((time) => time <= 2 ** exponent).length);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

test('a latency histogram counts times of zero and times beyond its range', () => {
  const histogram = histogramOf([0, 0, 1e12, Number.MAX_VALUE]);
  expect(histogram).toMatchObject({ count: 4, maxMs: Number.MAX_VALUE });
  expect(histogram.countUpTo(-6)).toBe(2);
  expect(histogram.countUpTo(24)).toBe(2);
  expect(histogram.quantileMs(0.5)).toBeLessThanOrEqual(2 ** -6);
  expect(histogram.quantileMs(1)).toBe(Number.MAX_VALUE);
});

test('a latency histogram without times has no quantiles', () => {
  expect(new LatencyHistogram().quantileMs(0.5)).toBeUndefined();
});
