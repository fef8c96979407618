import { DEFAULT_TABLE_BYTES, entryBytes, type HeaderField, STATIC_TABLE } from './tables.js';

// The representations of RFC 7541, section 6. `bits` identifies the representation, and `prefix` is the maximum value
// of the integer prefix in the same octet.
const INDEXED = { bits: 0x80, prefix: 0x7f };
const INCREMENTAL_INDEXING = { bits: 0x40, prefix: 0x3f };
const WITHOUT_INDEXING = { bits: 0x00, prefix: 0x0f };
const NEVER_INDEXED = { bits: 0x10, prefix: 0x0f };
const TABLE_SIZE_UPDATE = { bits: 0x20, prefix: 0x1f };
/** The length of a string without Huffman coding: section 5.2. */
const STRING = { bits: 0x00, prefix: 0x7f };

/**
 * Encodes fields that many requests have in common. A field that is in a table takes one or two octets. The encoder
 * adds entries to the peer's dynamic table as long as the table has room, and never evicts an entry. The indices of the
 * entries therefore change only when the encoder adds an entry or the peer resizes the table.
 */
export class HpackEncoder {
  #entries: HeaderField[] = [];
  #bytes = 0;
  #capacityBytes = DEFAULT_TABLE_BYTES;
  #sizeUpdate: number[] = [];
  /** The version of the dynamic table. An encoded block may be sent again as long as the version stays the same. */
  #version = 0;
  readonly #blocks = new Map<readonly HeaderField[], { readonly version: number; readonly bytes: Uint8Array }>();

  /** Applies the peer's SETTINGS_HEADER_TABLE_SIZE. The next block begins with an empty table of at most that size. */
  resize(capacityBytes: number): void {
    const capacity = Math.min(capacityBytes, DEFAULT_TABLE_BYTES);
    if (capacity === this.#capacityBytes) return;
    this.#version += 1;
    this.#entries = [];
    this.#bytes = 0;
    this.#capacityBytes = capacity;
    // The next block first signals size 0, which empties the peer's table.
    this.#sizeUpdate = [TABLE_SIZE_UPDATE.bits, ...integer(TABLE_SIZE_UPDATE, capacity)];
  }

  /**
   * Encodes the fields. The caller must send the block, because otherwise the peer's dynamic table would no longer equal
   * the table of the encoder. The encoder keeps the block until the table changes, so the caller should pass the same
   * array for the same fields, and must not change the array.
   */
  encode(fields: readonly HeaderField[]): Uint8Array {
    const known = this.#blocks.get(fields);
    if (known !== undefined && known.version === this.#version) return known.bytes;
    const version = this.#version;
    const bytes = Uint8Array.from([...this.#sizeUpdate, ...fields.flatMap((field) => this.#field(field))]);
    if (this.#sizeUpdate.length > 0) this.#version += 1;
    this.#sizeUpdate = [];
    if (version === this.#version) this.#blocks.set(fields, { version, bytes });
    return bytes;
  }

  #field(field: HeaderField): number[] {
    const [name, value] = field;
    const index = this.#indexOf((entry) => entry[0] === name && entry[1] === value);
    if (index > 0) return integer(INDEXED, index);
    const nameIndex = this.#indexOf((entry) => entry[0] === name);
    const bytes = entryBytes(field);
    const added = this.#bytes + bytes <= this.#capacityBytes;
    const literal = [
      ...integer(added ? INCREMENTAL_INDEXING : WITHOUT_INDEXING, nameIndex),
      ...(nameIndex > 0 ? [] : literalString(name)),
      ...literalString(value),
    ];
    if (added) {
      this.#entries.push(field);
      this.#bytes += bytes;
      this.#version += 1;
    }
    return literal;
  }

  /** Returns the HPACK index of a matching field, or 0 if no field matches. */
  #indexOf(matches: (field: HeaderField) => boolean): number {
    const fixed = STATIC_TABLE.findIndex(matches);
    if (fixed >= 0) return fixed + 1;
    const added = this.#entries.findIndex(matches);
    return added < 0 ? 0 : STATIC_TABLE.length + this.#entries.length - added;
  }
}

/** The number of octets that `writeNeverIndexed` writes. */
export function neverIndexedBytes(name: string, value: string): number {
  return 1 + stringBytes(name) + stringBytes(value);
}

/**
 * Writes a literal field that is never indexed, which means that no intermediary may add the field to a table. This
 * representation suits secrets, and values that differ with every call. The name and the value must be ASCII. Writes to
 * `bytes` from index `at`, and returns the index after the field.
 */
export function writeNeverIndexed(bytes: Uint8Array, at: number, name: string, value: string): number {
  bytes[at] = NEVER_INDEXED.bits;
  return writeString(bytes, writeString(bytes, at + 1, name), value);
}

/** Returns the number of octets that `writeString` writes. */
function stringBytes({ length }: string): number {
  return length + (length < STRING.prefix ? 1 : integer(STRING, length).length);
}

/** Writes a string at index `at`, without Huffman coding: section 5.2. Returns the index after the string. */
function writeString(bytes: Uint8Array, at: number, text: string): number {
  const { length } = text;
  if (length < STRING.prefix) bytes[at++] = length;
  else for (const octet of integer(STRING, length)) bytes[at++] = octet;
  for (let index = 0; index < length; index += 1) bytes[at++] = text.charCodeAt(index);
  return at;
}

/** Encodes a string without Huffman coding: section 5.2. */
export function literalString(text: string): number[] {
  const bytes = new Uint8Array(stringBytes(text));
  writeString(bytes, 0, text);
  return [...bytes];
}

/** Encodes an integer: section 5.1. */
function integer({ bits, prefix }: { readonly bits: number; readonly prefix: number }, value: number): number[] {
  if (value < prefix) return [bits | value];
  const octets = [bits | prefix];
  let rest = value - prefix;
  while (rest >= 0x80) {
    octets.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  octets.push(rest);
  return octets;
}
