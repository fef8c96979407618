import { mkdirSync, renameSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** Inside the project, so that compiled programs find the installed packages. */
const CACHE = fileURLToPath(new URL('../../.cache/', import.meta.url));
// esbuild resolves nothing in a folder that does not exist, and a new clone has no such folder.
mkdirSync(CACHE, { recursive: true });
const OPTIONS = {
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  packages: 'external',
  logLevel: 'warning',
} as const;
const known = new Map<string, string>();

/**
 * Compiles a program of this project to one file and returns its path. A process that loads TypeScript itself would spend
 * most of a second of CPU time on it.
 */
export function compiled(program: URL): string {
  const entryPoint = fileURLToPath(program);
  const file = known.get(entryPoint) ?? compileFile(entryPoint, `${CACHE}${basename(entryPoint, '.ts')}.mjs`);
  known.set(entryPoint, file);
  return file;
}

function compileFile(entryPoint: string, file: string): string {
  const written = `${file}.${process.pid}`;
  buildSync({
    entryPoints: [entryPoint],
    outfile: written,
    ...OPTIONS,
  });
  // The rename is atomic, because other tests may run the file at the same time.
  renameSync(written, file);
  return file;
}

/** Compiles the source of a program, which imports files by their absolute paths. Returns the path of the result. */
export function compiledSource(contents: string, name: string): string {
  const file = `${CACHE}${name}.${process.pid}.mjs`;
  buildSync({
    stdin: { contents, loader: 'ts', resolveDir: CACHE },
    outfile: file,
    ...OPTIONS,
  });
  return file;
}
