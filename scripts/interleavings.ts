import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { type Checkpoint, type Explored, replay } from '../test/interleavings/explorer.js';
import { SCENARIOS } from '../test/interleavings/scenarios.js';
import { compiled, compiledWith } from '../test/support/compiled.js';
import { readCheckpoint, writeCheckpoint } from './checkpoint.js';
import type { Answer, Task } from './interleavings/explore-worker.js';
import { mutating } from './mutate/mutating.js';
import { MUTATIONS } from './mutate/mutations.js';

// Plays all orders of the events of small scenarios of locks and other primitives, and prints how many there were.

const USAGE = `npm run test:interleavings -- [--faults F] [--minutes M] [--only REGEX] [--save FILE] [--checkpoint FOLDER]
       npm run test:interleavings -- --only REGEX --replay FILE
       npm run test:interleavings -- --mutations [--minutes M] [REGEX]

--faults is the maximum number of faults in an order, 1 by default. --minutes limits the time for each scenario, 2 by
default. --only selects scenarios by their names. --save writes the events of an order that breaks a rule to a file.
--replay plays such a file again. --checkpoint notes every 5 s in the folder how far each scenario is. The next run with
this folder goes on there.
--mutations introduces each known bug of test:mutations that a scenario must find, one at a time, and prints the order
that finds it. REGEX selects bugs by their descriptions.
`;
/** The program of the threads. It is compiled, because compiled code runs faster than code that tsx loads. */
const WORKER = new URL('interleavings/explore-worker.ts', import.meta.url);

const { values, positionals } = parseArgs({
  options: {
    faults: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '2' },
    only: { type: 'string', default: '' },
    save: { type: 'string' },
    replay: { type: 'string' },
    checkpoint: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const names = SCENARIOS.map(({ name }) => name).filter((name) => new RegExp(values.only, 'i').test(name));

const isValid = Number(values.minutes) > 0 && Number(values.faults) >= 0 && names.length > 0;

if (values.help) process.stdout.write(USAGE);
else if (!isValid || (values.mutations && values.checkpoint !== undefined)) {
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else if (values.replay !== undefined) await replayFile(values.replay);
else if (values.mutations) await findMutations();
else await exploreAll();

async function exploreAll(): Promise<void> {
  console.log('| scenario | faults | orders played | pruned | minutes | result |\n|---|---:|---:|---:|---:|---|');
  await inThreads(compiled(WORKER), names, (name, { played, pruned, isComplete, failure }, minutes) => {
    const result = failure === undefined ? (isComplete ? 'all orders' : 'out of time') : `FAILED: ${failure.problem}`;
    console.log(`| ${name} | ${values.faults} | ${played} | ${pruned} | ${minutes.toFixed(1)} | ${result} |`);
    if (failure === undefined) return;
    process.exitCode = 1;
    console.log(failure.trace.join('\n'));
    if (values.save !== undefined) writeFileSync(values.save, JSON.stringify(failure.trace));
  });
}

async function findMutations(): Promise<void> {
  const wanted = new RegExp(positionals[0] ?? '', 'i');
  console.log('| bug | scenario | orders | minutes | found by |\n|---|---|---:|---:|---|');
  for (const mutation of MUTATIONS) {
    const { bug, scenario } = mutation;
    if (scenario === undefined || !wanted.test(bug)) continue;
    const file = await compiledWith(mutating(mutation), WORKER);
    let found: Explored['failure'];
    await inThreads(file, [scenario], (_, { played, failure }, minutes) => {
      found = failure;
      const row = [bug, scenario, played, minutes.toFixed(1), failure?.problem.split('\n')[0] ?? 'NOTHING'];
      console.log(`| ${row.join(' | ')} |`);
    }).finally(() => rmSync(file));
    if (found === undefined || (await isBrokenWithoutBug(scenario, found.trace))) process.exitCode = 1;
  }
}

/** Whether the order that finds a bug breaks a rule without the bug, too. Then the judges are wrong. */
async function isBrokenWithoutBug(scenario: string, trace: readonly string[]): Promise<boolean> {
  const wanted = SCENARIOS.find(({ name }) => name === scenario) as (typeof SCENARIOS)[number];
  // Without the bug, the order may contain other events, and so cannot be played.
  const problem = await replay(wanted, trace).catch(() => undefined);
  if (problem !== undefined) console.log(`WITHOUT THE BUG, TOO: ${problem}`);
  return problem !== undefined;
}

/** Explores the scenarios on all cores. Calls `onEnd` when one of them ends. */
async function inThreads(
  program: string,
  scenarios: readonly string[],
  onEnd: (name: string, explored: Explored, minutes: number) => void,
): Promise<void> {
  const left = [...scenarios];
  const work = async (): Promise<void> => {
    const worker = new Worker(program);
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const startMs = performance.now();
      const explored = await exploreIn(worker, name);
      onEnd(name, explored, (performance.now() - startMs) / 60_000);
    }
    await worker.terminate();
  };
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), left.length) }, work));
}

function exploreIn(worker: Worker, scenario: string): Promise<Explored> {
  const file = values.checkpoint && join(values.checkpoint, `${scenario.replaceAll(' ', '-')}-${values.faults}.json`);
  const from = file ? readCheckpoint<Checkpoint>(file) : undefined;
  const limits = { faults: Number(values.faults), maxMs: Number(values.minutes) * 60_000 };
  return new Promise((resolve, reject) => {
    const onAnswer = ({ soFar, explored }: Answer): void => {
      if (soFar !== undefined) {
        process.stderr.write(`${scenario}: ${soFar.played} orders played, ${soFar.pruned} pruned\n`);
        if (file) writeCheckpoint(file, soFar);
      }
      if (explored === undefined) return;
      worker.off('message', onAnswer);
      worker.off('error', reject);
      resolve(explored);
    };
    worker.on('message', onAnswer);
    worker.on('error', reject);
    worker.postMessage({ scenario, ...limits, from } satisfies Task);
  });
}

async function replayFile(file: string): Promise<void> {
  const trace = JSON.parse(readFileSync(file, 'utf8')) as string[];
  for (const scenario of SCENARIOS.filter(({ name }) => names.includes(name))) {
    const problem = await replay(scenario, trace);
    console.log(`${scenario.name}: ${problem ?? 'no rule is broken'}`);
    if (problem !== undefined) process.exitCode = 1;
  }
}
