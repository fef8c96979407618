import { randomUUID } from 'node:crypto';
import { type FileHandle, lstat, open, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Client } from '../client.js';
import { invalidInput } from '../errors/etcd-error.js';
import { concatBytes } from '../runtime/bytes.js';
import { checkMemberCall, type MemberCallOptions, type SnapshotSink } from '../services/maintenance.js';

/** etcd sends 32 or 64 kB at a time; a write for each of these takes longer than all the rest. */
const WRITE_BYTES = 1_048_576;

/**
 * Saves a member's database to a file, for `etcdutl snapshot restore`; gives its size in bytes. The file appears only
 * when all of it is there, verified and on the disk; until then it bears a name of its own, `PATH.….part`. Only its owner
 * may read it, for it has everything in it. A link is followed.
 *
 * @throws EtcdError, reason `SnapshotCorrupt` and others, `InvalidInput` where PATH is no file; or what the file system says.
 */
export async function saveSnapshot(
  client: Client,
  endpoint: string,
  path: string,
  options: MemberCallOptions = {},
): Promise<number> {
  checkMemberCall(options, 'saveSnapshot');
  const target = await targetOf(path);
  // Of its own: another save of the same path may be under way.
  const part = `${target}.${randomUUID()}.part`;
  const file = await open(part, 'wx', 0o600);
  try {
    const sink = new GatheringSink(file);
    const size = await client.maintenance.snapshot(endpoint, options).writeTo(sink);
    await sink.flush();
    await file.sync();
    await file.close();
    await rename(part, target);
    return size;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(part, { force: true });
    throw error;
  }
}

/** Where links lead. @throws EtcdError, reason `InvalidInput`, for what is there and no file: it would be replaced. */
async function targetOf(path: string): Promise<string> {
  const allowed = 'a file, or a new name';
  if (typeof path !== 'string' || path === '') throw invalidInput('path', 'no name', allowed);
  const there = await lstat(path).catch(undefinedIfMissing);
  if (there === undefined) return path;
  const target = await realpath(path).catch(undefinedIfMissing);
  // As /dev/stdout, where that is a pipe.
  if (target === undefined) throw invalidInput('path', 'a link that leads to no file', allowed);
  if (!(await stat(target)).isFile()) throw invalidInput('path', 'something that is no file', allowed);
  return target;
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

/** Writes at the file's end, some pieces at a time. */
class GatheringSink implements SnapshotSink {
  readonly #file: FileHandle;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#pieces.push(chunk);
    this.#length += chunk.length;
    if (this.#length >= WRITE_BYTES) await this.flush();
  }

  async flush(): Promise<void> {
    const bytes = concatBytes(...this.#pieces);
    this.#pieces = [];
    this.#length = 0;
    await this.#file.writeFile(bytes);
  }
}
