import { execFileSync, spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

buf(['lint']);
buf(['format', '--diff', '--exit-code']);
const base = ['origin/main', 'main'].find((ref) => hasProtos(ref));
if (base === undefined) {
  console.log('skipped: buf breaking, because there is no branch main with proto/');
} else {
  // With `.git#ref=…` buf would clone the repository, which git refuses for a checkout that another user owns.
  const protos = execFileSync('git', ['archive', base, 'buf.yaml', 'proto'], { cwd: root });
  buf(['breaking', '--against', '-#format=tar'], protos);
}

function buf(args: readonly string[], input?: Buffer): void {
  const { status, error } = spawnSync('buf', args, { cwd: root, stdio: ['pipe', 'inherit', 'inherit'], input });
  if (error !== undefined) throw error;
  if (status !== 0) process.exitCode = 1;
}

function hasProtos(ref: string): boolean {
  return spawnSync('git', ['cat-file', '-e', `${ref}:proto`], { cwd: root }).status === 0;
}
