import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'esbuild';

interface PackageJson {
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
}

const { exports }: PackageJson = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

/**
 * The names of the package's entry points, such as `etcdwire/node`, by their paths in dist/, such as `node.js`.
 */
export const ENTRY_POINTS: ReadonlyMap<string, string> = new Map(
  Object.entries(exports).flatMap(([name, target]) =>
    typeof target === 'string'
      ? []
      : [[target.default.replace(/^\.\/dist\//, ''), `etcdwire${name.slice(1)}`] as const],
  ),
);

/** The declaration of an exported name: the file that contains it, and its name in this file. */
export interface Declaration {
  readonly file: string;
  readonly name: string;
}

/** Returns the exported names of a file with their declarations. */
export function declarationsOf(file: string): Map<string, Declaration> {
  const text = readFileSync(file, 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
  const resolve = (path: string): string => fileURLToPath(new URL(`${path}.ts`, `file://${file}`));
  const names = new Map<string, Declaration>();
  for (const [, list = '', path] of text.matchAll(/^export (?:type )?\{([^}]*)\}(?: from '(.*)\.js')?/gm)) {
    const declared = path === undefined ? undefined : declarationsOf(resolve(path));
    for (const item of list.split(',').filter((each) => each.trim() !== '')) {
      const [original = '', name = original] = item
        .replace(/^\s*(?:type )?/, '')
        .trim()
        .split(' as ');
      names.set(name, declared?.get(original) ?? { file, name });
    }
  }
  for (const [, name = ''] of text.matchAll(
    /^export (?:async |abstract )*(?:function|class|const|type|interface) (\w+)/gm,
  ))
    names.set(name, { file, name });
  for (const [, path = ''] of text.matchAll(/^export \* from '(.*)\.js'/gm))
    for (const [name, declared] of declarationsOf(resolve(path))) names.set(name, declared);
  return names;
}

/** Matches an import of a file in src/ from another folder. */
const IN_SRC = /^(?:\.\.\/)+src\//;

function entryPointOf(path: string): string | undefined {
  return ENTRY_POINTS.get(path.replace(/^.*?src\//, ''));
}

/** An esbuild plugin that replaces imports of an entry point in src/ with imports of the installed package. */
export const importPackage: Plugin = {
  name: 'import-package',
  setup: ({ onResolve }) => {
    onResolve({ filter: IN_SRC }, ({ path }) => {
      const entryPoint = entryPointOf(path);
      return entryPoint === undefined ? undefined : { path: entryPoint, external: true };
    });
  },
};

/** An esbuild plugin that bundles the package that is installed in `folder` instead of the entry points in src/. */
export function importInstalled(folder: string): Plugin {
  return {
    name: 'import-installed',
    setup: ({ onResolve, resolve }) => {
      onResolve({ filter: IN_SRC }, async ({ path, kind }) => {
        const entryPoint = entryPointOf(path);
        return entryPoint === undefined ? undefined : resolve(entryPoint, { resolveDir: folder, kind });
      });
    },
  };
}
