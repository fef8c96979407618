import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

// Runs the fuzz targets in test/fuzz/ one after the other, with new seeds, until the time from --minutes is up. If an
// input makes a target fail, the target minimizes the input and writes it to the target's corpus.

const USAGE = `npm run test:fuzz -- [--minutes N] [--target REGEX]

--minutes is the time for all targets together, 10 by default. --target selects files in test/fuzz/ by name.
`;
const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    target: { type: 'string', default: '' },
    help: { type: 'boolean', default: false },
  },
});
const minutes = Number(values.minutes);
const wanted = new RegExp(values.target);
const files = readdirSync(join(root, 'test/fuzz')).filter((file) => file.endsWith('.test.ts') && wanted.test(file));

if (values.help) {
  process.stdout.write(USAGE);
} else if (!(minutes > 0) || files.length === 0) {
  if (!(minutes > 0)) process.stderr.write(`--minutes: got "${values.minutes}"; allowed: a number above 0\n`);
  if (files.length === 0) process.stderr.write(`--target: got "${values.target}"; it matches no file in test/fuzz/\n`);
  process.stderr.write(USAGE);
  process.exitCode = 2;
} else {
  const tests = files.map((file) => `test/fuzz/${file}`);
  const { status } = spawnSync(
    'npx',
    ['vitest', 'run', '--mode', 'all', '--project', 'generators', '--project', 'cli', '--maxWorkers', '1', ...tests],
    {
      cwd: root,
      env: { ...process.env, FUZZ_MINUTES: String(minutes / files.length) },
      stdio: 'inherit',
    },
  );
  process.exitCode = status ?? 1;
}
