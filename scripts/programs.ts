import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

// Finds, fetches and runs the programs that scripts and tests need.

/** Returns the path of a program on the PATH, or undefined if the PATH does not contain the program. */
export function onPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
}

/**
 * Returns the path of a folder in the cache. The folder may not exist yet. All checkouts of one user share the cache,
 * because a build of etcd takes minutes.
 */
export function cacheFolder(...parts: readonly string[]): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'etcdwire', ...parts);
}

/**
 * Moves the finished folder `made` to `folder` in the cache. If another process has created `folder` in the meantime,
 * `isComplete` decides whether that folder can be used.
 */
export async function moveIntoCache(made: string, folder: string, isComplete: () => boolean): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  // A rename is atomic only within one file system, so the folder is first copied next to its destination.
  const staged = `${folder}.${process.pid}`;
  await run('cp', ['-r', made, staged]);
  try {
    renameSync(staged, folder);
  } catch (error) {
    rmSync(staged, { recursive: true, force: true });
    if (!isComplete()) throw error;
  }
}

/**
 * Runs a program until it exits. Resolves with its output. If the program fails, rejects with the last lines of its
 * output.
 */
export function run(program: string, args: readonly string[], cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk;
    });
    child.on('error', (error) => reject(new Error(`${program}: ${error.message}`)));
    child.on('close', (code) => {
      if (code === 0) return resolve(stdout);
      const lastLines = (stderr || stdout).trim().split('\n').slice(-3).join(' | ');
      reject(new Error(`${program} ${args[0] ?? ''}: exit ${code}: ${lastLines}`));
    });
  });
}

/** The time before the first progress report, in milliseconds. */
const QUIET_MS = 2_000;
/** The time between two progress reports, in milliseconds. */
const REPEAT_MS = 10_000;

/** Reports on stderr how long the work has taken so far, if the work takes longer than 2 s. */
export async function withProgress<T>(what: string, work: Promise<T>): Promise<T> {
  const start = performance.now();
  const report = (): void => {
    process.stderr.write(`${what} … ${Math.round((performance.now() - start) / 1000)} s\n`);
  };
  let repeat: NodeJS.Timeout | undefined;
  const first = setTimeout(() => {
    report();
    repeat = setInterval(report, REPEAT_MS);
  }, QUIET_MS);
  try {
    return await work;
  } finally {
    clearTimeout(first);
    clearInterval(repeat);
  }
}

/** A program that runs on this machine. */
export interface Program {
  readonly path: string;
  /**
   * The environment for the program. It contains the variable that tells the program where its shared libraries are.
   */
  readonly environment: NodeJS.ProcessEnv;
}

/** Time limit in seconds for one call of apt-get, so that an unreachable mirror does not block the caller for long. */
const APT_TIMEOUT_S = 40;

/**
 * Finds a program on the PATH, or else in a Debian or Ubuntu package. The package and the libraries that the system
 * lacks are unpacked into the cache. They are not installed, because an installation would start a service. The program
 * must print its version when it is called with `-v`.
 *
 * @throws Error with the reason if the program is not available.
 */
export async function debianProgram(name: string, packageName: string): Promise<Program> {
  const installed = onPath(name);
  if (installed !== undefined) return checked({ path: installed, environment: process.env });
  const folder = cacheFolder('debian', packageName);
  if (existsSync(folder)) {
    try {
      return await checked(programIn(folder, name));
    } catch {
      // The program does not start, because its package is for another release of the system.
      rmSync(folder, { recursive: true, force: true });
    }
  }
  if (onPath('apt-get') === undefined) throw new Error(`${name} is not on the PATH, and neither is apt-get`);
  const fetched = withPackageLists(() => unpackInto(folder, packageName, name));
  await withProgress(`getting ${name} from the Debian package ${packageName}`, fetched);
  return programIn(folder, name);
}

async function unpackInto(folder: string, packageName: string, name: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-debian-'));
  try {
    const plan = await apt(['install', '--simulate', '--no-install-recommends', packageName], work);
    // The plan lists the libraries that are missing or too old. Libc is left out, because only the system's own libc
    // works with the system's dynamic linker.
    const libraries = [...plan.matchAll(/^Inst (lib\S+)/gm)].map(([, library = '']) => library);
    const packages = [packageName, ...libraries.filter((library) => !/^libc(6|-bin)$/.test(library))];
    await apt(['download', '-qq', ...packages], work);
    for (const file of readdirSync(work)) await run('dpkg-deb', ['-x', file, 'root'], work);
    await checked(programIn(join(work, 'root'), name));
    await moveIntoCache(join(work, 'root'), folder, () => existsSync(folder));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

let updated: Promise<string> | undefined;

/**
 * Performs the action. If the action fails, updates the package lists and performs the action again, because a new
 * system has no lists and old lists name removed packages. Only root can update the lists.
 */
async function withPackageLists<T>(action: () => Promise<T>): Promise<T> {
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
    return await run('timeout', [String(APT_TIMEOUT_S), 'apt-get', ...args], cwd);
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    const reason = problem.includes('exit 124')
      ? `did not finish within ${APT_TIMEOUT_S} s`
      : problem.replace(/^timeout \d+: /, '');
    throw new Error(`apt-get ${args[0]}: ${reason}`);
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

/** Returns the program if it prints its version. @throws Error if the program does not start. */
async function checked(program: Program): Promise<Program> {
  const { LD_LIBRARY_PATH = '' } = program.environment;
  await run('env', [`LD_LIBRARY_PATH=${LD_LIBRARY_PATH}`, program.path, '-v']);
  return program;
}
