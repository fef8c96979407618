import { latin1Of } from '../../base/index.js';

/** A key as a string with one character per byte, so that `<` compares keys in byte order. */
export type KeyId = string;

/** Compares two keys, or two numbers, for a sort. */
export function compare<T extends KeyId | bigint>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Returns the `KeyId` of a key. */
export function keyId(key: Uint8Array): KeyId {
  return latin1Of(key);
}

/**
 * A set of keys, given as the two fields of etcd's requests: one key if `rangeEnd` is empty, all keys from `key` on if
 * `rangeEnd` is one zero byte, otherwise the keys from `key` to before `rangeEnd`.
 */
export class KeyRange {
  readonly first: KeyId;
  /** The key after the last key of the range. Undefined if the range has no end. */
  readonly end: KeyId | undefined;

  constructor(key: Uint8Array, rangeEnd: Uint8Array) {
    this.first = keyId(key);
    const end = keyId(rangeEnd);
    if (end === '') this.end = `${this.first}\0`;
    else this.end = end === '\0' ? undefined : end;
  }

  has(key: KeyId): boolean {
    return key >= this.first && (this.end === undefined || key < this.end);
  }
}

/** All keys, because no key is empty. */
export const ALL_KEYS = new KeyRange(Uint8Array.of(0), Uint8Array.of(0));
