/**
 * Functions that need a file system, so they run on Node.js, Bun and Deno only.
 *
 * @module etcdwire/node
 */

import { randomUUID } from 'node:crypto';
import { lstat, open, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Client } from './client.js';
import { invalidInput } from './errors/etcd-error.js';
import { concatBytes } from './runtime/bytes.js';
import { checkMemberCall, type MemberCallOptions } from './services/maintenance.js';

/**
 * Bytes to gather before a write. etcd sends 32 or 64 kB at a time, and a write for each chunk would take most of the
 * time.
 */
const WRITE_BYTES = 1_048_576;

/**
 * Saves the database of a member to a file, for `etcdutl snapshot restore`. Resolves with its size in bytes.
 *
 * The function first writes to a file with a name of its own, `PATH.….part`. It renames this file to `path` after the
 * snapshot is complete, verified and on the disk. Only the owner may read the file, because it contains all keys and
 * values. If `path` is a symbolic link, the function replaces the file that the link leads to.
 *
 * @throws EtcdError, reason `InvalidInput`, if `path` leads to something else than a file; reason `SnapshotCorrupt`,
 * if the snapshot is incomplete or damaged; and with the reasons of any call. Errors of the file system are passed on.
 * @example
 * import { Client } from 'etcdwire';
 * import { saveSnapshot } from 'etcdwire/node';
 *
 * const endpoint = 'http://127.0.0.1:2379';
 * await using etcd = new Client({ endpoints: [endpoint] });
 * const bytes = await saveSnapshot(etcd, endpoint, 'backup.db');
 */
export async function saveSnapshot(
  client: Client,
  endpoint: string,
  path: string,
  options: MemberCallOptions = {},
): Promise<number> {
  checkMemberCall(options, 'saveSnapshot');
  const target = await targetOf(path);
  // The name is unique, because another call may save to the same path at the same time.
  const part = `${target}.${randomUUID()}.part`;
  const file = await open(part, 'wx', 0o600);
  let chunks: Uint8Array[] = [];
  let length = 0;
  const flush = async (): Promise<void> => {
    const bytes = concatBytes(...chunks);
    chunks = [];
    length = 0;
    await file.writeFile(bytes);
  };
  const write = async (chunk: Uint8Array): Promise<void> => {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= WRITE_BYTES) await flush();
  };
  try {
    const size = await client.maintenance.snapshot(endpoint, options).writeTo({ write });
    await flush();
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

/**
 * The file that `path` or the link there names. @throws EtcdError, reason `InvalidInput`, if it is not a regular file.
 */
async function targetOf(path: string): Promise<string> {
  const allowed = 'a file, or a name that does not exist';
  if (typeof path !== 'string' || path === '') throw invalidInput('path', 'an empty name', allowed);
  const existing = await lstat(path).catch(undefinedIfMissing);
  if (existing === undefined) return path;
  const target = await realpath(path).catch(undefinedIfMissing);
  // For example /dev/stdout if it is a pipe.
  if (target === undefined) throw invalidInput('path', 'a link that leads to no file', allowed);
  if (!(await stat(target)).isFile()) throw invalidInput('path', 'a name that is not a regular file', allowed);
  return target;
}

function undefinedIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
