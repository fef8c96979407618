import { renameSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/**
 * A program of this project as one file, for one that many processes are started of: each would spend most of a second
 * of a core on reading TypeScript.
 */
export function compiled(program: URL): string {
  const entryPoint = fileURLToPath(program);
  // In the project, where packages are found from.
  const file = fileURLToPath(new URL(`../../.cache/${basename(entryPoint, '.ts')}.mjs`, import.meta.url));
  const written = `${file}.${process.pid}`;
  buildSync({
    entryPoints: [entryPoint],
    outfile: written,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    packages: 'external',
    logLevel: 'warning',
  });
  // At once, for others run it meanwhile.
  renameSync(written, file);
  return file;
}
