import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writePlayground } from '../packages/learn/src/playground.js';

// Checks that the generated files equal the output of their generators: src/gen/ and the comments of the command line
// from proto/, docs/errors.md from the tables of reasons, and the playground from its sources. The check compares the
// generated files with git's index, so that work in progress passes once it is staged. If files differ, the new versions
// stay in the working tree, so that they can be committed.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' });

await import('./generate.js');
await import('./errors-page.js');
await writePlayground();

for (const [path, script] of [
  ['src/gen', 'generate'],
  ['packages/cli/src/comments.ts', 'generate'],
  ['docs/errors.md', 'docs:errors'],
  ['packages/learn/playground.html', 'docs:playground'],
] as const) {
  const changed = git('diff', '--', path);
  const added = git('ls-files', '--others', '--exclude-standard', '--', path);
  if (changed === '' && added === '') continue;
  console.log(
    `${path.endsWith('.html') ? '' : changed}${added}${path} is outdated: run npm run ${script}, and stage the files`,
  );
  process.exitCode = 1;
}
