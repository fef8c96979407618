import type { Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { concatBytes, describeType, environment, invalidInput, randomId } from '../base/index.js';

/** Number of bytes that a `PartFile` collects before it writes them to the file. */
const WRITE_BYTES = 1_048_576;
/** The minimum age in milliseconds of an incomplete file that `removeParts` removes. */
const PART_AGE_MS = 60_000;
/** Matches what `PartFile` appends to the path to make the unique name. */
const PART = /^\.[0-9a-f]+\.part$/;

const ALLOWED = 'the path of a regular file, or a path that does not exist yet';

/** How to treat the path of a file. */
export interface PathOptions {
  /** The name of the path in errors. Default `path`. */
  readonly argument?: string;
  /**
   * Whether a symbolic link at the path is an error. Another user may have put the link in a folder that several users
   * share, and the file would replace the target. Default false.
   */
  readonly refusesLinks?: boolean;
}

/**
 * A file that appears at its path only when it is complete. Until then, it has a unique name, `PATH.RANDOM.part`. Only
 * the owner may read the file, because it contains keys and values. If the path is a symbolic link, the file replaces
 * the target of the link.
 */
export class PartFile {
  readonly #target: string;
  readonly #part: string;
  readonly #file: FileHandle;
  #chunks: Uint8Array[] = [];
  #length = 0;

  private constructor(target: string, part: string, file: FileHandle) {
    this.#target = target;
    this.#part = part;
    this.#file = file;
  }

  /**
   * Creates the file under its unique name.
   *
   * @throws EtcdError with reason `InvalidInput` if `path` names something other than a regular file. This method and
   * all others pass errors of the file system on unchanged.
   */
  static async create(path: string, options?: PathOptions): Promise<PartFile> {
    const target = await targetOf(path, options);
    // The name is unique, because another call may write to the same path at the same time.
    const part = `${target}.${randomId().toString(16)}.part`;
    return new PartFile(target, part, await open(part, 'wx', 0o600));
  }

  /** Creates the file, and calls `write`. When `write` resolves, the file appears at its path. */
  static async with<T>(path: string, write: (file: PartFile) => Promise<T>, options?: PathOptions): Promise<T> {
    const file = await PartFile.create(path, options);
    try {
      const result = await write(file);
      await file.commit();
      return result;
    } catch (error) {
      await file.discard();
      throw error;
    }
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length >= WRITE_BYTES) await this.#flush();
  }

  /**
   * Gives the file its name, after all of its bytes are on the disk. If the power fails meanwhile, the path names
   * either the new file or the former file. When this method has resolved, the path names the new file. Also removes the
   * old incomplete files of the same path that killed processes have left.
   */
  async commit(): Promise<void> {
    await this.#flush();
    await this.#file.sync();
    await this.#file.close();
    await rename(this.#part, this.#target);
    await syncFolder(dirname(this.#target));
    await removeParts(this.#target);
  }

  async discard(): Promise<void> {
    await this.#file.close().catch(() => {});
    await rm(this.#part, { force: true });
  }

  async #flush(): Promise<void> {
    const bytes = concatBytes(...this.#chunks);
    this.#chunks = [];
    this.#length = 0;
    await this.#file.writeFile(bytes);
  }
}

/**
 * Removes the files with the unique names of `PartFile` for `path`, which remain if a process is killed. Keeps a file
 * that was written within the last `PART_AGE_MS`, because another process may still write it. Never rejects, because an
 * incomplete file that cannot be removed does no harm.
 */
export async function removeParts(path: string): Promise<void> {
  try {
    const target = await targetOf(path);
    const folder = dirname(target);
    for (const name of await readdir(folder)) {
      if (!name.startsWith(`${basename(target)}.`) || !PART.test(name.slice(basename(target).length))) continue;
      const part = join(folder, name);
      const written = await stat(part).catch(undefinedIfMissing);
      const isOld = written !== undefined && environment.Date.now() - written.mtimeMs >= PART_AGE_MS;
      if (isOld) await rm(part, { force: true });
    }
  } catch {
    // The next load or save tries again.
  }
}

/** Makes the new name of a file in the folder durable. Windows cannot sync a folder. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  // A process may write to a folder that it must not read.
  const folder = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EACCES') throw error;
  });
  try {
    await folder?.sync();
  } finally {
    await folder?.close();
  }
}

/** @throws EtcdError with reason `InvalidInput` if `existing` is a symbolic link, or is not a regular file. */
export function checkReplaceable(existing: Stats, argument: string): void {
  if (existing.isSymbolicLink()) throw invalidInput(argument, 'a symbolic link, which is not followed', ALLOWED);
  if (!existing.isFile()) throw invalidInput(argument, 'something that is not a regular file', ALLOWED);
}

/**
 * Returns `path`, or its target if `path` is a symbolic link.
 *
 * @throws EtcdError with reason `InvalidInput` if the returned path would name something other than a regular file, or
 * if the link is refused or its target does not exist.
 */
async function targetOf(path: string, { argument = 'path', refusesLinks = false }: PathOptions = {}): Promise<string> {
  if (typeof path !== 'string' || path === '')
    throw invalidInput(argument, path === '' ? 'an empty name' : describeType(path), ALLOWED);
  const existing = await lstat(path).catch(undefinedIfMissing);
  if (existing === undefined) return path;
  if (refusesLinks) {
    checkReplaceable(existing, argument);
    return path;
  }
  const target = await realpath(path).catch(undefinedIfMissing);
  // `realpath` fails for a dangling link, and for /dev/stdout if that is a pipe.
  if (target === undefined) throw invalidInput(argument, 'a link whose target does not exist', ALLOWED);
  if (!(await stat(target)).isFile()) throw invalidInput(argument, 'something that is not a regular file', ALLOWED);
  return target;
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
