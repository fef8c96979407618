import { invalidInput } from '../errors/etcd-error.js';

/**
 * V8 keeps arrays up to this length in its own heap. A longer one with memory of its own costs some 1,000 ns, a view of
 * memory that is there 30 ns.
 */
const IN_HEAP_BYTES = 64;
const SLAB_BYTES = 8_192;
/** Longer arrays have memory of their own, so that one that is kept holds no more than eight times its length or a slab. */
const LONGEST_BYTES = 1_024;

let slab = new Uint8Array(SLAB_BYTES);
let used = 0;

/** An array of zeros. Short ones share their `buffer` with others. */
function allocate(length: number): Uint8Array {
  if (length <= IN_HEAP_BYTES || length > LONGEST_BYTES) return new Uint8Array(length);
  if (used + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    used = 0;
  }
  const bytes = new Uint8Array(slab.buffer, used, length);
  used += length;
  return bytes;
}

/** The bytes from `start` to `end`, copied. */
export function copyOf(bytes: Uint8Array, start: number, end: number): Uint8Array {
  const length = end - start;
  if (length <= IN_HEAP_BYTES || length > LONGEST_BYTES) return bytes.slice(start, end);
  const copy = allocate(length);
  copy.set(bytes.subarray(start, end));
  return copy;
}

/** Keys and values may be given as text, which stands for its UTF-8 bytes. */
export type BytesLike = Uint8Array | string;

export const NO_BYTES: Uint8Array = new Uint8Array(0);

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * A copy of the caller's bytes, because the caller may write over its buffer while a call is repeated or a watch goes on.
 *
 * @throws EtcdError when a string has a lone surrogate: two such strings would become one key.
 */
export function toBytes(value: BytesLike, argument: string): Uint8Array {
  if (typeof value === 'string') {
    if (!isWellFormed(value))
      throw invalidInput(argument, 'a string with a lone surrogate', 'well-formed Unicode, or bytes');
    return value === '' ? NO_BYTES : encodeText(value);
  }
  if (value instanceof Uint8Array) return copyOf(plain(value), 0, value.length);
  throw invalidInput(argument, describeType(value), 'a string or a Uint8Array');
}

/** A character takes up to three bytes of UTF-8. */
const scratch = new Uint8Array(3 * 1_024);

function encodeText(text: string): Uint8Array {
  if (text.length * 3 > scratch.length) return encoder.encode(text);
  const { written } = encoder.encodeInto(text, scratch);
  return copyOf(scratch, 0, written);
}

/** The same bytes without what a subclass, as Node's Buffer, makes of `slice` and `toString`. */
export function plain(bytes: Uint8Array): Uint8Array {
  if (Object.getPrototypeOf(bytes) === Uint8Array.prototype) return bytes;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Text that is the same for the same bytes only, for maps. */
export function idOf(bytes: Uint8Array): string {
  return bytes.join();
}

export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** The bytes as text, or undefined when they are not valid UTF-8. */
export function validTextOf(bytes: Uint8Array): string | undefined {
  try {
    return strictDecoder.decode(bytes);
  } catch {
    return undefined;
  }
}

export function hexOf(bytes: Uint8Array, separator = ''): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(separator);
}

/** Bytes that one call of `String.fromCharCode` takes: engines limit the number of arguments. */
const CHUNK_BYTES = 8_192;

/** Base64 of RFC 4648, section 4, with padding. */
export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
  return btoa(binary);
}

/** Byte order, as etcd orders keys: negative, 0 or positive. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const common = Math.min(a.length, b.length);
  for (let index = 0; index < common; index += 1) {
    const difference = (a[index] as number) - (b[index] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** What kind of value it is, without showing it: keys and values stay out of errors. */
export function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (value === '') return 'an empty string';
  if (typeof value !== 'object') return `a ${typeof value}`;
  // Not by a property of its own, which may be anything.
  return `an object (${Object.getPrototypeOf(value)?.constructor?.name ?? 'no class'})`;
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** No lone surrogate: two strings that have one could encode to the same bytes. */
export function isWellFormed(value: string): boolean {
  return !LONE_SURROGATE.test(value);
}
