import { copyOf, EtcdError, NO_BYTES, plain } from '../../base/index.js';

/** Maximum nesting depth of messages. Without this limit, malformed input could exhaust the stack. */
export const MAX_DEPTH = 100;
const MAX_VARINT_BYTES = 10;

/** The bigints that `Reader` reuses for small values. */
const SMALL: readonly bigint[] = Array.from({ length: 16 }, (_, value) => BigInt(value));
/** Memory in which `Reader` combines two 32-bit halves into a bigint. */
const quad = new DataView(new ArrayBuffer(8));
/** `last` is the latest bigint that `Reader` created. `lastLow` and `lastHigh` are its lower and upper 32 bits. */
let lastLow = 0;
let lastHigh = 0;
let last = 0n;

/** Wire types of https://protobuf.dev/programming-guides/encoding/#structure. */
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;

// `ignoreBOM` keeps a byte order mark in the decoded text, because protobuf strings may begin with this character.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** The decoding half of a codec. */
export interface MessageReader<T> {
  /** Full protobuf name, such as `etcdserverpb.PutRequest`. */
  readonly typeName: string;
  /** Returns a new message whose fields all have their default values. */
  create(): T;
  /** Reads the fields up to the end of the reader, and stores them in `message`. */
  read(reader: Reader, message: T): void;
}

/**
 * Reads protobuf's wire format. For any input, each method returns a value or throws an `EtcdError` with reason
 * `MalformedMessage`. The reader never allocates memory for a length that exceeds the input, and never reads past the
 * end of the innermost message.
 */
export class Reader {
  readonly #bytes: Uint8Array;
  readonly #typeName: string;
  readonly #start: number;
  readonly #length: number;
  #at: number;
  #end: number;
  #depth = 0;
  /** Upper 32 bits of the varint that the reader has read last. */
  #high = 0;

  /** Creates a reader for the message in `bytes` from `start` to `end`. `typeName` names the message in errors. */
  constructor(bytes: Uint8Array, typeName: string, start = 0, end = bytes.length) {
    this.#bytes = plain(bytes);
    this.#typeName = typeName;
    this.#at = start;
    this.#end = end;
    this.#start = start;
    this.#length = end - start;
  }

  /** Reads the tag of the next field. Returns 0 at the end of the message. */
  tag(): number {
    if (this.#at >= this.#end) return 0;
    const tag = this.uint32();
    if (this.#high !== 0 || tag >>> 3 === 0) this.#fail('field number out of range');
    return tag;
  }

  bool(): boolean {
    return this.#varint() !== 0 || this.#high !== 0;
  }

  uint32(): number {
    return this.#varint();
  }

  /** Reads an enum value. Protobuf encodes enums as int32. */
  int32(): number {
    return this.#varint() | 0;
  }

  int64(): bigint {
    const low = this.#varint();
    return this.#high < 2 ** 31 ? this.#bigint(low) : BigInt.asIntN(64, this.#bigint(low));
  }

  uint64(): bigint {
    return this.#bigint(this.#varint());
  }

  /**
   * Returns a bigint with the given lower 32 bits and the upper 32 bits in `#high`. Reuses bigints, because counts are
   * small, and the same revisions and IDs repeat.
   */
  #bigint(low: number): bigint {
    if (this.#high === 0 && low < SMALL.length) return SMALL[low] as bigint;
    if (low === lastLow && this.#high === lastHigh) return last;
    lastLow = low;
    lastHigh = this.#high;
    quad.setUint32(0, lastHigh);
    quad.setUint32(4, low);
    last = quad.getBigUint64(0);
    return last;
  }

  /** Reads bytes and copies them, so that a value does not keep the memory of its whole response alive. */
  bytes(): Uint8Array {
    const end = this.#lengthDelimited();
    const start = this.#at;
    this.#at = end;
    return start === end ? NO_BYTES : copyOf(this.#bytes, start, end);
  }

  string(): string {
    const end = this.#lengthDelimited();
    const start = this.#at;
    this.#at = end;
    return start === end ? '' : utf8.decode(this.#bytes.subarray(start, end));
  }

  /**
   * Reads a nested message into `message`. If a field that is not repeated occurs twice, the caller passes the
   * message of the first occurrence, and this method merges the two, as the protobuf specification requires.
   */
  message<T>(codec: MessageReader<T>, message: T = codec.create()): T {
    const outer = this.#end;
    this.#end = this.#lengthDelimited();
    if (++this.#depth > MAX_DEPTH) this.#fail(`messages nested deeper than ${MAX_DEPTH}`);
    codec.read(this, message);
    this.#depth -= 1;
    this.#end = outer;
    return message;
  }

  /** Reads the packed values of a repeated numeric field, and appends them to `into`. */
  packed<T>(into: T[], read: () => T): void {
    const end = this.#lengthDelimited();
    while (this.#at < end) into.push(read());
    if (this.#at !== end) this.#fail('packed field longer than declared');
  }

  /** Position of the next field or value in the input. */
  get at(): number {
    return this.#at;
  }

  /** Reads the rest of the message, and returns a copy of its bytes. */
  rest(): Uint8Array {
    const start = this.#at;
    this.#at = this.#end;
    return this.#bytes.slice(start, this.#end);
  }

  /** Skips the value of the field whose tag the caller has just read. */
  skip(tag: number): void {
    const wireType = tag & 7;
    if (wireType === VARINT) this.#varint();
    else if (wireType === FIXED64) this.#advance(8);
    else if (wireType === LENGTH_DELIMITED) this.#at = this.#lengthDelimited();
    else if (wireType === START_GROUP) this.#skipGroup(tag);
    else if (wireType === FIXED32) this.#advance(4);
    else if (wireType === END_GROUP) this.#fail('end of a group that has no start');
    else this.#fail(`invalid wire type ${wireType}`);
  }

  #skipGroup(start: number): void {
    if (++this.#depth > MAX_DEPTH) this.#fail(`messages nested deeper than ${MAX_DEPTH}`);
    for (;;) {
      const tag = this.tag();
      if (tag === 0) this.#fail('group without an end');
      if ((tag & 7) === END_GROUP) {
        if (tag >>> 3 !== start >>> 3) this.#fail('group ended by another field');
        break;
      }
      this.skip(tag);
    }
    this.#depth -= 1;
  }

  #advance(bytes: number): void {
    if (bytes > this.#end - this.#at) this.#fail('truncated field');
    this.#at += bytes;
  }

  /** Reads the length of a length-delimited field, and returns the position of its end. */
  #lengthDelimited(): number {
    const length = this.#varint();
    if (this.#high !== 0 || length > this.#end - this.#at) this.#fail('length beyond the end of the message');
    return this.#at + length;
  }

  /** Reads a varint. Returns its lower 32 bits, and stores the upper 32 bits in `#high`. */
  #varint(): number {
    this.#high = 0;
    let low = 0;
    for (let index = 0; index < MAX_VARINT_BYTES; index += 1) {
      if (this.#at >= this.#end) this.#fail('truncated varint');
      const byte = this.#bytes[this.#at++] as number;
      const bits = byte & 0x7f;
      const shift = index * 7;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        this.#high = bits >>> 4;
      } else this.#high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.#high >>>= 0;
        return low >>> 0;
      }
    }
    return this.#fail(`varint longer than ${MAX_VARINT_BYTES} bytes`);
  }

  #fail(problem: string): never {
    throw new EtcdError(
      `malformed ${this.#typeName}: ${problem}, at byte ${this.#at - this.#start} of ${this.#length}`,
      { code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' },
    );
  }
}

/**
 * Decodes the message in `bytes` from `start` to `end`. The result contains copies of the bytes, so the caller may
 * reuse `bytes`.
 *
 * @throws EtcdError with reason `MalformedMessage` if the bytes are not a valid message.
 */
export function decode<T>(codec: MessageReader<T>, bytes: Uint8Array, start = 0, end = bytes.length): T {
  const message = codec.create();
  codec.read(new Reader(bytes, codec.typeName, start, end), message);
  return message;
}
