import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { findChromium } from './chromium.js';
import { startEtcd } from './etcd.js';
import { BrowserPage } from './runtimes/browser-page.js';
import { type CheckResult, type Conformance, OWN_HOLDS } from './runtimes/conformance.js';
import { Contender } from './runtimes/contender.js';
import { fetchRuntime } from './runtimes/fetch-runtime.js';
import { InstalledPackage } from './runtimes/installed.js';
import { GuardJudge } from './runtimes/judge-guard.js';
import { RUNTIMES, type Runtime } from './runtimes/runtimes.js';
import { SecureServers } from './runtimes/secure-servers.js';
import { ServedWorker } from './runtimes/serve-worker.js';

// One program on each runtime, against a real etcd: with the package as npm installs it, and as one file in an empty
// folder. Prints a table; fails where a check does. runtimes.ts [NAME...]

/** Processes of Node.js that want the same lock all the time. */
const NODE_CONTENDERS = 2;
/** For one program to end: a bound for hangs. */
const TIMEOUT_MS = 120_000;

interface Row {
  readonly runtime: string;
  readonly form: 'package' | 'one file' | 'one executable';
  readonly checks: readonly CheckResult[];
  readonly holds: number;
  readonly problems: readonly string[];
}

const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = ({ name }: { readonly name: string }): boolean =>
  wanted.length === 0 || wanted.some((each) => name.toLowerCase().startsWith(each));
// A page of another origin asks by CORS.
const etcd = await startEtcd({ args: ['--cors=*'] });
const rows: Row[] = [];
try {
  await using secure = await SecureServers.start();
  using installed = InstalledPackage.create();
  const program = await installed.program('program');
  const tryProgram = async (
    title: string,
    binary: string,
    { args = [], conditions }: Pick<Runtime, 'args' | 'conditions'>,
  ): Promise<void> => {
    const conform = (file: string) => (what: object) =>
      printed(
        binary,
        [...args, file, 'conform', JSON.stringify({ ...what, secure: secure.servers, sockets: true })],
        dirname(file),
      );
    await attempt(program, title, 'package', conform(program));
    await attempt(program, title, 'one file', conform(await installed.bundle('program', conditions)));
  };
  const tryWorker = async (
    title: string,
    binary: string,
    { conditions }: Pick<Runtime, 'conditions'>,
  ): Promise<void> => {
    using worker = await ServedWorker.start(binary, await installed.bundle('worker', conditions), secure.authority);
    await attempt(program, title, 'one file', async (what) => {
      const body = JSON.stringify({ ...what, secure: secure.withoutOptions, sockets: true });
      const response = await fetch(worker.url, { method: 'POST', body, signal: AbortSignal.timeout(TIMEOUT_MS) });
      return response.text();
    });
  };
  const here: Pick<Runtime, 'name' | 'args' | 'conditions'> = { name: 'Node.js', args: [], conditions: ['node'] };
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
  const chromium = findChromium();
  if (chromium === undefined) process.stderr.write('Chromium: not found, and not tried; CHROMIUM_BIN names one\n');
  else if (isWanted({ name: 'Chromium' })) {
    await using page = await BrowserPage.open(chromium, await installed.bundle('page', ['browser']));
    await attempt(program, `Chromium ${page.version}`, 'one file', async (what) =>
      JSON.stringify(await page.conformance({ ...what, secure: [], sockets: false })),
    );
  }
} finally {
  await etcd.stop();
}
process.stdout.write(tableText());
if (rows.length === 0 || rows.some(({ problems }) => problems.length > 0)) process.exitCode = 1;

/** Has the program conform while others contend, and judges both. */
async function attempt(
  program: string,
  runtime: string,
  form: Row['form'],
  conform: (what: Omit<Conformance, 'secure' | 'sockets'>) => Promise<string>,
): Promise<void> {
  process.stderr.write(`${runtime}, ${form}\n`);
  const [endpoint = ''] = etcd.endpoints;
  const lock = `lock-${rows.length}`;
  await using judge = await GuardJudge.start(endpoint, lock);
  const contending = Array.from({ length: NODE_CONTENDERS }, () => new Contender(program, endpoint, lock));
  const problems: string[] = [];
  let checks: CheckResult[] = [];
  let holds = 0;
  try {
    checks = JSON.parse(await conform({ endpoint, name: `run-${rows.length}`, lock })) as CheckResult[];
    for (const { check, problem } of checks) if (problem !== undefined) problems.push(`${check}: ${problem}`);
  } catch (error) {
    problems.push((error as Error).message);
  }
  try {
    await Promise.all(contending.map((each) => each.end()));
    holds = await judge.holds();
    if (problems.length === 0 && holds <= OWN_HOLDS) problems.push(`nobody else held the lock: ${holds} holds`);
  } catch (error) {
    problems.push((error as Error).message);
  }
  for (const problem of problems) process.stderr.write(`  FAILED ${problem}\n`);
  rows.push({ runtime, form, checks, holds, problems });
}

/** What a program prints that ends by itself: nothing may keep it alive once it is done. */
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
      else reject(new Error(`ended with ${code ?? signal} after printing ${JSON.stringify(text.slice(0, 200))}`));
    });
  });
}

function tableText(): string {
  const heads = ['runtime', 'as', 'checks passed', 'holds of the lock, judged'];
  const lines = rows.map(({ runtime, form, checks, holds, problems }) => {
    const passed = checks.filter(({ problem }) => problem === undefined).length;
    const verdict = problems.length === 0 ? `${passed} of ${checks.length}` : `FAILED: ${problems.join('; ')}`;
    return [runtime, form, verdict, String(holds)];
  });
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}
