import { compareBytes, EtcdError } from '../../base/index.js';
import type { Keys, KeyspaceClient, KeyValue } from '../../client/index.js';
import type { CallOptions } from '../../rpc/index.js';
import { isSameState, type RangeCopy } from '../ranges/index.js';

/** Returns the reason why later changes cannot update the copy. Returns undefined if they can. */
export async function lossOf(
  keyspace: KeyspaceClient,
  keys: Keys,
  { revision, kvs }: RangeCopy,
  options: CallOptions,
): Promise<EtcdError | undefined> {
  try {
    let index = 0;
    for await (const page of keyspace.scanPages(keys, { ...options, revision }))
      for (const kv of page.kvs) if (!isSameKey(kvs[index++], kv)) return restored(revision);
    return index === kvs.length ? undefined : restored(revision);
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    if (error.reason === 'FutureRev') return restored(revision);
    if (error.reason === 'Compacted') return error;
    throw error;
  }
}

function isSameKey(a: KeyValue | undefined, b: KeyValue): boolean {
  return a !== undefined && compareBytes(a.keyBytes, b.keyBytes) === 0 && isSameState(a, b);
}

function restored(revision: bigint): EtcdError {
  return new EtcdError(
    `at revision ${revision}, the store has other keys than the copy: it was restored from a backup`,
    {
      code: 'FailedPrecondition',
      reason: 'ClusterChanged',
      outcome: 'rejected',
    },
  );
}
