import type { KeyValue } from '../../../../src/internal.js';
import { type Change, type MirrorTarget, PendingChanges, type Renaming } from './mirror-target.js';
import { isEqual, type StoredKeys } from './stored-keys.js';

/** Makes the destination equal to the range of the source, whose keys come in ascending order. */
export class RangeCopy {
  readonly #target: MirrorTarget;
  readonly #renaming: Renaming;
  readonly #maxTxnOps: number;
  readonly #stored: StoredKeys;
  readonly #pending = new PendingChanges();

  constructor(target: MirrorTarget, renaming: Renaming, maxTxnOps: number, stored: StoredKeys) {
    this.#target = target;
    this.#renaming = renaming;
    this.#maxTxnOps = maxTxnOps;
    this.#stored = stored;
  }

  async take(kvs: readonly KeyValue[], clusterId: bigint): Promise<void> {
    for (const kv of kvs) {
      const key = this.#renaming.keyOf(kv.keyBytes);
      if (key === undefined) continue;
      const stored = await this.#stored.advanceTo(key, (other) => this.#delete(other.keyBytes, clusterId));
      if (!isEqual(stored, kv.value)) await this.#add({ key, value: kv.value }, clusterId);
    }
  }

  /** Compares the rest of the destination, and returns the changes that are not applied yet. */
  async rest(clusterId: bigint): Promise<readonly Change[]> {
    await this.#stored.advanceTo(undefined, (other) => this.#delete(other.keyBytes, clusterId));
    return this.#pending.all;
  }

  close(): Promise<void> {
    return this.#stored.close();
  }

  async #delete(key: Uint8Array, clusterId: bigint): Promise<void> {
    if (!this.#renaming.isPosition(key)) await this.#add({ key, value: undefined }, clusterId);
  }

  async #add(change: Change, clusterId: bigint): Promise<void> {
    if (!this.#pending.isEmpty && !this.#pending.hasRoomFor([change], this.#maxTxnOps)) {
      const { all } = this.#pending;
      this.#pending.clear();
      await this.#target.apply(all, { revision: 0n, state: 'reading', clusterId });
    }
    this.#pending.add([change], 0n);
  }
}
