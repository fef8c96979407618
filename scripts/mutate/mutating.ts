import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'esbuild';
import type { Mutation } from './mutation.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Returns a plugin that replaces a part of one source file while a program is compiled. */
export function mutating({ file, find, replace }: Mutation): Plugin {
  return {
    name: 'mutation',
    setup: ({ onLoad }) => {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        if (path !== join(root, file)) return undefined;
        const code = readFileSync(path, 'utf8');
        if (code.split(find).length !== 2) throw new Error(`${file} must contain "${find}" exactly once`);
        return { contents: code.replace(find, () => replace), loader: 'ts' };
      });
    },
  };
}
