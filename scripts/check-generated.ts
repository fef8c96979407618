import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Checks that src/gen/ and docs/reference/ are up to date: generates both, and compares them with the git index. Staged work
// in progress passes. If they differ, the generated files stay in the tree, ready to be committed.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' });

await import('./generate.js');
await import('./reference.js');

for (const [folder, script] of [
  ['src/gen', 'generate'],
  ['docs/reference', 'docs:reference'],
] as const) {
  const changed = git('diff', '--', folder);
  const added = git('ls-files', '--others', '--exclude-standard', '--', folder);
  if (changed === '' && added === '') continue;
  console.log(`${changed}${added}${folder}/ differs from the output of npm run ${script}: commit that output`);
  process.exitCode = 1;
}
