import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Whether src/gen/ is what the generator makes of proto/, and docs/reference/ what is made of the doc comments. They are
// compared with git's index, so that work in progress passes once it is staged. Where they differ the tree is left as
// the generator writes it: there to be committed.

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
  console.log(`${changed}${added}${folder}/ is not what npm run ${script} writes: add its result`);
  process.exitCode = 1;
}
