import { EventType, KeyValue } from '../../gen/mvccpb/kv.js';
import { encode } from '../../wire/index.js';
import type { Change } from './change.js';
import { Crc32c } from './crc32c.js';
import type { KeyId } from './key-range.js';
import { serverError } from './service.js';
import type { Store, StoreSnapshot } from './store.js';

/** The name of the bucket in etcd's database that contains the versions of all keys. */
const BUCKET = new TextEncoder().encode('key');
/** The byte between the two numbers in the key of a record: `_`. */
const SEPARATOR = 0x5f;
/** The last byte in the key of a tombstone: `t`. */
const TOMBSTONE_MARK = 0x74;
/** The length in bytes of the key of a record: two 64-bit numbers and the separator. */
const BUCKET_KEY_BYTES = 17;
/** The number of compactions whose hashes etcd keeps. */
const KEPT_HASHES = 10;

/** A hash of the keys from a compacted revision to `revision`. Equal for all members, and for all versions of etcd. */
export interface KeyHash {
  readonly hash: number;
  readonly compactRevision: bigint;
  readonly revision: bigint;
}

/** The hashes of the keys of a store. Like etcd, keeps a hash for each of the last ten compactions. */
export class KeyHashes {
  readonly #store: Store;
  /** The hashes of the last compactions, oldest first. A hash is computed when a client asks for it. */
  #compactions: { readonly revision: bigint; readonly hash: () => KeyHash }[] = [];

  constructor(store: Store) {
    this.#store = store;
    store.onCompaction((revision) => {
      const before = store.snapshot();
      const hash = once(() => hashKeys(before, revision, true));
      this.#compactions = [...this.#compactions, { revision, hash }].slice(-KEPT_HASHES);
    });
  }

  /**
   * Returns the hash of the keys up to a revision, or up to the current revision if `revision` is 0. If the store was
   * compacted to the revision, the hash starts at the previous compaction.
   *
   * @throws StatusError with reason `Compacted` or `FutureRev`
   */
  at(revision: bigint): KeyHash {
    const store = this.#store;
    const compaction = this.#compactions.find((stored) => stored.revision === revision);
    if (compaction !== undefined) return compaction.hash();
    if (revision > 0n && revision < store.compacted) throw serverError('Compacted');
    if (revision > store.revision) throw serverError('FutureRev');
    return hashKeys(store.snapshot(), revision === 0n ? store.revision : revision);
  }

  /** Discards the hashes of the compactions, as a restart does. */
  reset(): void {
    this.#compactions = [];
  }
}

/**
 * Computes the hash of all versions up to a revision, as etcd's `mvcc/hash.go` does: a CRC of the records of the
 * database, in the order of their revisions, without the records that a compaction removes.
 *
 * @param isCompaction Whether to compute the hash that etcd stores during a compaction to `revision`. It differs from
 *   the other hash only if no key exists at the revision.
 */
function hashKeys(snapshot: StoreSnapshot, revision: bigint, isCompaction = false): KeyHash {
  const { compacted } = snapshot;
  const changes = snapshot.commits.flatMap((commit) => (commit.revision <= revision ? commit.changes : []));
  const last = new Map<KeyId, Change>();
  for (const change of changes) last.set(change.key, change);
  const kept = new Set(
    [...last.values()].filter(
      ({ type, kv }) => type === EventType.PUT || (isCompaction && kv.modRevision === revision),
    ),
  );
  const crc = new Crc32c().update(BUCKET);
  for (const change of changes) {
    const isTombstone = change.type === EventType.DELETE;
    const isRemoved = kept.size > 0 && change.kv.modRevision <= compacted && !kept.has(change);
    // The hash leaves out a tombstone at the compacted revision, because etcd before 3.5.16 removes such a tombstone.
    if (isRemoved || (isTombstone && change.kv.modRevision === compacted)) continue;
    crc.update(bucketKey(change)).update(encode(KeyValue, isTombstone ? { key: change.kv.key } : change.kv));
  }
  return { hash: crc.digest(), compactRevision: compacted, revision };
}

/** The key of a record: the revision, the position within the revision, and a mark if the record is a tombstone. */
function bucketKey({ type, kv, index }: Change): Uint8Array {
  const isTombstone = type === EventType.DELETE;
  const bytes = new Uint8Array(isTombstone ? BUCKET_KEY_BYTES + 1 : BUCKET_KEY_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigInt64(0, kv.modRevision);
  bytes[8] = SEPARATOR;
  view.setBigInt64(9, BigInt(index));
  if (isTombstone) bytes[BUCKET_KEY_BYTES] = TOMBSTONE_MARK;
  return bytes;
}

function once<T>(compute: () => T): () => T {
  let result: { readonly value: T } | undefined;
  return () => {
    result ??= { value: compute() };
    return result.value;
  };
}
