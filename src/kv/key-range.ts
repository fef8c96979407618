import { invalidInput } from '../errors/etcd-error.js';
import { type BytesLike, compareBytes, concatBytes, describeType, NO_BYTES, toBytes } from '../runtime/bytes.js';

/**
 * One key, or a range of keys: all with a prefix, all from a key on, or all from `start` up to and without `end`.
 * Plain data; `prefix`, `fromKey` and `keyRange` write it down.
 */
export type Keys =
  | BytesLike
  | { readonly prefix: BytesLike }
  | { readonly fromKey: BytesLike }
  | { readonly start: BytesLike; readonly end: BytesLike };

/** All keys that begin with these bytes; the empty prefix is every key. */
export function prefix(bytes: BytesLike): { readonly prefix: BytesLike } {
  return { prefix: bytes };
}

/** This key and all after it. */
export function fromKey(key: BytesLike): { readonly fromKey: BytesLike } {
  return { fromKey: key };
}

/** The keys from `start` up to and without `end`. */
export function keyRange(start: BytesLike, end: BytesLike): { readonly start: BytesLike; readonly end: BytesLike } {
  return { start, end };
}

/** As requests carry it. An empty `rangeEnd` is the key alone, "\0" every key from `key` on. */
export interface WireRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

const NUL = new Uint8Array([0]);
const FORMS: readonly (readonly string[])[] = [['prefix'], ['fromKey'], ['start', 'end']];
const ALLOWED = 'a key, { prefix }, { fromKey } or { start, end }, one of them';

/** @throws EtcdError, reason `InvalidInput`, on anything that is not exactly one of the forms of `Keys`. */
export function resolveKeys(keys: Keys, argument: string): WireRange {
  if (typeof keys === 'string' || keys instanceof Uint8Array)
    return { key: checkKey(keys, argument), rangeEnd: NO_BYTES };
  if (typeof keys !== 'object' || keys === null) throw invalidInput(argument, describeType(keys), ALLOWED);
  const given = Object.keys(keys);
  if (!FORMS.some((form) => form.length === given.length && form.every((name) => given.includes(name)))) {
    // Another name may be a key.
    const names = given.map((name) => (FORMS.some((form) => form.includes(name)) ? `"${name}"` : 'something else'));
    throw invalidInput(argument, `an object with ${names.join(' and ') || 'nothing in it'}`, ALLOWED);
  }
  if ('prefix' in keys) return prefixRange(toBytes(keys.prefix, `${argument}.prefix`));
  if ('fromKey' in keys) return { key: checkKey(keys.fromKey, `${argument}.fromKey`), rangeEnd: NUL };
  const start = checkKey(keys.start, `${argument}.start`);
  const end = checkKey(keys.end, `${argument}.end`);
  if (compareBytes(start, end) >= 0 && !isNul(end)) {
    throw invalidInput(argument, 'a start at or after its end', 'start < end in byte order, or end "\\0" for no end');
  }
  return { key: start, rangeEnd: end };
}

/** The same keys, in memory of their own: the caller may write over its buffers. */
export function ownKeys(keys: Keys): Keys {
  return keysOf(resolveKeys(keys, 'keys'));
}

/** What a range on the wire stands for. */
export function keysOf({ key, rangeEnd }: WireRange): Keys {
  if (rangeEnd.length === 0) return key;
  return isNul(rangeEnd) ? { fromKey: key } : { start: key, end: rangeEnd };
}

/** @throws EtcdError when the key is empty, which etcd does not allow. */
export function checkKey(key: BytesLike, argument: string): Uint8Array {
  const bytes = toBytes(key, argument);
  if (bytes.length === 0) throw invalidInput(argument, 'an empty key', 'at least one byte; prefix("") is every key');
  return bytes;
}

function prefixRange(bytes: Uint8Array): WireRange {
  return bytes.length === 0 ? { key: NUL, rangeEnd: NUL } : { key: bytes, rangeEnd: prefixEnd(bytes) };
}

/** The first key after all that begin with `bytes`; "\0", no end, where all bytes are 0xff. */
export function prefixEnd(bytes: Uint8Array): Uint8Array {
  for (let index = bytes.length - 1; index >= 0; index -= 1) {
    const byte = bytes[index] as number;
    if (byte < 0xff) return concatBytes(bytes.subarray(0, index), new Uint8Array([byte + 1]));
  }
  return NUL;
}

function isNul(bytes: Uint8Array): boolean {
  return bytes.length === 1 && bytes[0] === 0;
}
