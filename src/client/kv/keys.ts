import {
  type BytesLike,
  compareBytes,
  concatBytes,
  describeType,
  invalidInput,
  isBytes,
  isWellFormed,
  NO_BYTES,
  Printable,
  toBytes,
} from '../../base/index.js';
import type { Init } from '../../wire/index.js';

/**
 * A range in the form that etcd's requests use. An empty `rangeEnd` means the single key `key`; "\0" means every key
 * from `key` on.
 */
export interface WireRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** The default prefix of the guards, which are keys that make writes safe to repeat: see guards.ts. */
export const GUARD_PREFIX = 'etcdwire/guards/';

/** Marks a `KeyRange`. The symbol is global, so that all copies of this package in a program use the same symbol. */
const KEY_RANGE: unique symbol = Symbol.for('etcdwire.KeyRange');

/**
 * A range of keys. `prefix`, `fromKey` and `keyRange` create it.
 *
 * `key` is the first key of the range. `rangeEnd` is the first key after the range. As in etcd's API, the `rangeEnd`
 * "\0" means that the range has no end.
 *
 * @example
 * const configuration: KeyRange = prefix('config/');
 * await etcd.range(configuration);
 * await etcd.delete(configuration);
 */
export class KeyRange extends Printable {
  /** @internal */
  static override readonly name = 'KeyRange';
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;

  /** @internal */
  constructor(key: Uint8Array, rangeEnd: Uint8Array) {
    super();
    this.key = key;
    this.rangeEnd = rangeEnd;
  }

  /**
   * @hidden This member is part of the published types, because it makes the compiler reject other objects in place of
   * a `KeyRange`.
   */
  get [KEY_RANGE](): true {
    return true;
  }
}

/**
 * A single key, or a range of keys made by `prefix`, `fromKey` or `keyRange`.
 *
 * @example
 * await etcd.range('config/size'); // one key
 * await etcd.range(prefix('config/')); // every key that starts with "config/"
 * await etcd.range(fromKey('m')); // "m" and every key after it
 * await etcd.range(keyRange('a', 'c')); // from "a" up to, but not including, "c"
 */
export type Keys = BytesLike | KeyRange;

const NUL = new Uint8Array([0]);
const SELECT_ALL = ' (to select every key, use prefix(""))';
const ALLOWED = 'a key, prefix(bytes), fromKey(key) or keyRange(start, end)';

/**
 * Selects every key that starts with these bytes. The empty prefix selects every key of the store or of the namespace.
 *
 * @throws EtcdError with reason `InvalidInput` if `bytes` is neither a well-formed string nor a `Uint8Array`.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('config/'));
 */
export function prefix(bytes: BytesLike): KeyRange {
  const start = toBytes(bytes, 'prefix');
  return start.length === 0 ? new KeyRange(NUL, NUL) : new KeyRange(start, prefixEnd(start));
}

/**
 * Selects this key and every key after it, in byte order. The empty key selects every key of the store or of the
 * namespace.
 *
 * @throws EtcdError with reason `InvalidInput` if `key` is neither a well-formed string nor a `Uint8Array`.
 *
 * @example
 * const { kvs } = await etcd.range(fromKey('user/m'), { limit: 100 });
 */
export function fromKey(key: BytesLike): KeyRange {
  const start = toBytes(key, 'fromKey');
  return new KeyRange(start.length === 0 ? NUL : start, NUL);
}

/**
 * Selects the keys from `start` up to, but not including, `end`, in byte order. As in etcd's API, the end "\0" means no
 * end.
 *
 * @throws EtcdError with reason `InvalidInput` if a key is empty or malformed, or if `start` is not before `end`.
 *
 * @example
 * const { kvs } = await etcd.range(keyRange('user/a', 'user/n'));
 */
export function keyRange(start: BytesLike, end: BytesLike): KeyRange {
  const range = new KeyRange(checkKey(start, 'start'), checkKey(end, 'end'));
  if (!hasNoEnd(range) && compareBytes(range.key, range.rangeEnd) >= 0)
    throw invalidInput(
      'start',
      'a start at or after the end',
      'a start before the end in byte order, or the end "\\0" for no end',
    );
  return range;
}

/**
 * Converts `keys` to the form that requests use. `argument` is the name of the argument in error messages.
 *
 * @throws EtcdError with reason `InvalidInput` if `keys` is neither a key nor a `KeyRange`.
 */
export function resolveKeys(keys: Keys, argument: string): WireRange {
  if (typeof keys === 'string' || isBytes(keys)) return singleKey(checkKey(keys, argument, SELECT_ALL));
  if (!isRange(keys)) throw invalidInput(argument, describeType(keys), ALLOWED);
  return { key: keys.key, rangeEnd: keys.rangeEnd };
}

function isRange(keys: unknown): keys is KeyRange {
  return (keys as Partial<KeyRange> | null | undefined)?.[KEY_RANGE] === true;
}

export function singleKey(key: Uint8Array): WireRange {
  return { key, rangeEnd: NO_BYTES };
}

/** Checks the keys, and copies their bytes if they are a key, because the caller may later overwrite its buffer. */
export function ownKeys(keys: Keys): Keys {
  return isTextKey(keys) ? keys : keysOf(resolveKeys(keys, 'keys'));
}

export function keysOf({ key, rangeEnd }: WireRange): Keys {
  return rangeEnd.length === 0 ? key : new KeyRange(key, rangeEnd);
}

/**
 * Returns the bytes of a key. `argument` is the name of the argument in error messages. `hint` completes the message
 * about an empty key.
 *
 * @throws EtcdError with reason `InvalidInput` if the key is empty, or is neither a string nor a `Uint8Array`.
 */
export function checkKey(key: BytesLike, argument: string, hint = ''): Uint8Array {
  if (typeof key !== 'string' && isRange(key))
    throw invalidInput(argument, 'a range', 'one key, as a string or bytes; `range` and `scan` read ranges');
  const bytes = toBytes(key, argument);
  if (bytes.length === 0) throw invalidInput(argument, 'an empty key', `a key of at least one byte${hint}`);
  return bytes;
}

function isTextKey(key: unknown): key is string {
  return typeof key === 'string' && key !== '' && isWellFormed(key);
}

/** Checks a key as `checkKey` does. Returns the string itself, or a copy of the bytes. */
export function ownKey(key: BytesLike, argument: string): BytesLike {
  return isTextKey(key) ? key : checkKey(key, argument);
}

/**
 * Returns the first key after all keys that start with `bytes`. If every byte is 0xff, there is no such key, and the
 * result is "\0", which means no end.
 */
export function prefixEnd(bytes: Uint8Array): Uint8Array {
  for (let index = bytes.length - 1; index >= 0; index -= 1) {
    const byte = bytes[index] as number;
    if (byte < 0xff) return concatBytes(bytes.subarray(0, index), new Uint8Array([byte + 1]));
  }
  return NUL;
}

/** Returns the smallest key after `key`. */
export function keyAfter(key: Uint8Array): Uint8Array {
  return concatBytes(key, NUL);
}

/** Returns the first key after the range, or undefined if the range has no end. */
export function endOf(range: WireRange): Uint8Array | undefined {
  if (range.rangeEnd.length === 0) return keyAfter(range.key);
  return hasNoEnd(range) ? undefined : range.rangeEnd;
}

export function contains(range: WireRange, key: Uint8Array): boolean {
  if (range.rangeEnd.length === 0) return compareBytes(range.key, key) === 0;
  return compareBytes(range.key, key) <= 0 && (hasNoEnd(range) || compareBytes(key, range.rangeEnd) < 0);
}

export function overlaps(one: WireRange, other: WireRange): boolean {
  const isBefore = (end: Uint8Array | undefined, start: Uint8Array): boolean =>
    end !== undefined && compareBytes(end, start) <= 0;
  return !isBefore(endOf(one), other.key) && !isBefore(endOf(other), one.key);
}

export function hasNoEnd({ rangeEnd }: WireRange): boolean {
  return rangeEnd.length === 1 && rangeEnd[0] === 0;
}

/**
 * Translates a range of the namespace into a range of the whole store. An open-ended range becomes a range that ends
 * where the namespace ends. Otherwise, the range would also contain the keys after the namespace.
 */
export function prefixInterval(
  prefix: Uint8Array,
  { key = NO_BYTES, rangeEnd: end = NO_BYTES }: Init<WireRange>,
): WireRange {
  if (prefix.length === 0) return { key, rangeEnd: end };
  return {
    key: concatBytes(prefix, key),
    rangeEnd: hasNoEnd({ key, rangeEnd: end })
      ? prefixEnd(prefix)
      : end.length === 0
        ? NO_BYTES
        : concatBytes(prefix, end),
  };
}

/** Returns the key and its value as a namespace shows them. `length` is the length of the namespace's prefix. */
export function withoutPrefix<KV extends { readonly key: Uint8Array }>(kv: KV, length: number): KV {
  return { ...kv, key: kv.key.subarray(length) };
}
