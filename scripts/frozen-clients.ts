import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client } from '../src/index.js';
import { FaultProxy, type RunningEtcd } from '../src/testing/index.js';
import { compiled } from '../test/support/compiled.js';
import { goProgram } from '../test/support/go-program.js';
import { startEtcd } from './etcd.js';

// Measures the first put of a client after its process was frozen (SIGSTOP). While the process is frozen, its
// connection stays alive, dies silently, or is closed because the server restarts. Also measures the first put of a
// client that was idle while a NAT forgot its connection. Prints a table of docs/benchmarks.md, with a row for etcdwire
// and a row for Go's client in each case.

const USAGE = 'npx tsx scripts/frozen-clients.ts [--seconds 5,30,90]\n';
const PROGRAM = compiled(new URL('../test/support/frozen-program.ts', import.meta.url));

type Case = 'connection lives' | 'connection silently dead' | 'server restarted' | 'idle, connection silently dead';
/** The programs that make the put, and their arguments. */
type Programs = Readonly<Record<string, (endpoint: string) => readonly [path: string, ...args: string[]]>>;
const CASES: readonly Case[] = [
  'connection lives',
  'connection silently dead',
  'server restarted',
  'idle, connection silently dead',
];

/** Returns the outcome and the duration of the first put, such as `ok, 3 ms`. */
async function measure(what: Case, program: Programs[string], seconds: number): Promise<string> {
  await using etcd: RunningEtcd = await startEtcd({});
  const [endpoint = ''] = etcd.endpoints;
  let connections = 0;
  await using proxy = await FaultProxy.start(endpoint, {
    senderOf: (bytes) => (Buffer.from(bytes).toString('latin1', 0, 3) === 'PRI' ? `${++connections}` : undefined),
  });
  const [path, ...args] = program(proxy.endpoint);
  const child: ChildProcess = spawn(path, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
    await lines.next();
    if (!what.startsWith('idle')) child.kill('SIGSTOP');
    if (what.endsWith('dead')) proxy.cutOff('1');
    const startedAt = performance.now();
    if (what === 'server restarted') {
      const [member] = etcd.cluster?.members ?? [];
      await member?.kill();
      await member?.start();
    }
    await pause(seconds * 1_000 - (performance.now() - startedAt));
    child.stdin?.write('frozen\n');
    child.kill('SIGCONT');
    const [outcome, ms] = String((await lines.next()).value).split(' ');
    await using client = new Client({ endpoints: [endpoint] });
    const version = (await client.get('frozen'))?.version;
    return `${outcome}${version === 2n ? '' : `, applied ${version === undefined ? 0 : version - 1n} times`}, ${ms} ms`;
  } finally {
    child.kill('SIGKILL');
  }
}

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '5,30,90' } } });
const durations = values.seconds.split(',').map(Number);
if (!durations.every((seconds) => seconds > 0)) {
  process.stderr.write(`--seconds: got "${values.seconds}"; allowed: numbers above 0, separated by commas\n${USAGE}`);
  process.exit(2);
}
const go = await goProgram(fileURLToPath(new URL('bench/go', import.meta.url)));
if ('missing' in go) process.stderr.write(`The rows of Go's client are missing: ${go.missing}\n`);
const programs: Programs = {
  etcdwire: (endpoint) => [process.execPath, PROGRAM, 'frozen', endpoint],
  ...('path' in go ? { "Go's client": (endpoint: string) => [go.path, endpoint, 'frozen', 'frozen'] as const } : {}),
};
const rows = CASES.flatMap((what) =>
  Object.entries(programs).map(([client, program]) => [
    what,
    client,
    ...durations.map((seconds) => measure(what, program, seconds)),
  ]),
);
process.stdout.write(
  `| | client | ${durations.map((seconds) => `${seconds} s`).join(' | ')} |\n|---|---|${'---|'.repeat(durations.length)}\n`,
);
for (const row of rows) process.stdout.write(`| ${(await Promise.all(row)).join(' | ')} |\n`);
