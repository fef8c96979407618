import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { compiled } from '../test/support/compiled.js';
import { spreadOf } from './bench/metrics.js';

// Measures unit tests that use a `MemoryEtcd`: how long the first test of a process takes, and how long later tests
// take. Each round runs in a new process, because a process compiles most code during its first test.

const USAGE = `npm run bench:testing -- [--rounds N] [--json]

--rounds is the number of processes, 15 by default. --json prints the medians and the spreads as JSON.
`;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

function main(): void {
  const rounds = Number(values.rounds);
  if (values.help || !Number.isInteger(rounds) || rounds < 1) {
    (values.help ? process.stdout : process.stderr).write(USAGE);
    if (!values.help) process.exitCode = 2;
    return;
  }
  // Users run compiled code, so the rounds run compiled code, too.
  const program = compiled(new URL('bench/child/unit-tests.ts', import.meta.url));
  const samples = Array.from({ length: rounds }, (_, round) => {
    if (process.stderr.isTTY) process.stderr.write(`\rround ${round + 1} of ${rounds}`);
    const { status, stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`the program exited with ${status}: ${stderr}`);
    return JSON.parse(stdout) as Record<string, number>;
  });
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  const names = Object.keys(samples[0] ?? {});
  const rows = names.map((name) => ({ name, ...spreadOf(samples.map((sample) => sample[name] ?? 0)) }));
  if (values.json) return void console.log(JSON.stringify(rows));
  const ms = (value = 0): string => value.toFixed(1);
  console.log(`Milliseconds, Node.js ${process.versions.node}, medians of ${rounds} processes\n`);
  console.log('| unit test | median | spread |\n|---|---|---|');
  for (const { name, median, min, max } of rows) console.log(`| ${name} | ${ms(median)} | ${ms(min)} to ${ms(max)} |`);
}

main();
