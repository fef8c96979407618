import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pack } from './pack.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const folder = mkdtempSync(join(tmpdir(), 'etcdwire-package-'));
try {
  const tarball = pack(folder);
  run('publint', 'run', tarball, '--strict');
  // ESM only: `require` works where Node can require ES modules, from 20.19 on, which test/package.test.ts shows.
  run('attw', tarball, '--profile', 'esm-only');
} finally {
  rmSync(folder, { recursive: true });
}

function run(tool: string, ...args: string[]): void {
  const { status } = spawnSync(join(root, 'node_modules/.bin', tool), args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exitCode = 1;
}
