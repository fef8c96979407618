import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { startEtcd } from './etcd.js';
import type { MemoryTask } from './memory/child.js';

// Measures how much memory the parts of a client take. A new process measures each row, after garbage collections.

const USAGE = `npx tsx scripts/memory.ts [--only ROW] [--snapshot FOLDER]

Prints the memory of watches, calls, sessions and locks, in kB each, and the largest buffer of an idle client.
--only measures one row. --snapshot writes a heap snapshot before and after each measurement into an existing folder.
`;

interface Row {
  readonly name: MemoryTask;
  readonly unit: string;
  readonly count: number;
  readonly server: 'etcd' | 'silent';
}

const ROWS: readonly Row[] = [
  { name: 'iterated watches', unit: 'kB each', count: 1_000, server: 'etcd' },
  { name: 'sent puts', unit: 'kB each', count: 10_000, server: 'silent' },
  { name: 'queued puts', unit: 'kB each', count: 10_000, server: 'silent' },
  { name: 'sessions', unit: 'kB each', count: 1_000, server: 'etcd' },
  { name: 'held locks', unit: 'kB each, with the session', count: 1_000, server: 'etcd' },
  { name: 'idle client', unit: 'kB in the largest buffer', count: 1, server: 'etcd' },
];

/** Starts a server that accepts calls and never answers them. */
async function startSilentServer(): Promise<{ readonly endpoint: string; close(): void }> {
  const server = createServer({ settings: { maxConcurrentStreams: 1_000_000 } });
  server.on('stream', (stream) => stream.on('error', () => {}).resume());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

async function buildChild(folder: string): Promise<string> {
  const program = join(folder, 'child.mjs');
  await build({
    entryPoints: [fileURLToPath(new URL('memory/child.ts', import.meta.url))],
    outfile: program,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
    alias: { '#host': fileURLToPath(new URL('../src/host/node.ts', import.meta.url)) },
    logLevel: 'warning',
  });
  return program;
}

async function measure(program: string, row: Row, endpoint: string, snapshots: string | undefined): Promise<string> {
  const child = spawn(
    process.execPath,
    ['--expose-gc', program, row.name, endpoint, String(row.count), ...(snapshots === undefined ? [] : [snapshots])],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const exited = once(child, 'exit');
  let output = '';
  for await (const text of child.stdout) output += text;
  const [code] = await exited;
  if (code !== 0) throw new Error(`the process that measures "${row.name}" ended with exit code ${code}`);
  return output.trim();
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { only: { type: 'string' }, snapshot: { type: 'string' }, help: { type: 'boolean', default: false } },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const rows = ROWS.filter(({ name }) => values.only === undefined || name === values.only);
  if (rows.length === 0) throw new Error(`--only: allowed: ${ROWS.map(({ name }) => `"${name}"`).join(', ')}`);
  const cache = fileURLToPath(new URL('../node_modules/.cache', import.meta.url));
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'etcdwire-memory-'));
  const etcd = await startEtcd({ prefer: 'quick' });
  const silent = await startSilentServer();
  try {
    const program = await buildChild(folder);
    for (const row of rows) {
      const endpoint = row.server === 'etcd' ? (etcd.endpoints[0] as string) : silent.endpoint;
      const result = await measure(program, row, endpoint, values.snapshot);
      process.stdout.write(`${`${row.count} ${row.name}`.padEnd(24)} ${result} ${row.unit}\n`);
    }
  } finally {
    silent.close();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main().catch((error: Error) => {
  process.stderr.write(`${error.message}\n${USAGE}`);
  process.exitCode = 1;
});
