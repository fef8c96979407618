import { DEFAULT_TABLE_BYTES, entryBytes } from './dynamic-table.js';
import { type HeaderField, STATIC_TABLE } from './static-table.js';

// Representations of RFC 7541, section 6: the bits that tell them apart, and the largest value of the index beside them.
const INDEXED = { bits: 0x80, prefix: 0x7f };
const INCREMENTAL_INDEXING = { bits: 0x40, prefix: 0x3f };
const WITHOUT_INDEXING = { bits: 0x00, prefix: 0x0f };
const NEVER_INDEXED = { bits: 0x10, prefix: 0x0f };
const TABLE_SIZE_UPDATE = { bits: 0x20, prefix: 0x1f };

/**
 * Encodes the fields that are the same for many requests, so that all but the first take one octet each. Entries are
 * added to the peer's table as long as there is room, and none is ever evicted: an index changes only with an addition.
 */
export class HpackEncoder {
  #entries: HeaderField[] = [];
  #bytes = 0;
  #capacityBytes = DEFAULT_TABLE_BYTES;
  #sizeUpdate: number[] = [];
  /** Grows with every change: a block that was encoded holds for one version. */
  version = 0;

  /** The peer's SETTINGS_HEADER_TABLE_SIZE: the next block begins with an empty table of at most that size. */
  resize(capacityBytes: number): void {
    const capacity = Math.min(capacityBytes, DEFAULT_TABLE_BYTES);
    if (capacity === this.#capacityBytes) return;
    this.version += 1;
    this.#entries = [];
    this.#bytes = 0;
    this.#capacityBytes = capacity;
    // Size 0 in between empties the peer's table.
    this.#sizeUpdate = [TABLE_SIZE_UPDATE.bits, ...integer(TABLE_SIZE_UPDATE, capacity)];
  }

  encode(fields: readonly HeaderField[]): Uint8Array {
    const block = [...this.#sizeUpdate, ...fields.flatMap((field) => this.#field(field))];
    if (this.#sizeUpdate.length > 0) this.version += 1;
    this.#sizeUpdate = [];
    return Uint8Array.from(block);
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
      ...(nameIndex > 0 ? [] : string(name)),
      ...string(value),
    ];
    if (added) {
      this.#entries.push(field);
      this.#bytes += bytes;
      this.version += 1;
    }
    return literal;
  }

  /** 0 where there is none. */
  #indexOf(matches: (field: HeaderField) => boolean): number {
    const fixed = STATIC_TABLE.findIndex(matches);
    if (fixed >= 0) return fixed + 1;
    const added = this.#entries.findIndex(matches);
    return added < 0 ? 0 : STATIC_TABLE.length + this.#entries.length - added;
  }
}

/** How many octets `writeNeverIndexed` takes. */
export function neverIndexedBytes(name: string, value: string): number {
  return 1 + stringBytes(name) + stringBytes(value);
}

/** A field that nobody on the way may put into a table: secrets, and values that do not come again. ASCII only. */
export function writeNeverIndexed(bytes: Uint8Array, at: number, name: string, value: string): number {
  bytes[at] = NEVER_INDEXED.bits;
  return writeString(bytes, writeString(bytes, at + 1, name), value);
}

function stringBytes(text: string): number {
  let octets = 1;
  for (let rest = text.length - 0x7f; rest >= 0; rest = rest < 0x80 ? -1 : Math.floor(rest / 0x80)) octets += 1;
  return octets + text.length;
}

/** Without Huffman coding: section 5.2. */
function writeString(bytes: Uint8Array, at: number, text: string): number {
  const { length } = text;
  if (length < 0x7f) bytes[at++] = length;
  else for (const octet of integer({ bits: 0, prefix: 0x7f }, length)) bytes[at++] = octet;
  for (let index = 0; index < length; index += 1) bytes[at++] = text.charCodeAt(index);
  return at;
}

function string(text: string): number[] {
  const bytes = new Uint8Array(stringBytes(text));
  writeString(bytes, 0, text);
  return [...bytes];
}

/** Section 5.1. */
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
