import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

buf('lint');
buf('format', '--diff', '--exit-code');
const base = ['origin/main', 'main'].find((ref) => hasProtos(ref));
if (base === undefined) console.log('skipped: buf breaking, for there is no branch main here that has proto/');
else buf('breaking', '--against', `.git#ref=${base}`);

function buf(...args: string[]): void {
  const { status } = spawnSync(join(root, 'node_modules/.bin/buf'), args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}

function hasProtos(ref: string): boolean {
  return spawnSync('git', ['cat-file', '-e', `${ref}:proto`], { cwd: root }).status === 0;
}
