import { compareBytes, type KeyValue } from '../../../../src/internal.js';

/** The keys of a range in a store, in ascending order, for a comparison with other keys in ascending order. */
export class StoredKeys {
  readonly #keys: AsyncIterator<KeyValue, unknown>;
  #next: Promise<KeyValue | undefined> | undefined;

  constructor(keys: AsyncIterator<KeyValue, unknown>) {
    this.#keys = keys;
  }

  /**
   * Returns the stored key that equals `key`, or undefined if the store has no such key. Calls `onOther` with each
   * stored key before `key`. Without `key`, calls `onOther` with all remaining keys.
   */
  async advanceTo(
    key: Uint8Array | undefined,
    onOther: (kv: KeyValue) => Promise<void> | void = () => {},
  ): Promise<KeyValue | undefined> {
    for (;;) {
      this.#next ??= this.#read();
      const kv = await this.#next;
      if (kv === undefined) return undefined;
      const order = key === undefined ? -1 : compareBytes(kv.keyBytes, key);
      if (order > 0) return undefined;
      this.#next = undefined;
      if (order === 0) return kv;
      await onOther(kv);
    }
  }

  /** Ends the read of the store. */
  async close(): Promise<void> {
    await this.#keys.return?.();
  }

  async #read(): Promise<KeyValue | undefined> {
    const { done, value } = await this.#keys.next();
    return done ? undefined : (value as KeyValue);
  }
}

/** Whether a put of this value without a lease would change nothing but the revision of the stored key. */
export function isEqual(stored: KeyValue | undefined, value: Uint8Array): boolean {
  return stored !== undefined && stored.lease === 0n && compareBytes(stored.value, value) === 0;
}
