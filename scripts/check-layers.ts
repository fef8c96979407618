import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

// src/ is a stack: a file imports from its own rank or below, and never in a circle. Imports of types count as well,
// for who reads a file has to know those too.

/** The folders and files directly under src/, lowest rank first. */
const RANKS: readonly (readonly string[])[] = [
  [
    ...[
      'errors',
      'status',
      'status-error',
      'server-errors',
      'bytes',
      'byte-slab',
      'arguments',
      'options',
      'lines',
      'sha256',
      'time',
      'fifo',
      'flat-iterator',
      'async-queue',
      'in-turn',
      'once',
      'log',
    ],
    ...['checked-signal', 'on-abort', 'protobuf', 'random-id', 'turn-queue'],
  ],
  ['gen', 'method-table'],
  ['json'],
  ['transport'],
  ['gateway'],
  ['channel'],
  ['kv', 'txn', 'lease', 'watch', 'auth', 'cluster', 'maintenance', 'lock', 'election', 'mirror', 'raw'],
  ['client', 'keyspace', 'namespace'],
  ['concurrency', 'discovery'],
  ['inspect'],
  ['cli', 'testing', 'node', 'index', 'grpc-js'],
];
/** The places for what only Node has: other hosts are to be able to load the rest. */
const NODE_ONLY = ['transport/grpc-js/', 'transport/hosts/node.ts', 'node/', 'testing/', 'cli/'];

const src = join(dirname(fileURLToPath(import.meta.url)), '../src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path.endsWith('.ts'))
  .sort();
const imports = new Map<string, readonly string[]>();
const violations: string[] = [];

for (const file of files) {
  const code = readFileSync(join(src, file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  const specifiers = [...code.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)'([^']+)'/g)].map((match) => match[1] ?? '');
  const local = specifiers.filter((specifier) => specifier.startsWith('.'));
  imports.set(
    file,
    local.map((specifier) => posix.join(posix.dirname(file), specifier.replace(/\.js$/, '.ts'))),
  );
  if (!NODE_ONLY.some((place) => file.startsWith(place))) {
    for (const specifier of specifiers.filter((name) => name.startsWith('node:'))) {
      violations.push(
        `src/${file} imports ${specifier}, which belongs in ${NODE_ONLY.map((place) => `src/${place}`).join(' or ')}`,
      );
    }
    if (/\bBuffer\b/.test(code))
      violations.push(
        `src/${file} uses Buffer, which belongs in ${NODE_ONLY.map((place) => `src/${place}`).join(' or ')}`,
      );
  }
}

for (const [file, targets] of imports) {
  const rank = rankOf(file);
  if (rank === -1) violations.push(`src/${file} has no rank; give it one in scripts/check-layers.ts`);
  for (const target of rank === -1 ? [] : targets) {
    if (rankOf(target) > rank) {
      violations.push(`src/${file} (rank ${rank}) imports src/${target} (rank ${rankOf(target)})`);
    }
  }
}

const visited = new Set<string>();
for (const file of files) findCircles(file, []);

for (const violation of violations) console.log(violation);
if (violations.length > 0) process.exitCode = 1;

function rankOf(file: string): number {
  const [entry = ''] = file.replace(/\.ts$/, '').split('/');
  return RANKS.findIndex((entries) => entries.includes(entry));
}

function findCircles(file: string, path: readonly string[]): void {
  if (path.includes(file)) {
    const circle = [...path.slice(path.indexOf(file)), file];
    violations.push(`circle: ${circle.map((step) => `src/${step}`).join(' imports ')}`);
    return;
  }
  if (visited.has(file)) return;
  visited.add(file);
  for (const target of imports.get(file) ?? []) findCircles(target, [...path, file]);
}
