import { parseArgs } from 'node:util';
import { QUICK, type Settings, WHOLE } from './settings.js';

export interface Arguments {
  readonly settings: Settings;
  /** Which workloads to run, by their names. */
  readonly only: RegExp;
  /** Where to write the numbers; '-' is stdout, in place of the tables. */
  readonly json: string | undefined;
  /** The folder for plots. */
  readonly svg: string | undefined;
  /** Fail where a target is missed. */
  readonly assert: boolean;
}

export const USAGE =
  'npm run bench -- [--quick] [--rounds N] [--seconds S] [--only REGEX] [--json [FILE]] [--svg DIR] [--assert]';

/** @throws Error that says in a line what is wrong. */
export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: argv.flatMap((argument, index) =>
      argument === '--json' && (argv[index + 1] ?? '--').startsWith('--') ? ['--json', '-'] : [argument],
    ),
    options: {
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      only: { type: 'string', default: '' },
      json: { type: 'string' },
      svg: { type: 'string' },
      assert: { type: 'boolean', default: false },
    },
  });
  const settings = values.quick ? QUICK : WHOLE;
  const rounds = positive('--rounds', values.rounds);
  if (rounds !== undefined && !Number.isInteger(rounds))
    throw new Error(`--rounds: got ${rounds}; allowed: whole numbers`);
  return {
    settings: {
      ...settings,
      rounds: rounds ?? settings.rounds,
      seconds: positive('--seconds', values.seconds) ?? settings.seconds,
    },
    only: expression(values.only),
    json: values.json,
    svg: values.svg,
    assert: values.assert,
  };
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new Error(`${name}: got "${text}"; allowed: numbers above 0`);
  return value;
}

function expression(text: string): RegExp {
  try {
    return new RegExp(text, 'i');
  } catch {
    throw new Error(`--only: got "${text}"; allowed: regular expressions`);
  }
}
