import { InvalidArgumentError } from 'commander';

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;

/** The same, of what cannot be done in no time. */
export function timeLimitMs(text: string): number {
  const ms = durationMs(text);
  if (ms > 0) return ms;
  throw new InvalidArgumentError('Allowed: more than no time, such as 500ms.');
}

/** Milliseconds of a duration as etcdctl takes it: "500ms", "5s", "1m30s". */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(PART)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text)
    throw new InvalidArgumentError('Allowed: a duration such as 500ms, 5s or 1m30s.');
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNITS[unit] as number), 0);
}
