import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cacheFolder } from '../cache-folder.js';
import { onPath } from '../etcd/binary.js';
import { withProgress } from '../etcd/progress.js';
import { run } from '../etcd/run.js';

/** A program that runs here. */
export interface Program {
  readonly path: string;
  /** With what it needs to find its shared libraries. */
  readonly environment: NodeJS.ProcessEnv;
}

/** Where no mirror answers, that is to be known soon. */
const APT_LIMIT_S = 40;

/**
 * A program of the PATH, or else of the Debian or Ubuntu package: unpacked into the cache with the libraries that are
 * not there, rather than installed, which would start a service that nobody asked for. `-v` makes it tell its version.
 *
 * @throws Error that says why it cannot be had.
 */
export async function debianProgram(name: string, source: string): Promise<Program> {
  const installed = onPath(name);
  if (installed !== undefined) return checked({ path: installed, environment: process.env });
  const folder = cacheFolder('debian', source);
  if (existsSync(folder)) {
    try {
      return await checked(programIn(folder, name));
    } catch {
      // From another release of the system.
      rmSync(folder, { recursive: true, force: true });
    }
  }
  if (onPath('apt-get') === undefined) throw new Error(`no ${name} on the PATH, and no apt-get`);
  const fetched = withLists(() => fetchInto(folder, source, name));
  await withProgress(`getting ${name} from Debian's package ${source}`, fetched);
  return programIn(folder, name);
}

async function fetchInto(folder: string, source: string, name: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-debian-'));
  try {
    const plan = await apt(['install', '--simulate', '--no-install-recommends', source], work);
    // Those that are not there, or too old. Beside the system's dynamic linker only the system's libc works.
    const libraries = [...plan.matchAll(/^Inst (lib\S+)/gm)].map(([, library = '']) => library);
    const packages = [source, ...libraries.filter((library) => !/^libc(6|-bin)$/.test(library))];
    await apt(['download', '-qq', ...packages], work);
    for (const file of readdirSync(work)) await run('dpkg-deb', ['-x', file, 'root'], work);
    await checked(programIn(join(work, 'root'), name));
    mkdirSync(dirname(folder), { recursive: true });
    const staged = `${folder}.${process.pid}`;
    await run('cp', ['-r', join(work, 'root'), staged]);
    try {
      renameSync(staged, folder);
    } catch (error) {
      // Another process was first.
      rmSync(staged, { recursive: true, force: true });
      if (!existsSync(folder)) throw error;
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

let updated: Promise<string> | undefined;

/** A new system has no lists of packages, and an old list names packages that are gone. */
async function withLists<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (process.getuid?.() !== 0) throw error;
    updated ??= apt(['update', '-qq']);
    await updated;
    return await action();
  }
}

async function apt(args: readonly string[], cwd?: string): Promise<string> {
  try {
    return await run('timeout', [String(APT_LIMIT_S), 'apt-get', ...args], cwd);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    const what = problem.includes('exit 124')
      ? `not done within ${APT_LIMIT_S} s`
      : problem.replace(/^timeout \d+: /, '');
    throw new Error(`apt-get ${args[0]}: ${what}`);
  }
}

function programIn(root: string, name: string): Program {
  const folders = ['lib', 'usr/lib'].map((folder) => join(root, folder)).filter((folder) => existsSync(folder));
  const libraries = folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((entry) => /-linux-gnu/.test(entry))
      .map((entry) => join(folder, entry)),
  );
  const inSbin = join(root, 'usr/sbin', name);
  return {
    path: existsSync(inSbin) ? inSbin : join(root, 'usr/bin', name),
    environment: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') },
  };
}

async function checked(program: Program): Promise<Program> {
  const { LD_LIBRARY_PATH = '' } = program.environment;
  await run('env', [`LD_LIBRARY_PATH=${LD_LIBRARY_PATH}`, program.path, '-v']);
  return program;
}
