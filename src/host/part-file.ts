import { type FileHandle, lstat, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { invalidInput } from '../errors/etcd-error.js';
import { concatBytes, randomId } from '../runtime/bytes.js';

/** Number of bytes that a `PartFile` collects before it writes them to the file. */
const WRITE_BYTES = 1_048_576;

/**
 * A file that appears at its path only when it is complete. Until then, it has a unique name, `PATH.….part`. Only the
 * owner may read the file, because it contains keys and values. If the path is a symbolic link, the file replaces the
 * target of the link.
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
   * @throws EtcdError with reason `InvalidInput` if `path` is not a regular file. Errors of the file system are passed
   * on unchanged, by this method and by all others.
   */
  static async create(path: string): Promise<PartFile> {
    const target = await targetOf(path);
    // The name is unique, because another call may write to the same path at the same time.
    const part = `${target}.${randomId().toString(16)}.part`;
    return new PartFile(target, part, await open(part, 'wx', 0o600));
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length >= WRITE_BYTES) await this.#flush();
  }

  /** Gives the file its name, after all of its bytes are on the disk. */
  async commit(): Promise<void> {
    await this.#flush();
    await this.#file.sync();
    await this.#file.close();
    await rename(this.#part, this.#target);
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
 * Returns `path`, or its target if `path` is a symbolic link.
 *
 * @throws EtcdError with reason `InvalidInput` if the returned path would name something other than a regular file, or
 * if the target of the link does not exist.
 */
async function targetOf(path: string): Promise<string> {
  const allowed = 'the path of a regular file, or a path that does not exist yet';
  if (typeof path !== 'string' || path === '') throw invalidInput('path', 'an empty name', allowed);
  const existing = await lstat(path).catch(undefinedIfMissing);
  if (existing === undefined) return path;
  const target = await realpath(path).catch(undefinedIfMissing);
  // `realpath` fails for a dangling link, and for /dev/stdout if that is a pipe.
  if (target === undefined) throw invalidInput('path', 'a link whose target does not exist', allowed);
  if (!(await stat(target)).isFile()) throw invalidInput('path', 'something that is not a regular file', allowed);
  return target;
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
