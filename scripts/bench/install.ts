import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { installInto } from '../pack.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Under node_modules, so that what the programs import is found from there. */
const CACHE = join(ROOT, 'node_modules/.cache');

/** The programs that run as processes of their own. */
const PROGRAMS = {
  contender: fileURLToPath(new URL('child/program.ts', import.meta.url)),
  'cold-start-etcdwire': fileURLToPath(new URL('cold-start/etcdwire.ts', import.meta.url)),
  'cold-start-etcdwire-grpc-js': fileURLToPath(new URL('cold-start/etcdwire-grpc-js.ts', import.meta.url)),
  'cold-start-etcd3': fileURLToPath(new URL('cold-start/etcd3.ts', import.meta.url)),
  'cold-start-bare-grpc-js': fileURLToPath(new URL('cold-start/bare-grpc-js.ts', import.meta.url)),
  'cold-start-empty': fileURLToPath(new URL('cold-start/empty.ts', import.meta.url)),
} as const;
export type Program = keyof typeof PROGRAMS;

/** Entry points of the package, as the programs import its sources. */
const ENTRY_POINTS: Readonly<Record<string, string>> = {
  'index.js': 'etcdwire',
  'concurrency/index.js': 'etcdwire/concurrency',
  'grpc-js.js': 'etcdwire/grpc-js',
};

/** The programs and the package as a user would have them: packed and installed, nothing left to compile. */
export interface Installation {
  /** Path of a program. */
  path(program: Program): string;
  remove(): void;
}

export async function install(): Promise<Installation> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'etcdwire-bench-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    installInto(folder);
    await build({
      entryPoints: PROGRAMS,
      outdir: folder,
      outExtension: { '.js': '.mjs' },
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      packages: 'external',
      plugins: [fromPackage],
      logLevel: 'warning',
    });
  } catch (error) {
    remove();
    throw error;
  }
  return { path: (program) => join(folder, `${program}.mjs`), remove };
}

/** Has the programs import the package by its name where they import the sources of its entry points. */
const fromPackage: Plugin = {
  name: 'from-package',
  setup: ({ onResolve }) => {
    onResolve({ filter: /^(?:\.\.\/)+src\// }, ({ path }) => {
      const entryPoint = ENTRY_POINTS[path.replace(/^.*?src\//, '')];
      return entryPoint === undefined ? undefined : { path: entryPoint, external: true };
    });
  },
};
