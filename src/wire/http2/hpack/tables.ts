/** A header field: RFC 9110, section 5. Each character stands for one octet, even if it is not an ASCII character. */
export type HeaderField = readonly [name: string, value: string];

/** The number of bytes by which an entry's size exceeds the length of its name and value: RFC 7541, section 4.1. */
const ENTRY_OVERHEAD_BYTES = 32;
/** The initial SETTINGS_HEADER_TABLE_SIZE. RFC 9113, section 6.5.2. */
export const DEFAULT_TABLE_BYTES = 4_096;

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

  /** Returns the entry with the given index, or undefined if there is none. The newest entry has index 0. */
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
