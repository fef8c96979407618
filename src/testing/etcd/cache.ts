import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { environment, pause } from '../../base/index.js';

// Keeps downloaded and built programs in a folder of the user: `etcdwire` in XDG_CACHE_HOME, or else in `~/.cache`.

/**
 * Returns the path of a folder in the cache. The folder may not exist yet. All projects of one user share the cache,
 * because a build of etcd takes minutes.
 */
export function cacheFolder(...parts: readonly string[]): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'etcdwire', ...parts);
}

/** The folders that this process is filling, each with a promise that settles when the work has ended. */
const filling = new Map<string, Promise<void>>();

/**
 * Fills a folder of the cache. `make` creates the files in the temporary folder `work`, and resolves with the folder
 * that contains them. If several callers or several processes fill the same folder at once, one of them calls `make`
 * and the others wait for it.
 *
 * @param isComplete Returns whether the folder in the cache can be used.
 */
export function fillFolder(
  folder: string,
  isComplete: () => boolean,
  make: (work: string) => Promise<string>,
): Promise<void> {
  const underWay = filling.get(folder);
  if (underWay !== undefined) return underWay;
  const work = fill(folder, isComplete, make).finally(() => filling.delete(folder));
  filling.set(folder, work);
  return work;
}

async function fill(folder: string, isComplete: () => boolean, make: (work: string) => Promise<string>): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  const release = await lock(`${folder}.lock`);
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-'));
  try {
    if (isComplete()) return;
    await moveIntoCache(await make(work), folder, isComplete);
  } finally {
    release();
    // This fails if an unpacked folder is read-only. A leftover in the temporary folder must not fail the caller.
    await rm(work, { recursive: true, force: true }).catch(() => {});
  }
}

/**
 * Moves the finished folder `made` to `folder` in the cache. If another process has already created `folder`,
 * `isComplete` decides whether that folder can be used.
 */
export async function moveIntoCache(made: string, folder: string, isComplete: () => boolean): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  // A rename is atomic only within one file system, so the folder is first copied next to its destination.
  const staged = mkdtempSync(`${folder}.`);
  try {
    cpSync(made, staged, { recursive: true, verbatimSymlinks: true });
    renameSync(staged, folder);
  } catch (error) {
    rmSync(staged, { recursive: true, force: true });
    if (!isComplete()) throw error;
  }
}

const LOCK_POLL_MS = 100;
/** The age in milliseconds from which a lock no longer counts. No download and no build takes this long. */
const LOCK_EXPIRY_MS = 30 * 60_000;
/** The time in milliseconds that a process has to write its ID into the lock file that it has created. */
const LOCK_WRITE_MS = 5_000;

/**
 * Creates the lock file. If the file exists, first waits until the process that created the file removes it or exits,
 * or until the file is too old. Resolves with a function that removes the file. The lock only avoids duplicate work:
 * `moveIntoCache` is safe when two processes hold the lock.
 */
async function lock(file: string): Promise<() => void> {
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' });
      return () => rmSync(file, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (isHeld(file)) await pause(LOCK_POLL_MS);
    else rmSync(file, { force: true });
  }
}

/** Whether the process that created the lock file is running, and the lock file is not too old. */
function isHeld(file: string): boolean {
  try {
    const ageMs = environment.Date.now() - statSync(file).mtimeMs;
    const pid = Number(readFileSync(file, 'utf8'));
    if (ageMs > (pid === 0 ? LOCK_WRITE_MS : LOCK_EXPIRY_MS)) return false;
    if (pid !== 0) process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists, but belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
