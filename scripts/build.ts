import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';

// Writes dist/: the entry points, the chunks that they share, their types, and the command-line program as one file.
// All these files have source maps that refer to src/, which is part of the package.
//
// The modules are bundled because Node.js takes two to three times as long to load about 130 separate modules.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const ENTRY_POINTS = [
  ...['index', 'core', 'concurrency/index', 'discovery/index', 'transport/gateway/index', 'transport/index'],
  ...['testing/index', 'node', 'grpc-js', 'opentelemetry'],
];
/**
 * The modules that use APIs of a runtime, one for each kind of runtime. `#host` in package.json selects one of them by
 * the export conditions of the runtime or bundler.
 */
const HOSTS = ['node', 'workerd', 'none'].map((name) => `host/${name}`);

const SOURCE_CLASSES: ReadonlySet<string> = new Set(
  readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [
      ...readFileSync(join(root, 'src', name), 'utf8').matchAll(/^(?:export )?(?:abstract )?class (\w+)/gm),
    ])
    .map(([, name]) => name as string),
);

const hostByCondition: Plugin = {
  name: 'host by condition',
  setup({ onResolve }) {
    onResolve({ filter: /\/host\/node\.js$/ }, () => ({ path: '#host', external: true }));
  },
};

const shared = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
} as const satisfies BuildOptions;

rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
const { outputFiles, metafile } = await build({
  ...shared,
  entryPoints: [...ENTRY_POINTS, ...HOSTS].map((name) => `src/${name}.ts`),
  outbase: 'src',
  outdir: 'dist',
  splitting: true,
  packages: 'external',
  external: ['cloudflare:sockets'],
  plugins: [hostByCondition],
  metafile: true,
  write: false,
});
const chunkNames = namesOfChunks(metafile);
for (const { path, text } of outputFiles) {
  const file = withChunkNames(path, chunkNames);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, withChunkNames(path.endsWith('.js') ? withClassNames(text, path) : text, chunkNames));
}
await build({
  ...shared,
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/cli.js',
  platform: 'node',
  target: 'node20',
  // The file contains the argument parser commander, which is CommonJS and therefore needs `require`.
  banner: {
    js: [
      '#!/usr/bin/env node',
      '/*! With commander:',
      readFileSync(join(root, 'node_modules/commander/LICENSE'), 'utf8').trim(),
      '*/',
      "import { createRequire } from 'node:module';",
      'const require = createRequire(import.meta.url);',
    ].join('\n'),
  },
});

/**
 * Returns a readable name for each chunk that esbuild names by a hash. The readable name contains the folder in src/ of
 * the chunk's largest file.
 */
function namesOfChunks({ outputs }: Metafile): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [path, { inputs }] of Object.entries(outputs)) {
    const chunk = /(chunk-[A-Z0-9]{8})\.js$/.exec(path)?.[1];
    if (chunk === undefined) continue;
    const files = Object.entries(inputs).map(([file, { bytesInOutput }]) => ({ file, bytes: bytesInOutput }));
    const largest = files.reduce((a, b) => (b.bytes > a.bytes ? b : a), { file: 'src/helpers/', bytes: 0 });
    const [, folder = '', base = ''] = /^src\/(?:([^/]+)\/)?(?:.*\/)?([^/]*?)(?:\.ts)?$/.exec(largest.file) ?? [];
    const isTaken = [...names.values()].includes(`shared-${folder}`);
    names.set(chunk, isTaken ? `shared-${folder}-${base}` : `shared-${folder}`);
  }
  if (new Set(names.values()).size < names.size)
    throw new Error(`two chunks have the same name: ${[...names.values()]}`);
  return names;
}

function withChunkNames(text: string, names: ReadonlyMap<string, string>): string {
  return text.replace(/chunk-[A-Z0-9]{8}/g, (chunk) => names.get(chunk) ?? chunk);
}

/**
 * Returns the code with the class names that the sources have. esbuild writes `var Session = class _Session` for a
 * class that refers to itself, and `var KeyValue2 = class` for the second declaration of a name. Stack traces and
 * `util.inspect` would show the names that esbuild chose. esbuild's option `keepNames` would prevent this, but it makes
 * users' bundles 7 % larger. Inside a class expression, the name of the class shadows a variable of that name, so the
 * body must not refer to such a variable.
 */
function withClassNames(text: string, path: string): string {
  return text.replace(
    /^var (\w+) = class(?: (\w+))?(?: extends .+)? \{$[\s\S]*?^\};$/gm,
    (declaration, variable: string, inner: string | undefined) => {
      if (inner === `_${variable}`) return declaration.replace(new RegExp(`(?<![\\w$.])${inner}\\b`, 'g'), variable);
      if (SOURCE_CLASSES.has(variable)) return declaration;
      const name = variable.replace(/\d+$/, '');
      const body = declaration.slice(declaration.indexOf('{')).replace(/\/\*[\s\S]*?\*\/|\/\/.*|"[^"\n]*"/g, '');
      if (inner !== undefined || !SOURCE_CLASSES.has(name) || new RegExp(`(?<![\\w$.])${name}\\b`).test(body))
        throw new Error(`${path}: esbuild renamed the class ${name} to ${variable}; rename it in the sources`);
      return declaration.replace('class', `class ${name}`);
    },
  );
}
