import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

// Feeds the targets of test/fuzz/ with inputs of ever new seeds, one target after the other. What fails is written into
// the corpus of its target, as small as it could be made.
//   npm run test:fuzz -- [--minutes N] [--target REGEX]

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, target: { type: 'string', default: '' } },
});
const minutes = Number(values.minutes);
const wanted = new RegExp(values.target);
const files = readdirSync(join(root, 'test/fuzz')).filter((file) => file.endsWith('.test.ts') && wanted.test(file));

if (!(minutes > 0) || files.length === 0) {
  process.stderr.write('--minutes takes a number above 0, --target what the name of a file in test/fuzz/ matches\n');
  process.exitCode = 2;
} else {
  const tests = files.map((file) => `test/fuzz/${file}`);
  const { status } = spawnSync('npx', ['vitest', 'run', '--project', 'http2', '--maxWorkers', '1', ...tests], {
    cwd: root,
    env: { ...process.env, FUZZ_MINUTES: String(minutes / files.length) },
    stdio: 'inherit',
  });
  process.exitCode = status ?? 1;
}
