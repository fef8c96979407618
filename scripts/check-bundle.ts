import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

// Measures the sizes of bundles that import different parts of the package. esbuild makes and minifies the bundles, and
// gzip compresses them. Fails if a bundle exceeds its limit, or if the table in docs/runtimes.md is wrong.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/** The bundles to measure. Each limit is in bytes after gzip. */
const BUNDLES: readonly { readonly imports: string; readonly code: string; readonly limit: number }[] = [
  { imports: '`Client`', code: "export { Client } from './src/index.js'", limit: 69_800 },
  {
    imports: '`CoreClient`',
    code: "export { CoreClient } from './src/core.js'",
    limit: 55_480,
  },
  {
    imports: '`CoreClient`, `Session`, `Mutex`',
    code: "export { CoreClient } from './src/core.js'; export { Mutex, Session } from './src/locks.js'",
    limit: 63_025,
  },
  {
    imports: '`Client`, `Session`, `Mutex`',
    code: "export { Client } from './src/index.js'; export { Mutex, Session } from './src/locks.js'",
    limit: 74_960,
  },
  {
    imports: '`Client`, all of `etcdwire/locks`',
    code: "export { Client } from './src/index.js'; export * from './src/locks.js'",
    limit: 80_010,
  },
  {
    imports: '`Client`, `etcdwire/gateway`',
    code: "export { Client } from './src/index.js'; export * from './src/gateway.js'",
    limit: 78_470,
  },
  {
    imports: '`Client`, `etcdwire/recipes`',
    code: "export { Client } from './src/index.js'; export * from './src/recipes.js'",
    limit: 99_520,
  },
  {
    imports: '`Client`, `etcdwire/node`',
    code: "export { Client } from './src/index.js'; export * from './src/node.js'",
    limit: 73_920,
  },
  {
    imports: '`Client`, `grpcJs` (without grpc-js)',
    code: "export { Client } from './src/index.js'; export { grpcJs } from './src/grpc-js.js'",
    limit: 71_955,
  },
  {
    imports: '`Client`, `etcdwire/opentelemetry` (without @opentelemetry/api)',
    code: "export { Client } from './src/index.js'; export * from './src/opentelemetry.js'",
    limit: 71_080,
  },
  {
    imports: '`Client`, `etcdwire/testing`',
    code: "export { Client } from './src/index.js'; export * from './src/testing/index.js'",
    limit: 127_720,
  },
];

const page = readFileSync(join(root, 'docs/runtimes.md'), 'utf8');
console.log('| imported | minified | gzip | limit |\n|---|---|---|---|');
for (const { imports, code, limit } of BUNDLES) {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: root, loader: 'ts' },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    external: ['node:*', '@grpc/grpc-js', '@opentelemetry/api'],
    write: false,
  });
  const bytes = outputFiles[0]?.contents ?? new Uint8Array();
  const gzipped = gzipSync(bytes, { level: 9 }).length;
  console.log(`| ${imports} | ${kB(bytes.length)} | ${kB(gzipped)} | ${kB(limit)} |`);
  if (gzipped > limit) fail(`${imports}: ${gzipped} bytes after gzip; allowed: ${limit}`);
  const row = `| ${imports} | ${Math.ceil(gzipped / 1000)} kB |`;
  if (!page.includes(row)) fail(`docs/runtimes.md lacks the row ${row}`);
}

function fail(problem: string): void {
  console.log(problem);
  process.exitCode = 1;
}

function kB(bytes: number): string {
  return `${(bytes / 1000).toFixed(1)} kB`;
}
