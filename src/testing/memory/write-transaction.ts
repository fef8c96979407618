import { EventType, KeyValue } from '../../gen/mvccpb/kv.js';
import type { Change } from './change.js';
import { type KeyId, type KeyRange, keyId } from './key-range.js';

/** The keys as a reader sees them: those of the store, or those of a transaction that has made changes. */
export interface ReadView {
  /** The newest revision, which is read by default. */
  readonly revision: bigint;
  /** The oldest revision that can be read. -1 before the first compaction. */
  readonly compacted: bigint;
  /** Returns the keys that exist at a revision, in byte order. The caller has checked that the revision is readable. */
  range(range: KeyRange, revision?: bigint): KeyValue[];
  /** Returns a key at the newest revision, or undefined if the key does not exist. */
  get(key: KeyId): KeyValue | undefined;
}

/**
 * Changes that become visible to other readers together, at one revision. Reads of the transaction see them earlier.
 */
export class WriteTransaction implements ReadView {
  readonly #store: ReadView;
  readonly #apply: (changes: readonly Change[]) => void;
  readonly #changes: Change[] = [];
  /** The last change of each changed key. */
  readonly #last = new Map<KeyId, Change>();

  constructor(store: ReadView, apply: (changes: readonly Change[]) => void) {
    this.#store = store;
    this.#apply = apply;
  }

  /** Whether the transaction has changed a key. */
  get hasChanged(): boolean {
    return this.#changes.length > 0;
  }

  /** The revision of the store, as the transaction sees it: its own revision once it has changed a key. */
  get revision(): bigint {
    return this.hasChanged ? this.#ownRevision : this.#store.revision;
  }

  get compacted(): bigint {
    return this.#store.compacted;
  }

  get #ownRevision(): bigint {
    return this.#store.revision + 1n;
  }

  /** Like `Store.range`. A read of the transaction's own revision sees the changes of this transaction. */
  range(range: KeyRange, revision: bigint = this.revision): KeyValue[] {
    const stored = this.#store.range(range, revision);
    if (revision <= this.#store.revision) return stored;
    const changed = [...this.#last.values()]
      .filter(({ key }) => range.has(key))
      .sort((a, b) => (a.key < b.key ? -1 : 1));
    return changed.length === 0 ? stored : merge(stored, changed);
  }

  get(key: KeyId): KeyValue | undefined {
    const own = this.#last.get(key);
    if (own === undefined) return this.#store.get(key);
    return own.type === EventType.DELETE ? undefined : own.kv;
  }

  put(key: Uint8Array, value: Uint8Array, lease: bigint): void {
    const id = keyId(key);
    const before = this.get(id);
    const modRevision = this.#ownRevision;
    const createRevision = before?.createRevision ?? modRevision;
    const version = (before?.version ?? 0n) + 1n;
    this.#change(id, EventType.PUT, { key, value, lease, createRevision, modRevision, version });
  }

  /** Deletes the keys of the range. Returns the keys before the deletion. */
  delete(range: KeyRange): KeyValue[] {
    const deleted = this.range(range);
    const modRevision = this.#ownRevision;
    for (const { key } of deleted)
      this.#change(keyId(key), EventType.DELETE, { ...KeyValue.create(), key, modRevision });
    return deleted;
  }

  /** Makes the changes visible. */
  commit(): void {
    this.#apply(this.#changes);
  }

  #change(key: KeyId, type: EventType, kv: KeyValue): void {
    const change = { key, type, kv, index: this.#changes.length };
    this.#changes.push(change);
    this.#last.set(key, change);
  }
}

/**
 * Returns the keys as they are after the changes. `kvs`, `changes` and the result are in byte order of the keys, and
 * `changes` has at most one change of each key.
 */
function merge(kvs: readonly KeyValue[], changes: readonly Change[]): KeyValue[] {
  const merged: KeyValue[] = [];
  let next = 0;
  const addChangesUntil = (key: KeyId | undefined): void => {
    for (let change = changes[next]; change !== undefined; change = changes[next]) {
      if (key !== undefined && change.key > key) return;
      if (change.type === EventType.PUT) merged.push(change.kv);
      next += 1;
    }
  };
  for (const kv of kvs) {
    const key = keyId(kv.key);
    addChangesUntil(key);
    if (changes[next - 1]?.key !== key) merged.push(kv);
  }
  addChangesUntil(undefined);
  return merged;
}
