import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import type { Scenario } from '../test/interleavings/arena.js';
import { Exploration, type SavedPlans } from '../test/interleavings/exploration.js';
import { type Checkpoint, type Failure, type Limits, replay, shrink } from '../test/interleavings/explorer.js';
import { SCENARIOS } from '../test/interleavings/scenarios.js';
import { compiled, compiledWith } from '../test/support/compiled.js';
import { readCheckpoint, writeCheckpoint } from './checkpoint.js';
import { eventText } from './interleavings/event-text.js';
import type { Task } from './interleavings/explore-worker.js';
import { mutating } from './mutate/mutating.js';
import { MUTATIONS } from './mutate/mutations.js';

// Plays all orders of the events of small scenarios of locks and other primitives, and prints how many there were.

const USAGE = `npm run test:interleavings -- [--faults F] [--minutes M] [--only REGEX] [--save FILE] [--checkpoint FOLDER]
       npm run test:interleavings -- --replay FILE
       npm run test:interleavings -- --mutations [--minutes M] [REGEX]

--faults is the maximum number of faults in an order, 1 by default. --minutes limits the time, 10 by default. --only
selects scenarios by their names. --save writes the events of an order that breaks a rule to a file. --replay plays such
a file again, and prints its events. --checkpoint notes in the folder how far each scenario is. The next run with this
folder goes on there. --mutations introduces each known bug of test:mutations that a scenario must find, one at a time,
for at most the minutes, and prints what finds it. REGEX selects bugs by their descriptions.
`;
/** How long a turn may take. A longer one means that the code under test runs in a loop. */
const MAX_TURN_MS = 300_000;
/** The program of the threads. It is compiled, because compiled code runs faster than code that tsx loads. */
const WORKER = new URL('interleavings/explore-worker.ts', import.meta.url);

const { values, positionals } = parseArgs({
  options: {
    faults: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
    only: { type: 'string', default: '' },
    save: { type: 'string' },
    replay: { type: 'string' },
    checkpoint: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
/** Writes a line to stderr, but not more often than a reader needs. */
const showProgress = atMostEvery(process.stderr.isTTY ? 1_000 : 30_000, (line) => process.stderr.write(`${line}\n`));
const names = SCENARIOS.map(({ name }) => name).filter((name) => new RegExp(values.only, 'i').test(name));

const isValid = Number(values.minutes) > 0 && Number(values.faults) >= 0 && names.length > 0;

if (values.help) process.stdout.write(USAGE);
else if (!isValid || (values.mutations && values.checkpoint !== undefined)) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else if (values.replay !== undefined)
  await printAgain(JSON.parse(readFileSync(values.replay, 'utf8')) as SavedFailure);
else if (values.mutations) await findMutations();
else await exploreAll();

async function exploreAll(): Promise<void> {
  console.log('| scenario | parties | faults | plans | orders played | pruned | minutes | result |');
  console.log('|---|---:|---:|---:|---:|---:|---:|---|');
  const failures: SavedFailure[] = [];
  await inThreads(compiled(WORKER), names, ({ name, work, usedMs }) => {
    const { failure, isComplete, parties, plans, played, pruned } = work;
    const result = failure === undefined ? (isComplete ? 'all orders' : 'out of time') : `FAILED: ${failure.problem}`;
    const minutes = (usedMs / 60_000).toFixed(1);
    console.log(`| ${[name, parties, values.faults, plans, played, pruned, minutes, result].join(' | ')} |`);
    if (failure !== undefined) failures.push({ scenario: name, ...failure });
  });
  for (const failure of failures) {
    const shrunk = { ...failure, ...(await shrink(scenarioNamed(failure.scenario), failure)) };
    if (values.save !== undefined) writeFileSync(values.save, JSON.stringify(shrunk));
    await printAgain(shrunk);
  }
}

async function findMutations(): Promise<void> {
  const wanted = new RegExp(positionals[0] ?? '', 'i');
  console.log('| bug | scenario | orders | minutes | found by |\n|---|---|---:|---:|---|');
  for (const mutation of MUTATIONS) {
    const { bug, scenario } = mutation;
    if (scenario === undefined || !wanted.test(bug)) continue;
    const file = await compiledWith(mutating(mutation), WORKER);
    let found: Failure | undefined;
    await inThreads(file, [scenario], ({ work, usedMs }) => {
      found = work.failure;
      const minutes = (usedMs / 60_000).toFixed(1);
      const row = [bug, scenario, work.played, minutes, found?.problem.split('\n')[0] ?? 'NOTHING'];
      console.log(`| ${row.join(' | ')} |`);
    }).finally(() => rmSync(file));
    if (found === undefined || (await isBrokenWithoutBug(scenario, found))) process.exitCode = 1;
  }
}

/**
 * Whether the order that finds a bug breaks a rule without the bug, too. Then the judges are wrong. Most of these orders
 * contain events that do not happen without the bug, so they cannot be played.
 */
async function isBrokenWithoutBug(scenario: string, failure: Failure): Promise<boolean> {
  const problem = (await replay(scenarioNamed(scenario), failure).catch(() => undefined))?.problem;
  if (problem !== undefined) console.log(`WITHOUT THE BUG, TOO: ${problem}`);
  return problem !== undefined;
}

/** How far a scenario is. */
interface Progress {
  readonly name: string;
  readonly work: Exploration;
  /** For how long the threads have explored it, in milliseconds. */
  usedMs: number;
}

/** Explores the scenarios on all cores. Calls `onEnd` for each of them when it is complete, or when the time is over. */
async function inThreads(
  program: string,
  scenarios: readonly string[],
  onEnd: (progress: Progress) => void,
): Promise<void> {
  const endMs = performance.now() + Number(values.minutes) * 60_000;
  const open = new Set(
    scenarios.map((name): Progress => {
      return { name, work: new Exploration(Number(values.faults), readSaved(name)), usedMs: 0 };
    }),
  );
  const end = (progress: Progress): void => {
    if (open.delete(progress)) onEnd(progress);
  };
  const hasEnded = ({ work }: Progress): boolean => work.failure !== undefined || work.isComplete;
  for (const progress of open) if (hasEnded(progress)) end(progress);
  /** The turns that the threads play. */
  const running = new Set<Promise<void>>();
  const work = async (): Promise<void> => {
    // With a small young generation, a sixth of the time is spent in the garbage collector.
    const worker = new Worker(program, { resourceLimits: { maxYoungGenerationSizeMb: 64 } });
    while (open.size > 0 && performance.now() < endMs) {
      const [progress, limits] = nextTurn(open);
      if (progress === undefined || limits === undefined) {
        await Promise.race(running);
        continue;
      }
      const turn = playTurn(worker, progress, limits).then(() => {
        running.delete(turn);
        if (hasEnded(progress)) end(progress);
      });
      running.add(turn);
      await turn;
    }
    await worker.terminate();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  for (const progress of open) end(progress);
}

/** Chooses a plan of the scenario that has had the least time. */
function nextTurn(open: ReadonlySet<Progress>): readonly [] | readonly [Progress, Limits] {
  for (const progress of [...open].sort((a, b) => a.usedMs - b.usedMs)) {
    const limits = progress.work.next();
    if (limits !== undefined) return [progress, limits];
  }
  return [];
}

async function playTurn(worker: Worker, progress: Progress, limits: Limits): Promise<void> {
  const { name, work } = progress;
  const startMs = performance.now();
  const answer = once(worker, 'message', { signal: AbortSignal.timeout(MAX_TURN_MS) });
  worker.postMessage({ scenario: name, ...limits } satisfies Task);
  const [explored] = (await answer.catch((cause: unknown) => {
    throw new Error(`${name}: the thread does not answer, with the plan ${JSON.stringify(limits.plan)}`, { cause });
  })) as [Checkpoint];
  progress.usedMs += performance.now() - startMs;
  work.note(limits.plan, explored);
  showProgress(`${name}: ${work.plans} plans, ${work.played} orders played, ${work.pruned} pruned`);
  if (values.checkpoint !== undefined) writeCheckpoint(fileOf(name), work.save());
}

function readSaved(name: string): SavedPlans | undefined {
  return values.checkpoint === undefined ? undefined : readCheckpoint<SavedPlans>(fileOf(name));
}

function fileOf(name: string): string {
  return join(values.checkpoint ?? '', `${name.replaceAll(' ', '-')}-${values.faults}.json`);
}

/** What `--save` writes. */
interface SavedFailure extends Failure {
  readonly scenario: string;
}

/** Plays a history again, and prints its events, with the sentences of the command `show` for the messages. */
async function printAgain(failure: SavedFailure): Promise<void> {
  console.log(`\n${failure.scenario}, with the plan ${JSON.stringify(failure.plan)}:`);
  const { problem } = await replay(scenarioNamed(failure.scenario), failure, (event, elapsedMs) =>
    console.log(eventText(event, elapsedMs)),
  );
  console.log(problem ?? 'no rule is broken');
  if (problem !== undefined) process.exitCode = 1;
}

function scenarioNamed(wanted: string): Scenario {
  const scenario = SCENARIOS.find(({ name }) => name === wanted);
  if (scenario === undefined) throw new Error(`no scenario has the name ${wanted}`);
  return scenario;
}

function atMostEvery(intervalMs: number, write: (line: string) => void): (line: string) => void {
  let writtenMs = performance.now();
  return (line) => {
    if (performance.now() < writtenMs + intervalMs) return;
    writtenMs = performance.now();
    write(line);
  };
}
