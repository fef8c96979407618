import { copyOf, describeType, isWellFormed } from '../../base/index.js';

type Scalar = Uint8Array | string | number | bigint | boolean | undefined;

/**
 * The type of a message that the caller passes as an argument. Every field is optional: a field that the caller leaves
 * out has its default value. A oneof is an object with the name of the chosen field (`case`) and the field's `value`.
 *
 * @example
 * const put = { case: 'requestPut', value: { key, value } } as const;
 * const request: Init<Parameters<Raw['kv']['txn']>[0]> = { success: [{ request: put }] };
 * await etcd.raw.kv.txn(request);
 */
export type Init<T> = T extends Scalar
  ? T
  : T extends readonly (infer Element)[]
    ? readonly Init<Element>[]
    : T extends { case: infer Case; value: infer Value }
      ? { readonly case: Case; readonly value: Init<Value> }
      : { readonly [Field in keyof T]?: Init<T[Field]> | undefined };

const INITIAL_BYTES = 1_024;
/** Maximum size of a buffer that a writer reuses. The writer releases a larger buffer after the message. */
const KEPT_BYTES = 4_096;
const utf8 = new TextEncoder();

/** The encoding half of a codec. */
export interface MessageWriter<T> {
  write(writer: Writer, message: Init<T>): void;
}

/**
 * Writes protobuf's wire format (https://protobuf.dev/programming-guides/encoding/) to a buffer that grows. Every
 * varint has its shortest form, so equal messages have equal bytes.
 */
export class Writer {
  #buffer = new Uint8Array(INITIAL_BYTES);
  #at = 0;

  /** Returns a copy of the bytes written so far. */
  finish(): Uint8Array {
    return copyOf(this.#buffer, 0, this.#at);
  }

  /** Discards the bytes written so far, so that the writer can be reused. */
  reset(): void {
    this.#at = 0;
    if (this.#buffer.length > KEPT_BYTES) this.#buffer = new Uint8Array(INITIAL_BYTES);
  }

  /** Writes a tag: the field number and the wire type. */
  tag(tag: number): void {
    this.#varint32(tag);
  }

  uint32(value: number): void {
    if (value !== value >>> 0)
      throw new RangeError(`uint32: got ${show(value)}; allowed: a whole number from 0 to 2^32 - 1`);
    this.#varint32(value);
  }

  /** Writes an enum value as int32. A negative value occupies ten bytes. */
  int32(value: number): void {
    if (value !== (value | 0))
      throw new RangeError(`int32: got ${show(value)}; allowed: a whole number from -2^31 to 2^31 - 1`);
    if (value >= 0) this.#varint32(value);
    else this.#varint64(BigInt.asUintN(64, BigInt(value)));
  }

  int64(value: bigint): void {
    if (typeof value !== 'bigint') throw new TypeError(`int64: got ${show(value)}; allowed: a bigint`);
    if (value !== BigInt.asIntN(64, value))
      throw new RangeError(`int64: got ${value}; allowed: a bigint from -2^63 to 2^63 - 1`);
    this.#varint64(value < 0n ? BigInt.asUintN(64, value) : value);
  }

  uint64(value: bigint): void {
    if (typeof value !== 'bigint') throw new TypeError(`uint64: got ${show(value)}; allowed: a bigint`);
    if (value !== BigInt.asUintN(64, value))
      throw new RangeError(`uint64: got ${value}; allowed: a bigint from 0 to 2^64 - 1`);
    this.#varint64(value);
  }

  bool(value: boolean): void {
    if (typeof value !== 'boolean') throw new TypeError(`bool: got ${show(value)}; allowed: true or false`);
    this.#reserve(1);
    this.#buffer[this.#at++] = value ? 1 : 0;
  }

  bytes(value: Uint8Array): void {
    if (!(value instanceof Uint8Array)) throw new TypeError(`bytes: got ${show(value)}; allowed: a Uint8Array`);
    this.#varint32(value.length);
    this.#reserve(value.length);
    this.#buffer.set(value, this.#at);
    this.#at += value.length;
  }

  string(value: string): void {
    if (typeof value !== 'string') throw new TypeError(`string: got ${show(value)}; allowed: a string`);
    if (!isWellFormed(value))
      throw new TypeError('string: got a string with a lone surrogate; allowed: well-formed Unicode');
    this.bytes(utf8.encode(value));
  }

  // The methods named `…Field` write the tag and the value of a field. They write nothing for a field that is left out
  // or has its default value (proto3's implicit presence). The generated code calls them. A type of fields that no
  // generated codec contains has no method here.

  boolField(tag: number, value: boolean | undefined): void {
    if (!value) return;
    this.tag(tag);
    this.bool(value);
  }

  bytesField(tag: number, value: Uint8Array | undefined): void {
    if (value === undefined || value.length === 0) return;
    this.tag(tag);
    this.bytes(value);
  }

  int32Field(tag: number, value: number | undefined): void {
    if (value === undefined || value === 0) return;
    this.tag(tag);
    this.int32(value);
  }

  int64Field(tag: number, value: bigint | undefined): void {
    if (value === undefined || value === 0n) return;
    this.tag(tag);
    this.int64(value);
  }

  stringField(tag: number, value: string | undefined): void {
    if (value === undefined || value === '') return;
    this.tag(tag);
    this.string(value);
  }

  uint64Field(tag: number, value: bigint | undefined): void {
    if (value === undefined || value === 0n) return;
    this.tag(tag);
    this.uint64(value);
  }

  /** Writes a nested message, even if all its fields have their default values. */
  messageField<T>(tag: number, codec: MessageWriter<T>, message: Init<T> | undefined): void {
    if (message === undefined) return;
    this.tag(tag);
    this.message(codec, message);
  }

  /** Writes every element of a repeated field. */
  messageFields<T>(tag: number, codec: MessageWriter<T>, messages: readonly Init<T>[] | undefined): void {
    for (const message of messages ?? []) {
      this.tag(tag);
      this.message(codec, message);
    }
  }

  /** Writes the packed values of a repeated numeric field. */
  packedField<T>(tag: number, values: readonly T[] | undefined, write: (value: T) => void): void {
    if (values === undefined || values.length === 0) return;
    this.tag(tag);
    const start = this.#openLengthDelimited();
    for (const value of values) write(value);
    this.#closeLengthDelimited(start);
  }

  unknownCase(oneof: string): never {
    throw new TypeError(`${oneof}: got a case that this oneof does not have`);
  }

  message<T>(codec: MessageWriter<T>, message: Init<T>): void {
    const start = this.#openLengthDelimited();
    codec.write(this, message);
    this.#closeLengthDelimited(start);
  }

  /**
   * Reserves one byte for the length of a nested message, and returns the position after that byte. One byte is enough
   * for most messages, which are shorter than 128 bytes. `#closeLengthDelimited` moves a longer message to make room
   * for its length.
   */
  #openLengthDelimited(): number {
    this.#reserve(1);
    this.#at += 1;
    return this.#at;
  }

  #closeLengthDelimited(start: number): void {
    const length = this.#at - start;
    let extra = 0;
    for (let rest = length >>> 7; rest > 0; rest >>>= 7) extra += 1;
    if (extra > 0) {
      this.#reserve(extra);
      this.#buffer.copyWithin(start + extra, start, this.#at);
    }
    this.#at = start - 1;
    this.#varint32(length);
    this.#at += length;
  }

  #varint32(value: number): void {
    this.#reserve(5);
    while (value > 0x7f) {
      this.#buffer[this.#at++] = (value & 0x7f) | 0x80;
      value >>>= 7;
    }
    this.#buffer[this.#at++] = value;
  }

  #varint64(value: bigint): void {
    this.#reserve(10);
    // Use two 32-bit halves, because arithmetic on numbers is several times as fast as arithmetic on bigints.
    let low = Number(value & 0xffff_ffffn);
    let high = Number(value >> 32n);
    while (high > 0) {
      this.#buffer[this.#at++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    while (low > 0x7f) {
      this.#buffer[this.#at++] = (low & 0x7f) | 0x80;
      low >>>= 7;
    }
    this.#buffer[this.#at++] = low;
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#buffer.length * 2));
    grown.set(this.#buffer);
    this.#buffer = grown;
  }
}

/** Describes a value for an error message. Shows numbers, but only the type of other values, which may be secret. */
function show(value: unknown): string {
  return typeof value === 'number' ? String(value) : describeType(value);
}

/** The writer that `encode` reuses. Undefined before the first message, and while `encode` uses the writer. */
let spare: Writer | undefined;

/** Encodes a message. @throws TypeError or RangeError if the type of a field cannot represent its value. */
export function encode<T>(codec: MessageWriter<T>, message: Init<T>): Uint8Array {
  const writer = spare ?? new Writer();
  spare = undefined;
  try {
    codec.write(writer, message);
    return writer.finish();
  } finally {
    writer.reset();
    spare = writer;
  }
}
