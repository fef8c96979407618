import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Whether src/gen/ is what the generator makes of proto/. Both are compared with git's index, so that work in progress
// passes once it is staged. Where they differ the tree is left as the generator writes it: there to be committed.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8' });

await import('./generate.js');

const changed = git('diff', '--', 'src/gen');
const added = git('ls-files', '--others', '--exclude-standard', '--', 'src/gen');
if (changed !== '' || added !== '') {
  console.log(`${changed}${added}src/gen/ is not what scripts/generate.ts writes: add the result of npm run generate`);
  process.exitCode = 1;
}
