const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/y;

/**
 * Parses a duration such as "500ms", "1m30s", "-2s" or "0", as Go's `time.ParseDuration` does, and returns it in
 * milliseconds. Returns undefined for other text.
 */
export function parseDuration(text: string): number | undefined {
  const [sign = ''] = /^[+-]?/.exec(text) ?? [];
  const size = text.slice(sign.length);
  if (size === '0') return 0;
  let ms: number | undefined;
  PART.lastIndex = 0;
  for (let at = 0; at < size.length; at = PART.lastIndex) {
    const [, count, unit = ''] = PART.exec(size) ?? [];
    if (count === undefined) return undefined;
    ms = (ms ?? 0) + Number(count) * (UNIT_MS[unit] as number);
  }
  return sign === '-' && ms !== undefined ? -ms : ms;
}
