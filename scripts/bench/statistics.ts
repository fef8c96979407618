import type { Metric, Sample } from './sample.js';

/** What several rounds come to. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Undefined where no sample has the metric. */
export function spreadOf(samples: readonly Sample[], metric: Metric): Spread | undefined {
  const values = samples
    .map((sample) => sample[metric])
    .filter((value) => value !== undefined)
    .sort((a, b) => a - b);
  const [min] = values;
  const max = values.at(-1);
  if (min === undefined || max === undefined) return undefined;
  const middle = values.slice(Math.ceil(values.length / 2) - 1, Math.floor(values.length / 2) + 1);
  return { median: middle.reduce((sum, value) => sum + value, 0) / middle.length, min, max };
}
