import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { findChromium } from './chromium.js';
import { startEtcd } from './etcd.js';
import { type CheckResult, type Conformance, OWN_HOLDS } from './runtimes/conformance.js';
import { Contender, GuardCheck } from './runtimes/contenders.js';
import { BrowserPage, ServedWorker } from './runtimes/hosts.js';
import { InstalledPackage } from './runtimes/installed.js';
import { fetchRuntime, RUNTIMES, type Runtime } from './runtimes/runtimes.js';
import { SecureServers } from './runtimes/secure-servers.js';

const USAGE = `npm run test:runtimes -- [NAME...]

Runs the same checks on each runtime with a real etcd, once with the package as npm installs it and once as a single file in
an empty folder. Prints a table, and fails if a check fails. NAME selects the runtimes whose names start with it.
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
  readonly form: 'package' | 'one file' | 'one executable';
  readonly checks: readonly CheckResult[];
  readonly holds: number;
  readonly problems: readonly string[];
}

const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = ({ name }: { readonly name: string }): boolean =>
  wanted.length === 0 || wanted.some((each) => name.toLowerCase().startsWith(each));
// The page in the browser has a different origin from etcd, so etcd must allow the page's requests.
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
  if (chromium === undefined)
    process.stderr.write('Chromium: skipped, because it was not found; set CHROMIUM_BIN to its path\n');
  else if (isWanted({ name: 'Chromium' })) {
    await using page = await BrowserPage.open(chromium, await installed.bundle('page', ['browser']));
    await attempt(program, `Chromium ${page.version}`, 'one file', async (what) =>
      JSON.stringify(await page.conformance({ ...what, secure: [], sockets: false })),
    );
  }
} finally {
  await etcd.close();
}
process.stdout.write(tableText());
if (rows.length === 0 || rows.some(({ problems }) => problems.length > 0)) process.exitCode = 1;

/**
 * Runs the checks while other processes contend for the lock. Also checks that only one holder held the lock at a time.
 */
async function attempt(
  program: string,
  runtime: string,
  form: Row['form'],
  conform: (what: Omit<Conformance, 'secure' | 'sockets'>) => Promise<string>,
): Promise<void> {
  process.stderr.write(`${runtime}, ${form}\n`);
  const [endpoint = ''] = etcd.endpoints;
  const lock = `lock-${rows.length}`;
  await using guard = await GuardCheck.start(endpoint, lock);
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

function tableText(): string {
  const heads = ['runtime', 'as', 'checks passed', 'holds of the lock'];
  const lines = rows.map(({ runtime, form, checks, holds, problems }) => {
    const passed = checks.filter(({ problem }) => problem === undefined).length;
    const verdict = problems.length === 0 ? `${passed} of ${checks.length}` : `FAILED: ${problems.join('; ')}`;
    return [runtime, form, verdict, String(holds)];
  });
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}
