import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cacheFolder } from '../../src/testing/etcd/cache.js';
import { onPath, run } from '../../src/testing/etcd/programs.js';

const INTEROP = join(import.meta.dirname, '../interop/go');

/**
 * Builds the Go program in a folder, or finds the built program in the cache. Resolves with the path of the built
 * program, or with the reason why it is missing.
 */
export async function goProgram(folder = INTEROP): Promise<{ readonly path: string } | { readonly missing: string }> {
  const files = readdirSync(folder).filter((file) => /\.(go|mod|sum)$/.test(file));
  const sources = files.sort().map((file) => readFileSync(join(folder, file)));
  const hash = createHash('sha256').update(Buffer.concat(sources)).digest('hex').slice(0, 16);
  const path = cacheFolder(`go-interop-${hash}`);
  if (existsSync(path)) return { path };
  if (onPath('go') === undefined) return { missing: 'go is not on the PATH' };
  try {
    mkdirSync(dirname(path), { recursive: true });
    const built = `${path}.${process.pid}`;
    await run('go', ['build', '-o', built, '.'], folder);
    renameSync(built, path);
    return { path };
  } catch (error) {
    return { missing: `Go could not build the program: ${error instanceof Error ? error.message : String(error)}` };
  }
}
