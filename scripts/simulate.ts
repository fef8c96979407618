import { rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { compiled, compiledWith } from '../test/support/compiled.js';
import { readCheckpoint, writeCheckpoint } from './checkpoint.js';
import { mutating } from './mutate/mutating.js';
import { MUTATIONS } from './mutate/mutations.js';
import { MeasuredProgram } from './simulate/coverage.js';
import type { Answer, Failure, Task } from './simulate/worker.js';

// Plays simulated histories on all cores, and prints what they covered. Shrinks and prints the first history that broke
// a rule.

const USAGE = `npm run test:simulation -- [--histories N] [--seed S] [--only WORKLOAD] [--minutes M] [--replay SEED]
                                [--keep-going] [--coverage] [--checkpoint FILE]
       npm run test:simulation -- --mutations [--only WORKLOAD] [--minutes M] [REGEX]

--histories is the number of histories, 20,000 by default. --seed selects them: the same seed gives the same histories.
--only plays one workload, or all workloads whose names contain the text, such as "on raft". --minutes limits the time
instead of the number. --replay plays and shrinks one history, and prints its steps. --keep-going plays on after a
history has broken a rule, and reports each failure at once. --coverage prints how many lines of each folder of src/ the
histories execute, and which functions they never call. It fails if they execute too few lines. --checkpoint notes every
5 s in a file how many histories are over. The next run with this file and the same seed plays only the others.
--mutations introduces each known bug of test:mutations, one at a time, and prints how many histories it takes to find
it, in at most --minutes (default 5) for each. REGEX selects bugs by their descriptions.
`;
/** Number of histories that a thread plays before it reports. */
const CHUNK = 50;
/** Number of failures after which the simulation stops, unless --keep-going is given. */
const MAX_FAILURES = 1;
const PROGRESS_MS = 5_000;
/** Default of the maximum time, in minutes, for finding one mutation. */
const MUTATION_MINUTES = 5;
/** The program of the threads. It is compiled, because compiled code runs faster than code that tsx loads. */
const WORKER = new URL('simulate/worker.ts', import.meta.url);
const COVERED_WORKER = new URL('simulate/covered-worker.ts', import.meta.url);

const { values, positionals } = parseArgs({
  options: {
    histories: { type: 'string' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    minutes: { type: 'string' },
    replay: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
    mutations: { type: 'boolean', default: false },
    coverage: { type: 'boolean', default: false },
    checkpoint: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});

/** A thread that plays histories. */
class Player {
  readonly #worker: Worker;

  /** `workerData` is the data of the thread. */
  constructor(file: string, workerData?: string) {
    this.#worker = new Worker(file, { workerData });
  }

  ask(task: Task): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#worker.off('message', onAnswer);
        this.#worker.off('error', onError);
      };
      const onAnswer = (answer: Answer): void => {
        settle();
        resolve(answer);
      };
      const onError = (error: Error): void => {
        settle();
        reject(error);
      };
      this.#worker.on('message', onAnswer);
      this.#worker.on('error', onError);
      this.#worker.postMessage(task);
    });
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }
}

/** The sums and the failures of the histories that the threads have played so far. */
class Totals {
  readonly #start = performance.now();
  histories = 0;
  events = 0;
  virtualMs = 0;
  readonly workloads = new Map<string, number>();
  readonly coverage = new Map<string, number>();
  readonly failures: Failure[] = [];

  add(answer: Extract<Answer, { type: 'played' }>): void {
    this.histories += answer.histories;
    this.events += answer.events;
    this.virtualMs += answer.virtualMs;
    for (const [name, times] of answer.workloads) this.workloads.set(name, (this.workloads.get(name) ?? 0) + times);
    for (const [what, times] of answer.coverage) this.coverage.set(what, (this.coverage.get(what) ?? 0) + times);
    this.failures.push(...answer.failures);
  }

  get minutes(): number {
    return (performance.now() - this.#start) / 60_000;
  }

  get summary(): string {
    const perMinute = Math.round(this.histories / this.minutes);
    const hours = (this.virtualMs / 3_600_000).toFixed(1);
    return `${this.histories} histories, ${perMinute} a minute, ${this.events} events, ${hours} h of simulated time, ${this.failures.length} failed`;
  }
}

async function main(): Promise<void> {
  const minutes = values.minutes === undefined ? Number.POSITIVE_INFINITY : Number(values.minutes);
  const wanted = values.histories ?? (values.minutes === undefined ? 20_000 : Number.POSITIVE_INFINITY);
  const histories = Number(wanted);
  const seed = Number(values.seed);
  if (values.help) return void process.stdout.write(USAGE);
  const isMixed = values.checkpoint !== undefined && (values.mutations || values.coverage);
  if (!(minutes > 0) || !(histories > 0) || !Number.isInteger(seed) || seed < 0 || isMixed) {
    process.stderr.write(USAGE);
    process.exitCode = 2;
    return;
  }
  if (values.mutations) return findMutations(seed, values.minutes === undefined ? MUTATION_MINUTES : minutes);
  const measured = values.coverage ? new MeasuredProgram() : undefined;
  const file = compiled(measured === undefined ? WORKER : COVERED_WORKER);
  const players: Player[] = [];
  try {
    if (values.replay !== undefined) {
      const player = new Player(file);
      players.push(player);
      await printReplay(player, Number(values.replay), values.only);
      return;
    }
    for (let count = availableParallelism(); count > 0; count -= 1) players.push(new Player(file, measured?.url));
    const totals = await playAll(players, seed, histories, minutes);
    print(totals);
    if (measured !== undefined && !(await isCovered(measured, players))) process.exitCode = 1;
    for (const { seed: failed, workload } of totals.failures.slice(0, MAX_FAILURES))
      await printReplay(players[0] as Player, failed, values.only ?? workload);
  } finally {
    for (const player of players) await player.stop();
    measured?.remove();
  }
}

/** Prints how much code the histories have executed. Returns whether the coverage is sufficient. */
async function isCovered(measured: MeasuredProgram, players: readonly Player[]): Promise<boolean> {
  for (const player of players) {
    const answer = await player.ask({ type: 'coverage' });
    if (answer.type === 'covered') measured.add(answer.functions);
  }
  return measured.print();
}

/** Prints how many histories it takes to find each known bug. */
async function findMutations(seed: number, minutes: number): Promise<void> {
  const wanted = new RegExp(positionals[0] ?? '', 'i');
  const mutations = MUTATIONS.filter(({ bug }) => wanted.test(bug));
  console.log('| bug | found after | by | seed |\n|---|---|---|---|');
  for (const mutation of mutations) {
    if (mutation.notSimulated !== undefined) {
      console.log(`| ${mutation.bug} | | not simulated: ${mutation.notSimulated} | |`);
      continue;
    }
    const file = await compiledWith(mutating(mutation), WORKER);
    const players: Player[] = [];
    try {
      for (let count = availableParallelism(); count > 0; count -= 1) players.push(new Player(file));
      const totals = await playAll(players, seed, Number.POSITIVE_INFINITY, minutes);
      const [failure] = totals.failures;
      if (failure === undefined) process.exitCode = 1;
      const seconds = Math.round(totals.minutes * 60);
      const by = failure === undefined ? 'NOTHING' : `${failure.workload}: ${failure.violations[0]?.rule}`;
      console.log(`| ${mutation.bug} | ${totals.histories} histories, ${seconds} s | ${by} | ${failure?.seed ?? ''} |`);
    } finally {
      for (const player of players) await player.stop();
      rmSync(file);
    }
  }
}

async function playAll(players: readonly Player[], seed: number, histories: number, minutes: number): Promise<Totals> {
  const totals = new Totals();
  const first = seed * 2 ** 24;
  let given = alreadyPlayed(seed);
  /** The first history of each chunk that is being played. */
  const open = new Set<number>();
  let reportedAt = performance.now();
  const isOver = (): boolean =>
    given >= histories ||
    totals.minutes >= minutes ||
    (!values['keep-going'] && totals.failures.length >= MAX_FAILURES);
  const playOn = async (player: Player): Promise<void> => {
    while (!isOver()) {
      const count = Math.min(CHUNK, histories - given);
      const start = given;
      const task: Task = { type: 'play', first: first + start, count, only: values.only };
      open.add(start);
      given += count;
      const answer = await player.ask(task);
      // The next run plays a chunk with a failure again.
      if (answer.type === 'played' && answer.failures.length === 0) open.delete(start);
      if (answer.type === 'played') {
        totals.add(answer);
        for (const failure of answer.failures) process.stderr.write(`${describe(failure)}\n`);
      }
      if (performance.now() - reportedAt < PROGRESS_MS) continue;
      reportedAt = performance.now();
      process.stderr.write(`${totals.summary}\n`);
      const played = Math.min(given, ...open);
      if (!values.checkpoint) continue;
      const checkpoint: Checkpoint = { seed, only: values.only, played };
      writeCheckpoint(values.checkpoint, checkpoint);
    }
  };
  await Promise.all(players.map(playOn));
  return totals;
}

interface Checkpoint {
  readonly seed: number;
  readonly only?: string | undefined;
  /** The histories before this one are over. */
  readonly played: number;
}

/** Returns how many histories an earlier run with the same checkpoint has played. */
function alreadyPlayed(seed: number): number {
  const checkpoint = values.checkpoint ? readCheckpoint<Checkpoint>(values.checkpoint) : undefined;
  if (checkpoint === undefined) return 0;
  if (checkpoint.seed !== seed || checkpoint.only !== values.only)
    throw new Error(
      `${values.checkpoint} belongs to a run with another --seed or --only: delete the file, or name another`,
    );
  process.stderr.write(`${checkpoint.played} histories are over already\n`);
  return checkpoint.played;
}

function print(totals: Totals): void {
  const { workloads, coverage, failures } = totals;
  console.log(`${totals.summary}\n`);
  console.log('| workload | histories | failed |\n|---|---|---|');
  for (const [name, times] of [...workloads].sort())
    console.log(`| ${name} | ${times} | ${failures.filter(({ workload }) => workload === name).length} |`);
  const names = [...coverage.keys()];
  const states = names.flatMap((name) => (name.startsWith('state ') ? [name.slice('state '.length)] : [])).sort();
  const kinds = names.filter((name) => !name.startsWith('state ') && !name.includes(', ')).sort();
  console.log(`\n| fault | struck | ${states.join(' | ')} |\n|---|---|${states.map(() => '---|').join('')}`);
  for (const kind of kinds) {
    const cells = states.map((state) => coverage.get(`${state}, ${kind}`) ?? 0);
    console.log(`| ${kind} | ${coverage.get(kind)} | ${cells.join(' | ')} |`);
  }
  for (const failure of failures) console.log(`\n${describe(failure)}`);
  if (failures.length > 0) process.exitCode = 1;
}

/** Returns the command that replays a failed history, and the rules that the history broke. */
function describe({ seed, workload, violations }: Failure): string {
  const rules = violations.map(({ rule, detail }) => `  ${rule}: ${detail.split('\n')[0]}`);
  return [`FAILED: npm run test:simulation -- --only '${workload}' --replay ${seed}`, ...rules].join('\n');
}

async function printReplay(player: Player, seed: number, only: string | undefined): Promise<void> {
  const answer = await player.ask({ type: 'replay', seed, only, shrinks: true });
  if (answer.type !== 'replayed') return;
  console.log(`\n${answer.text}`);
  if (answer.isFailure) process.exitCode = 1;
}

await main();
