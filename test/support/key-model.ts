import fc from 'fast-check';
import { compareBytes } from '../../src/base/bytes.js';
import { fromKey, type Keys, keyRange, prefix } from '../../src/index.js';

// This model of key ranges follows the definition of each kind of range. Tests compare this model with the intervals
// that the client computes.

/**
 * The bytes that generated keys consist of. The end of a prefix's range is the prefix, incremented: the increment drops
 * trailing 0xff bytes and adds 1 to the byte before them. If all bytes are 0xff, the range has no end. These bytes make
 * all three cases frequent: a last byte below 0xff, trailing 0xff bytes, and only 0xff bytes.
 */
const ALPHABET = [0x00, 0x01, 0xfe, 0xff, 0xff] as const;

export function bytesOf(minLength: number, maxLength: number): fc.Arbitrary<Uint8Array> {
  return fc.array(fc.constantFrom(...ALPHABET), { minLength, maxLength }).map((values) => new Uint8Array(values));
}

export const someKey = bytesOf(1, 4);

/** A range of keys, a key that is in the range, and a function that tells whether a key is in the range. */
export interface Selection {
  readonly keys: Keys;
  readonly member: Uint8Array;
  readonly contains: (key: Uint8Array) => boolean;
}

export const selection: fc.Arbitrary<Selection> = fc.oneof(
  someKey.map((key) => ({ keys: key, member: key, contains: (other: Uint8Array) => compareBytes(other, key) === 0 })),
  bytesOf(0, 3).map((start) => ({
    keys: prefix(start),
    member: start.length === 0 ? new Uint8Array([0x61]) : start,
    contains: (key: Uint8Array) => startsWith(key, start),
  })),
  fc.tuple(someKey, fc.boolean()).map(([key, written]) => ({
    keys: written ? fromKey(key) : keyRange(key, '\0'),
    member: key,
    contains: (other: Uint8Array) => compareBytes(other, key) >= 0,
  })),
  fc
    .tuple(someKey, someKey)
    .map(([a, b]) => (compareBytes(a, b) < 0 ? { start: a, end: b } : { start: b, end: a }))
    .filter(({ start, end }) => compareBytes(start, end) < 0)
    .map(({ start, end }) => ({
      keys: keyRange(start, end),
      member: start,
      contains: (key: Uint8Array) => compareBytes(key, start) >= 0 && compareBytes(key, end) < 0,
    })),
);

export function startsWith(key: Uint8Array, start: Uint8Array): boolean {
  return key.length >= start.length && start.every((byte, index) => key[index] === byte);
}

/** Sorts keys in byte order and removes duplicates. */
export function sorted(keys: readonly Uint8Array[]): Uint8Array[] {
  return [...new Map(keys.map((key) => [String(key), key])).values()].sort(compareBytes);
}

/** Formats keys in hexadecimal, for readable failure messages. */
export function hex(keys: readonly Uint8Array[]): string[] {
  return keys.map((key) => Buffer.from(key).toString('hex'));
}
