import { checkFunction, checkOptions } from '../../base/index.js';
import { MEMBER_CALL_HINTS, type MemberCallOptions } from '../../client/index.js';
import { parseEndpoint } from '../../host/index.js';
import { PartFile } from '../../host/part-file.js';
import { TIME_LIMITS } from '../../rpc/index.js';
import { type Client, checkFullClient } from '../full/index.js';
import { checkPath } from './file-store.js';

const SAVE_SNAPSHOT_OPTIONS = { ...TIME_LIMITS, onProgress: checkFunction } as const;

/** Options of `saveSnapshot`. */
export interface SaveSnapshotOptions extends MemberCallOptions {
  /** Receives the number of bytes written so far, after each piece. Must not throw. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/**
 * Saves the database of a member to a file from which `etcdutl snapshot restore` can restore it. Resolves with the size
 * of the file in bytes.
 *
 * The function first writes to a file with a unique name, `PATH.RANDOM.part`. It renames the file to `path` when the
 * snapshot is complete, verified and on the disk. Only the owner may read the file, because it contains all keys and
 * values. If `path` is a symbolic link, the function replaces the target of the link.
 *
 * @throws EtcdError with reason `InvalidInput` if `path` names something other than a regular file; with reason
 * `SnapshotCorrupt` if the snapshot is incomplete or damaged; or with another reason if the call fails. The function
 * passes errors of the file system on unchanged.
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
  options: SaveSnapshotOptions = {},
): Promise<number> {
  checkOptions(options, SAVE_SNAPSHOT_OPTIONS, 'saveSnapshot', MEMBER_CALL_HINTS);
  const { onProgress, ...call } = options;
  checkFullClient(client, 'snapshot');
  parseEndpoint(endpoint, 'endpoint');
  checkPath(path);
  return PartFile.with(path, (file) => {
    let written = 0;
    const write = async (chunk: Uint8Array): Promise<void> => {
      await file.write(chunk);
      written += chunk.length;
      onProgress?.(written);
    };
    return client.maintenance.snapshot(endpoint, call).writeTo({ write });
  });
}
