import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import type { CallOptions } from '../channel/rpc.js';
import type { Client } from '../client.js';

/**
 * Saves a member's database to a file, for `etcdutl snapshot restore`; gives its size in bytes. The file appears only
 * when all of it is there, verified and on the disk; until then it bears a name of its own, `PATH.….part`. Only its owner may read
 * it, for it has everything in it.
 *
 * @throws EtcdError, reason `SnapshotCorrupt` and others; or what the file system says.
 */
export async function saveSnapshot(
  client: Client,
  endpoint: string,
  path: string,
  options?: CallOptions,
): Promise<number> {
  // Of its own: another save of the same path may be under way.
  const part = `${path}.${randomUUID()}.part`;
  const file = await open(part, 'wx', 0o600);
  try {
    const size = await client.maintenance
      .snapshot(endpoint, options)
      .writeTo({ write: (chunk) => file.writeFile(chunk) });
    await file.sync();
    await file.close();
    await rename(part, path);
    return size;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(part, { force: true });
    throw error;
  }
}
