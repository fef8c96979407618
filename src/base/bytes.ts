import { environment } from './environment.js';
import { invalidInput } from './etcd-error.js';

/** A key or a value. A string stands for its UTF-8 bytes. */
export type BytesLike = Uint8Array | string;

export const NO_BYTES: Uint8Array = new Uint8Array(0);

/**
 * Maximum length in bytes of a typed array that V8 stores in its own heap. Creating a longer array takes about 1,000 ns
 * if the array gets its own memory, and 30 ns if the array is a view of existing memory.
 */
const MAX_IN_HEAP_BYTES = 64;
/** Size in bytes of a slab: a block of memory that several copies share. */
const SLAB_BYTES = 4_096;
/** Maximum length in bytes of a copy in a slab. Longer copies get their own memory, so that slabs waste little. */
const MAX_SLICE_BYTES = 1_024;

let slab = new Uint8Array(SLAB_BYTES);
let used = 0;

/** Copies the bytes from `start` to `end`. Copies of 65 to 1,024 bytes share their `buffer` with other copies. */
export function copyOf(bytes: Uint8Array, start: number, end: number): Uint8Array {
  const length = end - start;
  if (length <= MAX_IN_HEAP_BYTES || length > MAX_SLICE_BYTES) return bytes.slice(start, end);
  if (used + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    used = 0;
  }
  const copy = new Uint8Array(slab.buffer, used, length);
  used += length;
  copy.set(bytes.subarray(start, end));
  return copy;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Returns the bytes of a key or a value. Copies the caller's bytes, because the caller may overwrite its buffer while a
 * call is retried or a watch continues. `argument` is the name of the argument in error messages.
 *
 * @throws EtcdError with reason `InvalidInput` if the value is neither a string nor a `Uint8Array`, or is a string with
 * a lone surrogate. Different strings with lone surrogates could become the same key.
 */
export function toBytes(value: BytesLike, argument: string): Uint8Array {
  if (typeof value === 'string') {
    if (!isWellFormed(value))
      throw invalidInput(
        argument,
        'a string with a lone surrogate',
        'a string of well-formed Unicode, or a Uint8Array',
      );
    return value === '' ? NO_BYTES : encodeText(value);
  }
  if (!isBytes(value)) {
    const more = argument === 'value' ? '; JSON.stringify or typed keys convert other values' : '';
    throw invalidInput(argument, describeType(value), `a string or a Uint8Array${more}`);
  }
  try {
    return copyOf(plain(value), 0, value.length);
  } catch {
    throw invalidInput(argument, 'a Uint8Array whose memory was transferred', 'a string or a Uint8Array');
  }
}

/** Checks a key or a value as `toBytes` does. Returns the string itself, or a copy of the bytes. */
export function ownBytes(value: BytesLike, argument: string): BytesLike {
  return typeof value === 'string' && isWellFormed(value) ? value : toBytes(value, argument);
}

/** Whether the value is a `Uint8Array`. Never throws: `instanceof` alone would run the traps of a proxy. */
export function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && value instanceof Uint8Array;
}

const MAX_UTF8_BYTES_PER_CHAR = 3;
const scratch = new Uint8Array(MAX_UTF8_BYTES_PER_CHAR * 1_024);

function encodeText(text: string): Uint8Array {
  if (text.length * MAX_UTF8_BYTES_PER_CHAR > scratch.length) return encoder.encode(text);
  const { written } = encoder.encodeInto(text, scratch);
  return copyOf(scratch, 0, written);
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Whether the string has no lone surrogate. Different strings with lone surrogates can encode to the same bytes. */
export function isWellFormed(value: string): boolean {
  return !LONE_SURROGATE.test(value);
}

/**
 * Returns the same bytes as a plain Uint8Array, without copying them. Subclasses, such as Node's Buffer, override
 * `slice` and `toString`.
 */
export function plain(bytes: Uint8Array): Uint8Array {
  if (Object.getPrototypeOf(bytes) === Uint8Array.prototype) return bytes;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Returns a string that identifies the bytes, for use as a key of a `Map`. */
export function idOf(bytes: Uint8Array): string {
  return bytes.join();
}

export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** Decodes the bytes as UTF-8. Returns undefined if they are not valid UTF-8. */
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

/** Maximum number of arguments in one call of `String.fromCharCode`. JavaScript engines limit that number. */
const MAX_ARGUMENTS = 8_192;

/** Returns a string with one character for each byte: ISO 8859-1. Such strings have the order of their bytes. */
export function latin1Of(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += MAX_ARGUMENTS) {
    const part: ArrayLike<number> = bytes.subarray(at, at + MAX_ARGUMENTS);
    // A spread argument would be many times slower, because it takes the bytes one by one from an iterator.
    text += String.fromCharCode.apply(undefined, part as number[]);
  }
  return text;
}

/** Encodes bytes as base64 with padding (RFC 4648, section 4). */
export function toBase64(bytes: Uint8Array): string {
  return btoa(latin1Of(bytes));
}

/**
 * Compares two keys in byte order, which is etcd's order of keys. Returns a negative number if `a` comes first, a
 * positive number if `b` comes first, and 0 if the keys are equal.
 */
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

/** Writes an unsigned 32-bit integer at index `at`, with the most significant byte first, as HTTP/2 and gRPC do. */
export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

/** Reads an integer that `writeUint32` has written. */
export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number)) >>>
    0
  );
}

/** Returns a random number from 1 to 2^63 - 1, for lease IDs, which are positive, and for keys that must be unique. */
export function randomId(): bigint {
  const [random = 0n] = environment.crypto.getRandomValues(new BigUint64Array(1));
  return BigInt.asUintN(63, random) || 1n;
}

/** Splits text that arrives in pieces into lines. Scans each piece only once, even if a line spans many pieces. */
export class LineSplitter {
  #rest = '';

  /** The text after the last complete line. */
  get rest(): string {
    return this.#rest;
  }

  /** Adds a piece of text, and yields the lines that are now complete. */
  *push(piece: string): Generator<string, void> {
    const [first = '', ...others] = piece.split('\n');
    this.#rest += first;
    for (const next of others) {
      yield this.#rest;
      this.#rest = next;
    }
  }
}

/** Describes the type of a value without showing the value. Never throws. */
export function describeType(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (value === '') return 'an empty string';
  if (typeof value !== 'object') return `a ${typeof value}`;
  return `an object (${classOf(value)})`;
}

function classOf(value: object): string {
  try {
    // Reads the prototype, because an own property `constructor` may have any value.
    const name: unknown = Object.getPrototypeOf(value)?.constructor?.name;
    if (typeof name === 'string') return name;
  } catch {
    // A proxy or a getter threw.
  }
  return 'no class';
}
