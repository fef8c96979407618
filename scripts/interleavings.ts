import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Explored, explore, replay } from '../test/interleavings/explorer.js';
import { SCENARIOS } from '../test/interleavings/scenarios.js';

// Plays all orders of the events of small scenarios of locks and other primitives, and prints how many there were.

const USAGE = `npm run test:interleavings -- [--faults F] [--minutes M] [--only REGEX] [--save FILE]
       npm run test:interleavings -- --only REGEX --replay FILE

--faults is the maximum number of faults in an order, 1 by default. --minutes limits the time for each scenario, 2 by
default. --only selects scenarios by their names. --save writes the events of an order that breaks a rule to a file.
--replay plays such a file again.
`;
const PROGRESS_MS = 5_000;

const { values } = parseArgs({
  options: {
    faults: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '2' },
    only: { type: 'string', default: '' },
    save: { type: 'string' },
    replay: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const wanted = new RegExp(values.only, 'i');
const scenarios = SCENARIOS.filter(({ name }) => wanted.test(name));
const faults = Number(values.faults);

if (values.help) process.stdout.write(USAGE);
else if (values.replay !== undefined) await replayFile(values.replay);
else await exploreAll();

async function exploreAll(): Promise<void> {
  console.log('| scenario | faults | orders played | pruned | seconds | result |\n|---|---:|---:|---:|---:|---|');
  for (const scenario of scenarios) {
    const startMs = performance.now();
    let printedMs = startMs;
    const onHistory = ({ played, pruned }: Explored): void => {
      if (performance.now() < printedMs + PROGRESS_MS) return;
      printedMs = performance.now();
      process.stderr.write(`${scenario.name}: ${played} orders played, ${pruned} pruned\n`);
    };
    const explored = await explore(scenario, { faults, maxMs: Number(values.minutes) * 60_000, onHistory });
    const { played, pruned, isComplete, failure } = explored;
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
    const result = failure === undefined ? (isComplete ? 'all orders' : 'out of time') : `FAILED: ${failure.problem}`;
    console.log(`| ${scenario.name} | ${faults} | ${played} | ${pruned} | ${seconds} | ${result} |`);
    if (failure === undefined) continue;
    process.exitCode = 1;
    console.log(failure.trace.join('\n'));
    if (values.save !== undefined) writeFileSync(values.save, JSON.stringify(failure.trace));
  }
}

async function replayFile(file: string): Promise<void> {
  const trace = JSON.parse(readFileSync(file, 'utf8')) as string[];
  for (const scenario of scenarios) {
    const problem = await replay(scenario, trace);
    console.log(`${scenario.name}: ${problem ?? 'no rule is broken'}`);
    if (problem !== undefined) process.exitCode = 1;
  }
}
