import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findChromium } from './chromium.js';
import { startEtcd } from './etcd.js';
import { Bridge } from './runtimes/bridge.js';
import { type CheckResult, type Conformance, OWN_HOLDS } from './runtimes/conformance.js';
import { Contender, GuardCheck } from './runtimes/contenders.js';
import { checkEdge } from './runtimes/edge.js';
import { BrowserPage, ServedWorker } from './runtimes/hosts.js';
import { InstalledPackage } from './runtimes/installed.js';
import { type Command, killHolder } from './runtimes/killed-holders.js';
import type { MemoryRows } from './runtimes/memory.js';
import { buildQuickJs, QUICKJS_WASM, type QuickJs } from './runtimes/quickjs.js';
import { fetchRuntime, RUNTIMES, type Runtime } from './runtimes/runtimes.js';
import { SecureServers } from './runtimes/secure-servers.js';

const USAGE = `npm run test:runtimes -- [NAME...]

Runs the same checks on each runtime with a real etcd, once with the package as npm installs it and once as a single file in
an empty folder. Prints a table, and fails if a check fails. Also prints how much memory a small program with a lock needs on
each runtime. NAME selects the runtimes whose names start with it, and \`edge\` the programs for edge workers.
`;

/** Number of Node.js processes that contend for the lock during the checks. */
const NODE_CONTENDERS = 2;
/** Time limit in milliseconds for a program or a request. A program that hangs is killed after this time. */
const TIMEOUT_MS = 120_000;

if (process.argv.includes('--help')) {
  process.stdout.write(USAGE);
  process.exit(0);
}

interface Row {
  readonly runtime: string;
  readonly form: 'package' | 'one file' | 'one executable' | 'programs for the edge';
  readonly checks: readonly CheckResult[];
  /** Undefined if no other process contends for the lock. */
  readonly holds: number | undefined;
  readonly problems: readonly string[];
}

/** The memory of a small program on a runtime. */
interface Measured {
  readonly runtime: string;
  /** Size of the bundle after minification. Undefined if the bundle also contains the checks. */
  readonly bundleBytes: number | undefined;
  readonly rows: MemoryRows;
}

const measured: Measured[] = [];
/** The folder in which tsx is installed. */
const root = fileURLToPath(new URL('..', import.meta.url));
const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = ({ name }: { readonly name: string }): boolean =>
  wanted.length === 0 || wanted.some((each) => name.toLowerCase().startsWith(each));
const rows: Row[] = [];
{
  // The server for the programs whose memory is measured.
  await using etcd = await startEtcd();
  const [endpoint = ''] = etcd.endpoints;
  await using secure = await SecureServers.start();
  using installed = InstalledPackage.create();
  const program = await installed.program('program');
  const tryProgram = async (
    title: string,
    binary: string,
    { args = [], gcArgs = [], conditions }: Pick<Runtime, 'args' | 'gcArgs' | 'conditions'>,
  ): Promise<void> => {
    const conform = (file: string) => (what: object) =>
      printed(
        binary,
        [...args, file, 'conform', JSON.stringify({ ...what, secure: secure.servers, sockets: true })],
        dirname(file),
      );
    await attempt(program, title, 'package', conform(program));
    await attempt(program, title, 'one file', conform(await installed.bundle('program', conditions)));
    const holder = await installed.bundle('holder', conditions);
    const memory = await printed(binary, [...args, ...gcArgs, holder, 'memory', endpoint], dirname(holder));
    measured.push({ runtime: title, bundleBytes: statSync(holder).size, rows: JSON.parse(memory) });
  };
  const tryWorker = async (
    title: string,
    binary: string,
    { conditions }: Pick<Runtime, 'conditions'>,
  ): Promise<void> => {
    const bundle = await installed.bundle('worker', conditions);
    using worker = await ServedWorker.start(binary, bundle, secure.authority);
    await attempt(program, title, 'one file', async (what) => {
      const body = JSON.stringify({ ...what, secure: secure.withoutOptions, sockets: true });
      const response = await fetch(worker.url, { method: 'POST', body, signal: AbortSignal.timeout(TIMEOUT_MS) });
      return response.text();
    });
    measured.push({ runtime: title, bundleBytes: undefined, rows: await worker.memory(endpoint) });
  };
  const tryEdge = async (title: string, binary: string, conditions: readonly string[]): Promise<void> => {
    process.stderr.write(`${title}, programs for edge workers\n`);
    const { checks, requestMs } = await checkEdge(binary, installed, conditions);
    const problems = checks.flatMap(({ check, problem }) => (problem === undefined ? [] : [`${check}: ${problem}`]));
    for (const problem of problems) process.stderr.write(`  FAILED ${problem}\n`);
    process.stderr.write(`  ${requestMs.toFixed(1)} ms of CPU time for a request with a client of its own\n`);
    rows.push({ runtime: title, form: 'programs for the edge', checks, holds: undefined, problems });
  };
  const tryQuickJs = async ({ title, command }: QuickJs): Promise<void> => {
    const bundle = await installed.bundle('embedded', [], 'iife');
    const holder = await installed.bundle('embedded-holder', [], 'iife');
    const [engine, ...args] = command;
    const [ours, theirs]: [Command, Command] = [
      [...command, holder],
      [process.execPath, await installed.bundle('holder', ['node'])],
    ];
    await attempt(program, title, 'one file', async (what) => {
      const conformance = JSON.stringify({ ...what, secure: [], sockets: true });
      const checks = JSON.parse(await printed(engine, [...args, bundle, 'conform', conformance], root));
      const kills = [
        { check: 'kill -9 of a holder that Node.js waits for', holder: ours, waiter: theirs },
        { check: 'kill -9 of a holder in Node.js', holder: theirs, waiter: ours },
      ];
      for (const [index, { check, holder: killed, waiter }] of kills.entries()) {
        const problem = await killHolder(what.endpoint, `killed-${index}`, killed, waiter).catch(messageOf);
        checks.push({ check, problem });
      }
      return JSON.stringify(checks);
    });
    const memory = await printed(engine, [...args, holder, 'memory', endpoint], root);
    measured.push({ runtime: title, bundleBytes: statSync(holder).size, rows: JSON.parse(memory) });
  };
  const here = { name: 'Node.js', args: [], gcArgs: ['--expose-gc'], conditions: ['node'] };
  if (isWanted(here)) await tryProgram(`Node.js ${process.versions.node}`, process.execPath, here);
  if (isWanted(here)) {
    const executable = await installed.executable('program');
    await attempt(program, `Node.js ${process.versions.node}`, 'one executable', (what) => {
      const conformance = JSON.stringify({ ...what, secure: secure.servers, sockets: true });
      return printed(executable, ['conform', conformance], dirname(executable));
    });
  }
  for (const runtime of RUNTIMES.filter(isWanted)) {
    const binary = await fetchRuntime(runtime);
    const title = `${runtime.name} ${runtime.version}`;
    if (runtime.args === undefined) await tryWorker(title, binary, runtime);
    else await tryProgram(title, binary, runtime);
  }
  for (const runtime of RUNTIMES.filter(({ args }) => args === undefined))
    if (isWanted(runtime) || isWanted({ name: 'edge' }))
      await tryEdge(`${runtime.name} ${runtime.version}`, await fetchRuntime(runtime), runtime.conditions);
  const chromium = findChromium();
  if (chromium === undefined)
    process.stderr.write('Chromium: skipped, because it was not found; set CHROMIUM_BIN to its path\n');
  else if (isWanted({ name: 'Chromium' })) {
    await using page = await BrowserPage.open(chromium, await installed.bundle('page', ['browser']));
    const conform: Parameters<typeof attempt>[3] = async (what) =>
      JSON.stringify(await page.conformance({ ...what, secure: [], sockets: false }));
    await attempt(program, `Chromium ${page.version}`, 'one file', conform, page.origin);
  }
  if (isWanted({ name: 'QuickJS' })) {
    const quickJs = await buildQuickJs();
    if (typeof quickJs === 'string') process.stderr.write(`QuickJS: skipped: ${quickJs}\n`);
    else await tryQuickJs(quickJs);
    await tryQuickJs(QUICKJS_WASM);
  }
}
process.stdout.write(`${tableText()}\n${memoryText()}`);
if (rows.length === 0 || rows.some(({ problems }) => problems.length > 0)) process.exitCode = 1;

/**
 * Runs the checks while other processes contend for the lock. Also checks that only one holder held the lock at a time.
 * Each run has a server of its own, because the snapshot of a server that earlier runs have filled takes minutes in a slow
 * engine.
 */
async function attempt(
  program: string,
  runtime: string,
  form: Row['form'],
  conform: (what: Omit<Conformance, 'secure' | 'sockets'>) => Promise<string>,
  origin?: string,
): Promise<void> {
  process.stderr.write(`${runtime}, ${form}\n`);
  // The page in the browser has a different origin from etcd, so etcd must allow the page's requests.
  await using etcd = await startEtcd({ args: ['--cors=*'] });
  const [endpoint = ''] = etcd.endpoints;
  using bridge = form === 'one file' ? await Bridge.start(endpoint, origin) : undefined;
  const [name, lock] = ['checks', 'lock'];
  await using guard = await GuardCheck.start(endpoint, lock);
  const contending = Array.from({ length: NODE_CONTENDERS }, () => new Contender(program, endpoint, lock));
  const problems: string[] = [];
  let checks: CheckResult[] = [];
  let holds = 0;
  try {
    checks = JSON.parse(await conform({ endpoint, name, lock, tunnel: bridge?.url })) as CheckResult[];
    for (const { check, problem } of checks) if (problem !== undefined) problems.push(`${check}: ${problem}`);
  } catch (error) {
    problems.push((error as Error).message);
  }
  try {
    await Promise.all(contending.map((each) => each.end()));
    holds = await guard.holds();
    if (problems.length === 0 && holds <= OWN_HOLDS) problems.push(`no other process held the lock: ${holds} holds`);
  } catch (error) {
    problems.push((error as Error).message);
  }
  for (const problem of problems) process.stderr.write(`  FAILED ${problem}\n`);
  rows.push({ runtime, form, checks, holds, problems });
}

/**
 * Runs a program and resolves with its output. Waits until the program exits on its own, because a closed client must
 * not keep the program running.
 */
function printed(program: string, args: readonly string[], cwd: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'], timeout: TIMEOUT_MS });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === 0) resolve(text);
      else
        reject(
          new Error(`the program exited with ${code ?? signal} after it printed ${JSON.stringify(text.slice(0, 200))}`),
        );
    });
  });
}

function messageOf(error: unknown): string {
  return (error as Error).message;
}

/** The memory in MB. Of each pair, the first number is the heap, and the second one the resident memory. */
function memoryText(): string {
  const heads = ['runtime', 'bundle kB', 'at start', 'with a lock', 'and 100 watches'];
  const mb = (bytes: number): string => (bytes === 0 ? 'unknown' : (bytes / 1e6).toFixed(1));
  const lines = measured.map(({ runtime, bundleBytes, rows: memory }) => [
    runtime,
    bundleBytes === undefined ? '' : (bundleBytes / 1_000).toFixed(0),
    ...memory.map(({ heap, resident }) => `${mb(heap)} / ${mb(resident)}`),
  ]);
  return tableOf(heads, lines);
}

function tableText(): string {
  const heads = ['runtime', 'as', 'checks passed', 'holds of the lock'];
  const lines = rows.map(({ runtime, form, checks, holds, problems }) => {
    const passed = checks.filter(({ problem }) => problem === undefined).length;
    const verdict = problems.length === 0 ? `${passed} of ${checks.length}` : `FAILED: ${problems.join('; ')}`;
    return [runtime, form, verdict, String(holds ?? '')];
  });
  return tableOf(heads, lines);
}

function tableOf(heads: readonly string[], lines: readonly (readonly string[])[]): string {
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}
