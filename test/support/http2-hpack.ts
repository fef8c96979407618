import { decodeHuffman } from '../../src/wire/http2/huffman.js';

// Encodes header blocks for the scripted peer in the tests, and decodes the header blocks that the client sends. RFC
// 7541 defines the header blocks.

export type Field = readonly [name: string, value: string];

/** The static table of RFC 7541, appendix A, from index 1: names and values. */
const APPENDIX_A = `
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204
:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since
last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate`;

export const STATIC_FIELDS: readonly Field[] = APPENDIX_A.trim()
  .split(/[|\n]/)
  .map((entry) => {
    const [name = '', ...value] = entry.split(' ');
    return [name, value.join(' ')];
  });

/** The literal representations of RFC 7541, section 6.2, with the first bits of each. */
const LITERALS = { 'with indexing': 0x40, 'without indexing': 0x00, 'never indexed': 0x10 } as const;

type Literal = keyof typeof LITERALS;

/** Encodes a header block of literals with literal names, without Huffman coding. Each character is one octet. */
export function block(fields: readonly Field[], literal: Literal = 'without indexing'): Buffer {
  return Buffer.concat(
    fields.map(([name, value]) => Buffer.concat([Buffer.from([LITERALS[literal]]), text(name), text(value)])),
  );
}

/**
 * Encodes an integer as in RFC 7541, section 5.1. Values below `prefix` fit into the first octet, which starts with
 * `bits`.
 */
export function integer(bits: number, prefix: number, value: number): Buffer {
  if (value < prefix) return Buffer.from([bits | value]);
  const octets = [bits | prefix];
  let rest = value - prefix;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) octets.push((rest % 0x80) | 0x80);
  return Buffer.from([...octets, rest]);
}

/** Encodes a dynamic table size update (RFC 7541, section 6.3). */
export function tableSize(bytes: number): Buffer {
  return integer(0x20, 0x1f, bytes);
}

function text(value: string): Buffer {
  return Buffer.concat([integer(0, 0x7f, value.length), Buffer.from(value, 'latin1')]);
}

/** One representation in a header block (RFC 7541, section 6). */
export type Written =
  | { readonly kind: 'table size'; readonly bytes: number }
  | { readonly kind: 'indexed' | Literal; readonly name: string; readonly value: string; readonly octets: number };

/** Decodes a client's header blocks, and checks that the client respects the table sizes that its peer announced. */
export class BlockReader {
  #entries: Field[] = [];
  #maxBytes = 4_096;
  #allowedBytes = 4_096;
  /**
   * The smallest table size that the peer has announced since the last block, if it is smaller than the client's table.
   * The next block must begin with an update to at most this size.
   */
  #owedBytes: number | undefined;

  /** Records a table size that the peer has announced and the client has acknowledged. */
  announced(bytes: number): void {
    this.#allowedBytes = bytes;
    if (bytes < this.#maxBytes) this.#owedBytes = Math.min(bytes, this.#owedBytes ?? bytes);
  }

  /** Decodes a header block. @throws Error if the block violates RFC 7541. */
  read(bytes: Buffer): Written[] {
    const cursor = new Cursor(bytes);
    const written: Written[] = [];
    while (!cursor.done) {
      const start = cursor.at;
      const first = cursor.peek();
      if ((first & 0xe0) === 0x20) {
        if (written.some(({ kind }) => kind !== 'table size')) throw new Error('a table size update after a field');
        const size = cursor.integer(0x1f);
        if (size > this.#allowedBytes)
          throw new Error(`a table of ${size} bytes, but the limit is ${this.#allowedBytes}`);
        if (size <= (this.#owedBytes ?? -1)) this.#owedBytes = undefined;
        this.#maxBytes = size;
        this.#evict();
        written.push({ kind: 'table size', bytes: size });
        continue;
      }
      if (this.#owedBytes !== undefined)
        throw new Error(`no table size update, although the peer announced ${this.#owedBytes} bytes`);
      const kind =
        first >= 0x80
          ? 'indexed'
          : first >= 0x40
            ? 'with indexing'
            : first >= 0x10
              ? 'never indexed'
              : 'without indexing';
      const field = this.#field(cursor, kind);
      if (kind === 'with indexing') {
        this.#entries.unshift(field);
        this.#evict();
      }
      written.push({ kind, name: field[0], value: field[1], octets: cursor.at - start });
    }
    return written;
  }

  #field(cursor: Cursor, kind: 'indexed' | Literal): Field {
    if (kind === 'indexed') return this.#entry(cursor.integer(0x7f));
    const index = cursor.integer(kind === 'with indexing' ? 0x3f : 0x0f);
    const name = index === 0 ? cursor.string() : this.#entry(index)[0];
    return [name, cursor.string()];
  }

  #entry(index: number): Field {
    const field = STATIC_FIELDS[index - 1] ?? this.#entries[index - 1 - STATIC_FIELDS.length];
    if (field === undefined) throw new Error(`the tables have no index ${index}`);
    return field;
  }

  #evict(): void {
    let bytes = 0;
    const kept = this.#entries.findIndex(([name, value]) => {
      bytes += name.length + value.length + 32;
      return bytes > this.#maxBytes;
    });
    if (kept >= 0) this.#entries.length = kept;
  }
}

class Cursor {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.at >= this.#bytes.length;
  }

  peek(): number {
    return this.#bytes.readUInt8(this.at);
  }

  integer(prefix: number): number {
    let value = this.#next() & prefix;
    if (value < prefix) return value;
    for (let factor = 1; ; factor *= 0x80) {
      const octet = this.#next();
      value += (octet & 0x7f) * factor;
      if (octet < 0x80) return value;
    }
  }

  string(): string {
    const huffman = this.peek() >= 0x80;
    const length = this.integer(0x7f);
    const start = this.at;
    this.at += length;
    if (this.at > this.#bytes.length) throw new Error('a string longer than its block');
    return huffman ? decodeHuffman(this.#bytes, start, this.at) : this.#bytes.toString('latin1', start, this.at);
  }

  #next(): number {
    return this.#bytes.readUInt8(this.at++);
  }
}
