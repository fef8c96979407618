import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, run, withProgress } from '../programs.js';
import type { Runtime } from './runtimes.js';

/** The binary of a runtime, from the cache that all checkouts share, or from the registry, checked before unpacking. */
export async function fetchRuntime(runtime: Runtime): Promise<string> {
  const base = cacheFolder('runtimes');
  const folder = join(base, `${runtime.name}-${runtime.version}`);
  if (!existsSync(folder)) {
    mkdirSync(base, { recursive: true });
    await withProgress(`fetching ${runtime.name} ${runtime.version}`, unpack(runtime, base, folder));
  }
  return join(folder, runtime.binary);
}

async function unpack(runtime: Runtime, base: string, folder: string): Promise<void> {
  const specifier = `${runtime.package}@${runtime.version}`;
  const work = mkdtempSync(join(base, 'work-'));
  try {
    await run('npm', ['pack', specifier, '--pack-destination', work]);
    const [tarball = ''] = readdirSync(work);
    const actual = createHash('sha512')
      .update(readFileSync(join(work, tarball)))
      .digest('base64');
    if (actual !== runtime.integrity)
      throw new Error(`${specifier}: SHA-512 is ${actual}, expected ${runtime.integrity}`);
    await run('tar', ['-xzf', tarball], work);
    chmodSync(join(work, 'package', runtime.binary), 0o755);
    if (!existsSync(folder)) renameSync(join(work, 'package'), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
