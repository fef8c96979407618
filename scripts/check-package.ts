import { execFileSync, type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack, packProgram } from './pack.js';

const folder = mkdtempSync(join(tmpdir(), 'etcdwire-package-'));
try {
  const tarball = pack(folder);
  for (const each of [tarball, await packProgram('cli', folder), await packProgram('migrate', folder)])
    report(spawnSync('publint', ['run', each, '--strict'], { stdio: 'inherit' }));
  // The compiler writes `Uint8Array<ArrayBufferLike>` for a type that it infers. TypeScript before 5.7 refuses it.
  const declarations = execFileSync('tar', ['-xzOf', tarball, '--wildcards', '*.d.ts'], {
    encoding: 'utf8',
    maxBuffer: Number.POSITIVE_INFINITY,
  });
  const [generic] = /^.*\b(?:Uint8Array|ArrayBufferView)<.*$/m.exec(declarations) ?? [];
  if (generic !== undefined) {
    console.log(`a declaration needs TypeScript 5.7: ${generic.trim()}; declare the type`);
    process.exitCode = 1;
  }
  report(spawnSync('attw', [tarball, '--profile', 'node16'], { stdio: 'inherit' }));
} finally {
  rmSync(folder, { recursive: true });
}

function report({ status, error }: SpawnSyncReturns<Buffer>): void {
  if (error !== undefined) throw error;
  if (status !== 0) process.exitCode = 1;
}
