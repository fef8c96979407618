import { execFileSync, spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

buf(['lint']);
buf(['format', '--diff', '--exit-code']);
const base = ['origin/main', 'main'].find((ref) => hasProtos(ref));
if (base === undefined) {
  console.log('skipped: buf breaking, because no branch main contains proto/');
} else {
  // The .proto files are passed as an archive, because with `.git#ref=…` buf would clone the repository. Git refuses to
  // clone a checkout that another user owns.
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
