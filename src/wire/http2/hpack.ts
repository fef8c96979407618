import { latin1Of, NO_BYTES } from '../../base/index.js';
import { ConnectionError, ErrorCode } from './frame.js';
import { decodeHuffman } from './huffman.js';

/** A header field: RFC 9110, section 5. Each character stands for one octet, even if it is not an ASCII character. */
export type HeaderField = readonly [name: string, value: string];

/** The number of bytes by which an entry's size exceeds the length of its name and value: RFC 7541, section 4.1. */
const ENTRY_OVERHEAD_BYTES = 32;
/** The initial SETTINGS_HEADER_TABLE_SIZE. RFC 9113, section 6.5.2. */
const DEFAULT_TABLE_BYTES = 4_096;

/** Returns the size of a table entry: RFC 7541, section 4.1. SETTINGS_MAX_HEADER_LIST_SIZE counts in the same way. */
export function entryBytes([name, value]: HeaderField): number {
  return name.length + value.length + ENTRY_OVERHEAD_BYTES;
}

/** A list of fields that is the same for many requests or responses. */
export interface FixedFields {
  readonly fields: readonly HeaderField[];
  /** The size of the fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  readonly listBytes: number;
}

export function fixedFields(fields: readonly HeaderField[]): FixedFields {
  return { fields, listBytes: fields.reduce((sum, field) => sum + entryBytes(field), 0) };
}

/** The static table: RFC 7541, appendix A. Its first entry has index 1. */
export const STATIC_TABLE: readonly HeaderField[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ['accept-language', ''],
  ['accept-ranges', ''],
  ['accept', ''],
  ['access-control-allow-origin', ''],
  ['age', ''],
  ['allow', ''],
  ['authorization', ''],
  ['cache-control', ''],
  ['content-disposition', ''],
  ['content-encoding', ''],
  ['content-language', ''],
  ['content-length', ''],
  ['content-location', ''],
  ['content-range', ''],
  ['content-type', ''],
  ['cookie', ''],
  ['date', ''],
  ['etag', ''],
  ['expect', ''],
  ['expires', ''],
  ['from', ''],
  ['host', ''],
  ['if-match', ''],
  ['if-modified-since', ''],
  ['if-none-match', ''],
  ['if-range', ''],
  ['if-unmodified-since', ''],
  ['last-modified', ''],
  ['link', ''],
  ['location', ''],
  ['max-forwards', ''],
  ['proxy-authenticate', ''],
  ['proxy-authorization', ''],
  ['range', ''],
  ['referer', ''],
  ['refresh', ''],
  ['retry-after', ''],
  ['server', ''],
  ['set-cookie', ''],
  ['strict-transport-security', ''],
  ['transfer-encoding', ''],
  ['user-agent', ''],
  ['vary', ''],
  ['via', ''],
  ['www-authenticate', ''],
];

/** The decoder's dynamic table: fields that the peer sent earlier on this connection. RFC 7541, section 2.3.2. */
export class DynamicTable {
  /** The entries, oldest first. The entries at indices below `#evicted` were evicted. */
  #entries: (HeaderField | undefined)[] = [];
  #evicted = 0;
  #bytes = 0;
  #capacityBytes = DEFAULT_TABLE_BYTES;
  /** Increases with every change. An index refers to the same field as long as the version stays the same. */
  version = 0;

  get length(): number {
    return this.#entries.length - this.#evicted;
  }

  /** Returns the entry at `index`, which counts from the newest entry, or undefined if the table has fewer entries. */
  get(index: number): HeaderField | undefined {
    return index < this.length ? this.#entries[this.#entries.length - 1 - index] : undefined;
  }

  /**
   * Adds an entry, after evicting the oldest entries until the new entry fits. An entry larger than the table is not
   * added, but still evicts all entries: RFC 7541, section 4.4.
   */
  add(field: HeaderField): void {
    this.version += 1;
    const bytes = entryBytes(field);
    this.#evictTo(this.#capacityBytes - bytes);
    if (bytes > this.#capacityBytes) return;
    this.#entries.push(field);
    this.#bytes += bytes;
  }

  resize(capacityBytes: number): void {
    this.version += 1;
    this.#capacityBytes = capacityBytes;
    this.#evictTo(capacityBytes);
  }

  #evictTo(bytes: number): void {
    while (this.#bytes > bytes && this.length > 0) {
      this.#bytes -= entryBytes(this.#entries[this.#evicted] as HeaderField);
      this.#entries[this.#evicted] = undefined;
      this.#evicted += 1;
    }
    if (this.#evicted > 64 && this.#evicted * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#evicted);
      this.#evicted = 0;
    }
  }
}

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

/** Maximum number of octets after the prefix of an encoded integer. Each octet carries 7 bits of the value. */
const MAX_INTEGER_OCTETS = 4;

export interface HeaderList {
  readonly fields: readonly HeaderField[];
  /** Whether the list exceeds the size limit. If so, `fields` does not contain the fields beyond the limit. */
  readonly isTooLarge: boolean;
}

/**
 * Decodes header blocks: RFC 7541. A connection has one decoder. The decoder must read every header block in order,
 * even a block for a closed stream, because each block may change the dynamic table.
 */
export class HpackDecoder {
  /** The fields that later blocks can name by their indices. Only the decoder changes the table. */
  readonly table: DynamicTable = new DynamicTable();
  readonly #maxListBytes: number;
  #bytes: Uint8Array = NO_BYTES;
  #at = 0;
  #end = 0;

  /** `maxListBytes` limits the sum of `entryBytes` of all fields in a block. */
  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes;
  }

  /** The version of the dynamic table. As long as the version stays the same, equal blocks decode to equal fields. */
  get version(): number {
    return this.table.version;
  }

  /**
   * Decodes the header block in `bytes` from `start` to `end`.
   *
   * @throws ConnectionError with code COMPRESSION_ERROR if the block is malformed. The dynamic table then no longer
   * equals the peer's table, so the caller must close the connection.
   */
  decode(bytes: Uint8Array, start: number, end: number): HeaderList {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
    const fields: HeaderField[] = [];
    let listBytes = 0;
    while (this.#at < this.#end) {
      const field = this.#field(fields.length > 0 || listBytes > 0);
      if (field === undefined) continue;
      listBytes += entryBytes(field);
      if (listBytes <= this.#maxListBytes) fields.push(field);
    }
    // Release the received bytes, so that they do not stay in memory while the connection is idle.
    this.#bytes = NO_BYTES;
    return { fields, isTooLarge: listBytes > this.#maxListBytes };
  }

  /** Decodes one field representation (RFC 7541, section 6). Returns undefined for a dynamic table size update. */
  #field(afterFields: boolean): HeaderField | undefined {
    const first = this.#bytes[this.#at] as number;
    if (first >= 0x80) return this.#indexed(this.#integer(0x7f));
    if (first >= 0x40) {
      const field = this.#literal(this.#integer(0x3f));
      this.table.add(field);
      return field;
    }
    if (first < 0x20) return this.#literal(this.#integer(0x0f));
    if (afterFields) throw invalid('a size update after the first field');
    const size = this.#integer(0x1f);
    if (size > DEFAULT_TABLE_BYTES)
      throw invalid(`a table of ${size} bytes; at most ${DEFAULT_TABLE_BYTES} are allowed`);
    this.table.resize(size);
    return undefined;
  }

  #literal(nameIndex: number): HeaderField {
    const name = nameIndex === 0 ? this.#string() : this.#indexed(nameIndex)[0];
    return [name, this.#string()];
  }

  #indexed(index: number): HeaderField {
    const field =
      index <= STATIC_TABLE.length ? STATIC_TABLE[index - 1] : this.table.get(index - STATIC_TABLE.length - 1);
    if (field === undefined) throw invalid(`no field has index ${index}`);
    return field;
  }

  /** Decodes an integer: section 5.1. `prefix` is the maximum value of the prefix, with all its bits set. */
  #integer(prefix: number): number {
    let value = (this.#bytes[this.#at++] as number) & prefix;
    if (value < prefix) return value;
    for (let octets = 0; octets < MAX_INTEGER_OCTETS; octets += 1) {
      if (this.#at >= this.#end) throw invalid('a truncated integer');
      const byte = this.#bytes[this.#at++] as number;
      value += (byte & 0x7f) * 2 ** (7 * octets);
      if (byte < 0x80) return value;
    }
    throw invalid('an integer that is too large');
  }

  /** Decodes a string: section 5.2. */
  #string(): string {
    if (this.#at >= this.#end) throw invalid('a truncated field');
    const huffman = (this.#bytes[this.#at] as number) >= 0x80;
    const length = this.#integer(0x7f);
    const start = this.#at;
    if (length > this.#end - start) throw invalid('a string that is longer than its block');
    this.#at += length;
    return huffman ? decodeHuffman(this.#bytes, start, this.#at) : latin1Of(this.#bytes.subarray(start, this.#at));
  }
}

function invalid(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.COMPRESSION_ERROR, `header block: ${problem}`);
}
