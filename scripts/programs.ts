import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheFolder, moveIntoCache } from '../src/testing/etcd/cache.js';
import { onPath, run, withProgress } from '../src/testing/etcd/programs.js';

// Finds the programs that tests need, on the PATH or in Debian's packages.

/** A program that runs on this machine. */
export interface Program {
  readonly path: string;
  /**
   * The environment for the program. If the program comes from a package, a variable names the folders of its shared
   * libraries.
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
