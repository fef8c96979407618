import { randomUUID } from 'node:crypto';
import { open, realpath, rename, rm, stat } from 'node:fs/promises';
import type { CallOptions } from '../channel/rpc.js';
import type { Client } from '../client.js';
import { invalidInput } from '../errors.js';

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
  options?: CallOptions,
): Promise<number> {
  const target = await targetOf(path);
  // Of its own: another save of the same path may be under way.
  const part = `${target}.${randomUUID()}.part`;
  const file = await open(part, 'wx', 0o600);
  try {
    const size = await client.maintenance
      .snapshot(endpoint, options)
      .writeTo({ write: (chunk) => file.writeFile(chunk) });
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
  const target = await realpath(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (target === undefined) return path;
  if (!(await stat(target)).isFile()) throw invalidInput('path', 'something that is no file', 'a file, or a new name');
  return target;
}
