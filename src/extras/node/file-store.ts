import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { checkName, invalidInput, isWellFormed } from '../../base/index.js';
import { PartFile, removeParts } from '../../host/part-file.js';
import type { CopyStore } from '../recipes/index.js';

/** The last load or save of each path, if it has not ended. */
const last = new Map<string, Promise<unknown>>();

/**
 * Returns a store for `persisted` that keeps the copy in a file. `save` writes a new file in the same folder, waits
 * until its bytes are on the disk, and renames it to `path`. So the file at `path` is always whole, also if the process
 * is killed or the machine loses power. Only the owner may read the file, because it contains keys and values. The
 * folder must exist. Use a file for only one range of one process at a time. A process that is killed may leave a file with
 * the name `PATH.RANDOM.part`. Each load and each save removes such files that are older than a minute.
 *
 * @throws EtcdError with reason `InvalidInput` if `path` is not a path of a file.
 *
 * @example
 * import { Client, prefix } from 'etcdwire';
 * import { fileStore } from 'etcdwire/node';
 * import { persisted } from 'etcdwire/recipes';
 *
 * await using etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
 * await using config = await persisted(etcd, prefix('config/'), fileStore('config.copy'));
 */
export function fileStore(path: string): CopyStore {
  checkPath(path);
  const file = resolve(path);
  return {
    load: () => inOrder(file, load),
    save: (bytes) => inOrder(file, () => PartFile.with(file, (part) => part.write(bytes))),
  };
}

async function load(path: string): Promise<Uint8Array | undefined> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  await removeParts(path);
  return bytes;
}

/**
 * Runs the loads and saves of each path in this process one after another. A save that takes longer than its range may
 * otherwise replace a later copy, which the next range for the same file has saved.
 */
async function inOrder<T>(path: string, action: (path: string) => Promise<T>): Promise<T> {
  const result = runAfter(last.get(path), () => action(path));
  last.set(path, result);
  try {
    return await result;
  } finally {
    if (last.get(path) === result) last.delete(path);
  }
}

async function runAfter<T>(before: Promise<unknown> | undefined, action: () => Promise<T>): Promise<T> {
  await before?.catch(() => {});
  return action();
}

/** @throws EtcdError with reason `InvalidInput` if `path` cannot be the path of a file. */
export function checkPath(path: string): void {
  if (checkName(path, 'path').includes('\0') || !isWellFormed(path))
    throw invalidInput('path', 'a path with a NUL character or a lone surrogate', 'a path without them');
}
