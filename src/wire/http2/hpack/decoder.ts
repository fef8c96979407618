import { NO_BYTES } from '../../../base/index.js';
import { ConnectionError, ErrorCode } from '../frame.js';
import { decodeHuffman } from './huffman.js';
import { DEFAULT_TABLE_BYTES, DynamicTable, entryBytes, type HeaderField, STATIC_TABLE } from './tables.js';

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
    return huffman ? decodeHuffman(this.#bytes, start, this.#at) : latin1(this.#bytes, start, this.#at);
  }
}

function latin1(bytes: Uint8Array, start: number, end: number): string {
  let text = '';
  for (let at = start; at < end; at += 1) text += String.fromCharCode(bytes[at] as number);
  return text;
}

function invalid(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.COMPRESSION_ERROR, `header block: ${problem}`);
}
