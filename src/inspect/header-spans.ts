import { STATIC_TABLE } from '../transport/http2/hpack/static-table.js';

/** How a field stands in a header block: RFC 7541, section 6. */
export type Representation =
  | { readonly kind: 'indexed'; readonly index: number; readonly table: 'static' | 'dynamic' }
  | { readonly kind: 'literal'; readonly indexing: 'incremental' | 'without' | 'never' }
  | { readonly kind: 'table size'; readonly size: number };

export interface HeaderSpan {
  /** Where it begins, and where the next one does. */
  readonly start: number;
  readonly end: number;
  readonly representation: Representation;
}

/** The representations of a whole block, in order. It is one that has been decoded: nothing is checked. */
export function* headerSpans(block: Uint8Array): Generator<HeaderSpan, void, undefined> {
  const cursor = new Cursor(block);
  while (cursor.at < block.length) {
    const start = cursor.at;
    const representation = next(cursor, block[start] as number);
    yield { start, end: cursor.at, representation };
  }
}

function next(cursor: Cursor, first: number): Representation {
  if (first >= 0x80) {
    const index = cursor.integer(0x7f);
    return { kind: 'indexed', index, table: index <= STATIC_TABLE.length ? 'static' : 'dynamic' };
  }
  if (first >= 0x40) return literal(cursor, 0x3f, 'incremental');
  if (first >= 0x20) return { kind: 'table size', size: cursor.integer(0x1f) };
  return literal(cursor, 0x0f, first >= 0x10 ? 'never' : 'without');
}

function literal(cursor: Cursor, prefix: number, indexing: 'incremental' | 'without' | 'never'): Representation {
  if (cursor.integer(prefix) === 0) cursor.skipString();
  cursor.skipString();
  return { kind: 'literal', indexing };
}

class Cursor {
  readonly #bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Section 5.1; the prefix is given as its largest value. */
  integer(prefix: number): number {
    let value = this.#byte() & prefix;
    if (value < prefix) return value;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  /** Section 5.2. */
  skipString(): void {
    const length = this.integer(0x7f);
    this.at += length;
  }

  #byte(): number {
    return this.#bytes[this.at++] ?? 0;
  }
}
