import { renameSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/**
 * Compiles a program of this project to one file. Tests that start a program often need this, because each process would
 * otherwise spend most of a second of CPU time on TypeScript. Returns the path of the file.
 */
export function compiled(program: URL): string {
  const entryPoint = fileURLToPath(program);
  // The file is inside the project, so that it finds the installed packages.
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
  // The rename is atomic, because other tests may run the file at the same time.
  renameSync(written, file);
  return file;
}
