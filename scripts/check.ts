import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Runs every `check:*` script of package.json, in the order of that file. The scripts run one after another, because
// check:generated rewrites files that the other scripts read.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const checks = Object.keys(scripts).filter((name) => name.startsWith('check:'));

const failed = checks.filter((name) => {
  const start = performance.now();
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', name], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: Number.POSITIVE_INFINITY,
  });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} ${name.padEnd(17)} ${seconds.padStart(5)} s`);
  if (status !== 0) console.log(`${stdout}${stderr}`);
  // Print which parts a check skipped, because a reader could mistake a skipped part for a successful one.
  else for (const line of stdout.split('\n')) if (line.startsWith('skipped')) console.log(`       ${line}`);
  return status !== 0;
});

if (failed.length > 0) {
  console.log(`${failed.length} of ${checks.length} checks failed: ${failed.join(', ')}`);
  process.exitCode = 1;
}
