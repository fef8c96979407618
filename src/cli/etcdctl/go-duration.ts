import { goQuoted } from './go-format.js';

const UNITS: ReadonlySet<string> = new Set(['ns', 'us', 'µs', 'μs', 'ms', 's', 'm', 'h']);

/** Returns the error text of Go's `time.ParseDuration`, or undefined if the text is a duration. */
export function durationProblem(text: string): string | undefined {
  const problem = (what: string): string => `time: ${what} duration ${goQuoted(text)}`;
  let rest = text.replace(/^[+-]/, '');
  if (rest === '0') return undefined;
  if (rest === '') return problem('invalid');
  while (rest !== '') {
    const [number = ''] = /^\d*\.?\d*/.exec(rest) ?? [];
    if (!/\d/.test(number)) return problem('invalid');
    const [unit = ''] = /^[^\d.]*/.exec(rest.slice(number.length)) ?? [];
    if (unit === '') return problem('missing unit in');
    if (!UNITS.has(unit)) return problem(`unknown unit ${goQuoted(unit)} in`);
    rest = rest.slice(number.length + unit.length);
  }
  return undefined;
}
