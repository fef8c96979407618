import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session as Inspector, type Profiler } from 'node:inspector';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import type * as Core from '../src/core.js';
import type * as Locks from '../src/locks.js';
import { startEtcd } from './etcd.js';

// Prints the files and the lines of src/ that run from a call to the bytes at the socket, for a put and for a lock without
// other contenders. Both calls run once before, so that the connection, the session and the tables exist. Run this
// script with:
//   npm run walk

type Library = typeof Core & Pick<typeof Locks, 'Mutex' | 'Session'>;

const root = fileURLToPath(new URL('..', import.meta.url));
const inspector = new Inspector();

/** Calls a method of the inspector, which answers synchronously within one process. */
function post<Result>(method: string, parameters: object = {}): Result {
  let result: Result | undefined;
  inspector.post(method, parameters, (error, answer) => {
    if (error !== null) throw error;
    result = answer as Result;
  });
  return result as Result;
}

/** Returns the functions that have run since the last call. */
function takeCoverage(): readonly Profiler.ScriptCoverage[] {
  return post<Profiler.TakePreciseCoverageReturnType>('Profiler.takePreciseCoverage').result;
}

/** Runs the call, and returns what has run until it first writes to a socket. */
async function untilWritten(call: () => Promise<unknown>): Promise<readonly Profiler.ScriptCoverage[]> {
  const { write } = Socket.prototype;
  let taken: readonly Profiler.ScriptCoverage[] | undefined;
  Socket.prototype.write = function (this: Socket, ...args: never[]): boolean {
    taken ??= takeCoverage();
    return (write as (...args: unknown[]) => boolean).apply(this, args);
  } as typeof write;
  takeCoverage();
  try {
    await call();
  } finally {
    Socket.prototype.write = write;
  }
  if (taken === undefined) throw new Error('the call wrote nothing to a socket');
  return taken;
}

/** The numbers of the lines of each file of src/ that have run, by the path of the file. */
type Lines = Map<string, Set<number>>;

/** Maps the parts of the bundle that have run to the lines of the sources. */
function linesOf(scripts: readonly Profiler.ScriptCoverage[], file: string): Lines {
  const code = readFileSync(file, 'utf8');
  const map = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')) as SourceMapPayload);
  const counts = new Int32Array(code.length).fill(-1);
  const functions = scripts.find(({ url }) => url === pathToFileURL(file).href)?.functions ?? [];
  // The first function is the module itself. An inner range follows its outer range, and replaces its count.
  for (const { ranges } of functions)
    for (const { startOffset, endOffset, count } of ranges) counts.fill(count, startOffset, endOffset);
  const found: Lines = new Map();
  let start = 0;
  for (const [row, line] of code.split('\n').entries()) {
    for (let column = 0; column < line.length; column += 1) {
      if (!/[\w$]/.test(line[column] as string) || (counts[start + column] as number) <= 0) continue;
      const entry = map.findEntry(row, column);
      if (!('originalSource' in entry)) continue;
      const source = relative(root, resolve(file, '..', entry.originalSource));
      if (!found.has(source)) found.set(source, new Set());
      found.get(source)?.add(entry.originalLine);
    }
    start += line.length + 1;
  }
  return found;
}

function print(what: string, lines: Lines): void {
  const rows = [...lines].filter(([source]) => source.startsWith('src/')).sort(([, a], [, b]) => b.size - a.size);
  const sum = rows.reduce((total, [, { size }]) => total + size, 0);
  console.log(`\n${what}: ${sum} lines in ${rows.length} files\n`);
  for (const [source, { size }] of rows) console.log(`${String(size).padStart(6)}  ${source}`);
}

const folder = mkdtempSync(join(tmpdir(), 'etcdwire-walk-'));
try {
  const file = join(folder, 'library.mjs');
  await build({
    stdin: {
      contents: "export * from './src/core.js'; export { Mutex, Session } from './src/locks.js';",
      resolveDir: root,
      loader: 'ts',
    },
    outfile: file,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    sourcemap: true,
    logLevel: 'warning',
  });
  inspector.connect();
  post('Profiler.enable');
  post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const { CoreClient, Mutex, Session } = (await import(pathToFileURL(file).href)) as Library;
  await using etcd = await startEtcd();
  await using client = new CoreClient({ endpoints: etcd.endpoints });
  await using session = await Session.open(client);
  const mutex = new Mutex(session, 'walk');
  const put = (): Promise<unknown> => client.put('walk', '1');
  await put();
  print('put', linesOf(await untilWritten(put), file));
  await (await mutex.lock()).release();
  let held: Locks.Held | undefined;
  const lock = async (): Promise<void> => {
    held = await mutex.lock();
  };
  print('Mutex.lock', linesOf(await untilWritten(lock), file));
  await held?.release();
} finally {
  rmSync(folder, { recursive: true });
}
