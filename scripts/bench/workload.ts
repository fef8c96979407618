import { Presets, SingleBar } from 'cli-progress';
import type { Sample } from './metrics.js';
import type { Bench } from './processes.js';
import type { Settings } from './settings.js';

/** One measurement and its competitors. A competitor is a client or a variant of a client. */
export interface Workload<Competitor extends string = string> {
  /** The heading of the table that shows the workload in the report. */
  readonly group: string;
  /** The name of the workload within its group. */
  readonly variant: string;
  readonly competitors: readonly Competitor[];
  readonly rounds: number;
  /**
   * Whether all competitors run at once in each round. Set this only if the competitors do not disturb each other's
   * measurements. Default: false.
   */
  readonly concurrent?: boolean;
  /** Whether the clients connect to the server with TLS. Default: false. */
  readonly tls?: boolean;
  /** Writes the data that the workload needs, and warms up the clients. */
  prepare?(bench: Bench): Promise<unknown>;
  measure(bench: Bench, competitor: Competitor): Promise<Sample>;
  afterRound?(bench: Bench): Promise<unknown>;
  finish?(bench: Bench): Promise<unknown>;
  /** Adds metrics that are calculated from the samples of all rounds and competitors. */
  conclude?(outcomes: readonly Outcome[]): Outcome[];
  /** Whether the outcomes so far meet the target of the workload, so that a run with `--assert` needs no more rounds. */
  isEnough?(outcomes: readonly Outcome[]): boolean;
}

/** The result of one competitor in one workload. */
export interface Outcome extends Pick<Workload, 'group' | 'variant'> {
  readonly competitor: string;
  /** One sample for each round, in order. */
  readonly samples: readonly Sample[];
  /** The message of the error that ended the measurement, if samples are missing. */
  readonly failure?: string;
}

/** The results of a run, and the machine on which it ran. */
export interface Results {
  /** The version of etcd. Undefined for a server that ETCD_ENDPOINTS names. */
  readonly etcd: string | undefined;
  readonly node: string;
  /** The model of the machine's processors. */
  readonly cpu: string | undefined;
  readonly cpus: number;
  /** When the run started. */
  readonly date: string;
  /** The number of members. */
  readonly members: number;
  readonly settings: Settings;
  /** Sentences that say which rows are missing, and why. */
  readonly leftOut: readonly string[];
  readonly outcomes: readonly Outcome[];
}

export function nameOf({ group, variant }: Pick<Workload, 'group' | 'variant'>): string {
  return `${group}, ${variant}`;
}

/**
 * Runs workloads one after the other. The competitors take turns in each round, and each round starts with a different
 * competitor. A competitor that fails drops out of the workload, and the remaining competitors continue. With `assert`, a
 * workload ends after the first round that is enough.
 */
export async function runWorkloads(
  bench: Bench,
  workloads: readonly Workload[],
  progress: Progress,
  { assert }: { readonly assert: boolean },
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const workload of workloads) outcomes.push(...(await runWorkload(bench, workload, progress, assert)));
  return outcomes;
}

async function runWorkload(
  bench: Bench,
  workload: Workload,
  progress: Progress,
  stopsEarly: boolean,
): Promise<Outcome[]> {
  const { group, variant, competitors, rounds, concurrent = false, conclude = (outcomes) => [...outcomes] } = workload;
  const name = nameOf(workload);
  const samples = new Map<string, Sample[]>(competitors.map((competitor) => [competitor, []]));
  const failures = new Map<string, string>();
  const measure = async (competitor: string, round: number): Promise<void> => {
    if (!failures.has(competitor)) {
      progress.at(name, round, rounds, concurrent ? undefined : competitor);
      try {
        samples.get(competitor)?.push(await workload.measure(bench, competitor));
      } catch (error) {
        failures.set(competitor, messageOf(error));
      }
    }
    progress.step();
  };
  const outcomes = (): Outcome[] =>
    conclude(
      competitors.map((competitor) => {
        const failure = failures.get(competitor);
        const outcome = { group, variant, competitor, samples: samples.get(competitor) ?? [] };
        return failure === undefined ? outcome : { ...outcome, failure };
      }),
    );
  progress.at(name, 0, rounds, undefined);
  try {
    await workload.prepare?.(bench);
  } catch (error) {
    for (const competitor of competitors) failures.set(competitor, messageOf(error));
  }
  for (let round = 1; round <= rounds; round += 1) {
    const first = (round - 1) % competitors.length;
    const order = [...competitors.slice(first), ...competitors.slice(0, first)];
    if (concurrent) await Promise.all(order.map((competitor) => measure(competitor, round)));
    else for (const competitor of order) await measure(competitor, round);
    await workload.afterRound?.(bench);
    if (!stopsEarly || workload.isEnough?.(outcomes()) !== true) continue;
    for (let left = (rounds - round) * competitors.length; left > 0; left -= 1) progress.step();
    break;
  }
  await workload.finish?.(bench);
  return outcomes();
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Shows the progress of a run on stderr. */
export interface Progress {
  /** Shows what the run is doing now. Round 0 is the preparation. */
  at(workload: string, round: number, rounds: number, competitor: string | undefined): void;
  step(): void;
  stop(): void;
}

/** Shows a progress bar if stderr is a terminal. Otherwise prints one line for each round. */
export function startProgress(workloads: readonly Workload[]): Progress {
  const steps = workloads.reduce((sum, { competitors, rounds }) => sum + competitors.length * rounds, 0);
  return process.stderr.isTTY ? progressBar(steps) : progressLines();
}

function progressBar(steps: number): Progress {
  const format = '{bar} {percentage}% {duration_formatted}  {what}';
  // Draw the bar only twice a second, because drawing takes time on the machine that is measured.
  const options = { format, fps: 2, hideCursor: true, clearOnComplete: true, stream: process.stderr };
  const bar = new SingleBar(options, Presets.shades_classic);
  bar.start(steps, 0, { what: '' });
  return {
    at: (workload, round, rounds, competitor) =>
      bar.update({ what: [workload, roundText(round, rounds), competitor].filter(Boolean).join(', ') }),
    step: () => bar.increment(),
    stop: () => bar.stop(),
  };
}

function progressLines(): Progress {
  let last = '';
  return {
    at: (workload, round, rounds) => {
      const line = `${workload}, ${roundText(round, rounds)}`;
      if (line !== last) process.stderr.write(`${line}\n`);
      last = line;
    },
    step: () => {},
    stop: () => {},
  };
}

function roundText(round: number, rounds: number): string {
  return round === 0 ? 'preparation' : `round ${round} of ${rounds}`;
}
