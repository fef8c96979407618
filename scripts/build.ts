import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Plugin } from 'esbuild';

// Writes dist/: the modules with what they share in files of their own, their types, and the program as one file.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const ENTRY_POINTS = [
  ...['index', 'concurrency/index', 'discovery/index', 'transport/gateway/index', 'transport/index'],
  ...['testing/index', 'node', 'grpc-js'],
];
/** One of these is what `#host` of package.json stands for, by the conditions of who loads it. */
const HOSTS = ['node', 'workerd', 'none'].map((name) => `host/${name}`);

const hostByCondition: Plugin = {
  name: 'host by condition',
  setup({ onResolve }) {
    onResolve({ filter: /\/host\/node\.js$/ }, () => ({ path: '#host', external: true }));
  },
};

const shared: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  logLevel: 'warning',
};

rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
await build({
  ...shared,
  entryPoints: [...ENTRY_POINTS, ...HOSTS].map((name) => `src/${name}.ts`),
  outbase: 'src',
  outdir: 'dist',
  splitting: true,
  packages: 'external',
  external: ['cloudflare:sockets'],
  plugins: [hostByCondition],
});
await build({
  ...shared,
  entryPoints: ['src/cli/main.ts'],
  outfile: 'dist/cli.js',
  platform: 'node',
  target: 'node20',
  // One file that runs anywhere, so the parser of arguments is within it, which is CommonJS.
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
