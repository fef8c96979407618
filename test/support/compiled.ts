import { mkdirSync, renameSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, buildSync, type Plugin } from 'esbuild';

/** The folder for compiled programs. It is inside the project, so that the programs find the installed packages. */
const CACHE = fileURLToPath(new URL('../../.cache/', import.meta.url));
// A new clone has no such folder, and esbuild cannot resolve imports from a folder that does not exist.
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
 * Compiles a program of this project to one file and returns the path of that file. Loading the TypeScript source
 * instead would cost each process most of a second of CPU time.
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
  // Replaces the file atomically, because other tests may run the file at the same time.
  renameSync(written, file);
  return file;
}

/**
 * Compiles a program of this project, like `compiled`, with a plugin that changes the source. Resolves with the path of
 * the compiled file. The caller must remove this file.
 */
export async function compiledWith(plugin: Plugin, program: URL): Promise<string> {
  const entryPoint = fileURLToPath(program);
  const file = `${CACHE}${basename(entryPoint, '.ts')}-${plugin.name}.${process.pid}.mjs`;
  await build({
    entryPoints: [entryPoint],
    outfile: file,
    plugins: [plugin],
    ...OPTIONS,
  });
  return file;
}

/**
 * Compiles the source text of a program, which must import files by their absolute paths. Returns the path of the
 * result.
 */
export function compiledSource(contents: string, name: string): string {
  const file = `${CACHE}${name}.${process.pid}.mjs`;
  buildSync({
    stdin: { contents, loader: 'ts', resolveDir: CACHE },
    outfile: file,
    ...OPTIONS,
  });
  return file;
}

/**
 * Compiles the source text of a program, like `compiledSource`, without leaving out any code of the imported files.
 * Returns the paths of the result and of its source map. The caller must remove both files.
 */
export function compiledWhole(contents: string, name: string): { readonly file: string; readonly map: string } {
  const file = `${CACHE}${name}.${process.pid}.mjs`;
  buildSync({
    stdin: { contents, loader: 'ts', resolveDir: CACHE },
    outfile: file,
    ...OPTIONS,
    treeShaking: false,
    ignoreAnnotations: true,
    sourcemap: 'external',
  });
  return { file, map: `${file}.map` };
}
