import { parseArgs } from 'node:util';

/** The settings that determine how much a run measures. */
export interface Settings {
  /** Whether the run measures too little for reliable numbers. */
  readonly quick: boolean;
  readonly rounds: number;
  /** How long each client runs in each round of a workload that is limited by time. */
  readonly seconds: number;
  /** How long all clients run at once before the first round of a workload. */
  readonly warmUpSeconds: number;
  /**
   * The warm-up before the first calls of a run. It is long, because Node.js compiles frequently called functions late.
   */
  readonly firstWarmUp: { readonly inFlight: number; readonly seconds: number };
  /** The numbers of concurrent calls to measure, by the length of the values in bytes. */
  readonly inFlight: Readonly<Record<100 | 100_000, readonly number[]>>;
  /** The numbers of concurrent calls to measure over TLS, with values of 100 bytes. */
  readonly inFlightOverTls: readonly number[];
  /**
   * How long contenders hand a lock from one to the next in each round. Each hand-off takes 100 ms if the contenders
   * wait for the lock as Go's client does, which is the slower of the two measured methods.
   */
  readonly handOffSeconds: number;
  /** Whether to also measure hand-offs while another client writes. */
  readonly otherWrites: boolean;
  /** Number of keys to scan and of events to catch up on. */
  readonly manyKeys: number;
  /** Number of events to catch up on in the workload with single puts, where each event has its own revision. */
  readonly singlePuts: number;
  /** Number of events that watchers receive live in one round. */
  readonly liveEvents: number;
  /** How many times each program is started to measure cold starts. */
  readonly coldStarts: number;
  /** Number of calls before memory is measured. */
  readonly memoryCalls: number;
}

const FULL: Settings = {
  quick: false,
  rounds: 5,
  seconds: 0.4,
  warmUpSeconds: 0.4,
  firstWarmUp: { inFlight: 64, seconds: 8 },
  inFlight: { 100: [1, 16, 128, 512], 100000: [1, 16, 128, 512] },
  inFlightOverTls: [1, 16, 128],
  handOffSeconds: 1.5,
  otherWrites: true,
  manyKeys: 100_000,
  singlePuts: 100_000,
  liveEvents: 10_000,
  coldStarts: 15,
  memoryCalls: 1_000_000,
};

/** Settings for a run that takes less than a minute and gives rough numbers. It leaves out some workloads. */
const QUICK: Settings = {
  quick: true,
  rounds: 2,
  seconds: 0.1,
  warmUpSeconds: 0.2,
  firstWarmUp: { inFlight: 64, seconds: 4 },
  inFlight: { 100: [1, 128, 512], 100000: [16] },
  inFlightOverTls: [1, 128],
  handOffSeconds: 0.3,
  otherWrites: false,
  manyKeys: 20_000,
  singlePuts: 10_000,
  liveEvents: 2_000,
  coldStarts: 4,
  memoryCalls: 10_000,
};

export interface Arguments {
  readonly help: boolean;
  readonly settings: Settings;
  /** Selects workloads by name. */
  readonly only: RegExp;
  /** The path of the JSON file for the numbers. '-' writes the numbers to stdout instead of the tables. */
  readonly json: string | undefined;
  /** The folder for plots. */
  readonly svg: string | undefined;
  /** Whether the run fails if it misses a target. */
  readonly assert: boolean;
  /** The number of members of the cluster that the run starts. */
  readonly members: 1 | 3;
}

export const USAGE =
  'npm run bench -- [--quick] [--rounds N] [--seconds S] [--only REGEX] [--json [FILE]] [--svg DIR] [--assert] [--members 1|3]';

/** Parses the command-line arguments. @throws Error with a one-line message that names the invalid argument. */
export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: argv.flatMap((argument, index) =>
      argument === '--json' && (argv[index + 1] ?? '--').startsWith('--') ? ['--json', '-'] : [argument],
    ),
    options: {
      help: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      only: { type: 'string', default: '' },
      json: { type: 'string' },
      svg: { type: 'string' },
      assert: { type: 'boolean', default: false },
      members: { type: 'string', default: '1' },
    },
  });
  const members = Number(values.members);
  if (members !== 1 && members !== 3) throw new Error(`--members: got "${values.members}"; allowed: 1 and 3`);
  const settings = values.quick ? QUICK : FULL;
  const rounds = positive('--rounds', values.rounds);
  if (rounds !== undefined && !Number.isInteger(rounds))
    throw new Error(`--rounds: got ${rounds}; allowed: whole numbers above 0`);
  return {
    help: values.help,
    settings: {
      ...settings,
      rounds: rounds ?? settings.rounds,
      seconds: positive('--seconds', values.seconds) ?? settings.seconds,
    },
    only: expression(values.only),
    json: values.json,
    svg: values.svg,
    assert: values.assert,
    members,
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
