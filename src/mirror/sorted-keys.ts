import type { WireRange } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { compareBytes } from '../runtime/bytes.js';

/** Keys in the order in which etcd has them. */
export class SortedKeys {
  readonly #kvs: KeyValue[] = [];

  get size(): number {
    return this.#kvs.length;
  }

  get(key: Uint8Array): KeyValue | undefined {
    const kv = this.#kvs[this.#indexOf(key)];
    return kv !== undefined && compareBytes(kv.key, key) === 0 ? kv : undefined;
  }

  range({ key, rangeEnd }: WireRange): readonly KeyValue[] {
    if (rangeEnd.length === 0) {
      const kv = this.get(key);
      return kv === undefined ? [] : [kv];
    }
    const openEnded = rangeEnd.length === 1 && rangeEnd[0] === 0;
    return this.#kvs.slice(this.#indexOf(key), openEnded ? this.#kvs.length : this.#indexOf(rangeEnd));
  }

  put(kv: KeyValue): void {
    const index = this.#indexOf(kv.key);
    const there = this.#kvs[index];
    this.#kvs.splice(index, there !== undefined && compareBytes(there.key, kv.key) === 0 ? 1 : 0, kv);
  }

  delete(key: Uint8Array): void {
    if (this.get(key) !== undefined) this.#kvs.splice(this.#indexOf(key), 1);
  }

  /** Index of the first key that is not smaller. */
  #indexOf(key: Uint8Array): number {
    let low = 0;
    let high = this.#kvs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes((this.#kvs[middle] as KeyValue).key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
