import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { analyze } from 'eslint-scope';
import { parse } from 'espree';

// Checks that the client for engines without a runtime uses no other global than those in the table of
// docs/runtimes.md, and that it uses all of these.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const CODE = `
export { CoreClient } from './src/core.js';
export { http2 } from './src/index.js';
export * from './src/locks.js';
export * from './src/recipes.js';
`;
/** A property of the environment of this package, and a global that the code of esbuild for `using` does not need. */
const NOT_NEEDED = new Set(['bootMs', 'SuppressedError']);
/** Globals that the context of `node:vm` has, but that are not part of ECMAScript 2022. */
const NOT_STANDARD = new Set(['console', 'WebAssembly', 'Iterator', 'escape', 'unescape']);

const { outputFiles } = await build({
  stdin: { contents: CODE, resolveDir: root, loader: 'ts' },
  bundle: true,
  format: 'esm',
  target: 'es2022',
  // Removes comments.
  minifyWhitespace: true,
  write: false,
  // An import of a module of a runtime fails the build.
  platform: 'neutral',
  plugins: [
    {
      name: 'bare-host',
      setup: ({ onResolve }) =>
        onResolve({ filter: /\/host\/node\.js$/ }, () => ({ path: join(root, 'src/host/none.ts') })),
    },
  ],
});
const code = outputFiles[0]?.text ?? '';
const tree = parse(code, { ecmaVersion: 2022, sourceType: 'module', range: true }) as Parameters<typeof analyze>[0];
const { globalScope } = analyze(tree, { ecmaVersion: 2022, sourceType: 'module' });
const free = globalScope?.through.map(({ identifier }) => identifier.name) ?? [];
// The client reads clocks, timers and random numbers as properties of its environment, which is `globalThis`.
const ofEnvironment = [...code.matchAll(/\benvironment\.(\w+)/g)].map(([, name = '']) => name);
const standard = new Set(
  runInContext('Object.getOwnPropertyNames(globalThis)', createContext({})).filter(
    (name: string) => !NOT_STANDARD.has(name),
  ),
);
const used = new Set([...free, ...ofEnvironment].filter((name) => !standard.has(name) && !NOT_NEEDED.has(name)));
const page = readFileSync(join(root, 'docs/runtimes.md'), 'utf8');
const [, table = ''] = /## What the engine must have\n.*?(\| global .*?)\n\n/s.exec(page) ?? [];
const cells = [...table.matchAll(/^\| (`.*?`) \|/gm)].map(([, cell = '']) => cell);
const documented = new Set(cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)));

const undocumented = [...used].filter((name) => !documented.has(name));
const unused = [...documented].filter((name) => !used.has(name));
for (const name of undocumented) console.log(`the bundle uses ${name}, which the table of docs/runtimes.md lacks`);
for (const name of unused) console.log(`the table of docs/runtimes.md has ${name}, which the bundle does not use`);
if (undocumented.length + unused.length > 0) process.exitCode = 1;
