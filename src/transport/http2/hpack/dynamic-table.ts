import type { HeaderField } from './static-table.js';

/** What an entry counts beside its octets: RFC 7541, section 4.1. */
const ENTRY_OVERHEAD_BYTES = 32;
/** SETTINGS_HEADER_TABLE_SIZE where it was not changed: RFC 9113, section 6.5.2. */
export const DEFAULT_TABLE_BYTES = 4_096;

export function entryBytes([name, value]: HeaderField): number {
  return name.length + value.length + ENTRY_OVERHEAD_BYTES;
}

/** The fields sent before on this connection, newest first: RFC 7541, section 2.3.2. */
export class DynamicTable {
  /** Oldest first; those before `#evicted` are gone. */
  #entries: (HeaderField | undefined)[] = [];
  #evicted = 0;
  #bytes = 0;
  #capacityBytes = DEFAULT_TABLE_BYTES;
  /** Grows with every change: what an index means holds for one version. */
  version = 0;

  get length(): number {
    return this.#entries.length - this.#evicted;
  }

  /** The entry added last has index 0. */
  get(index: number): HeaderField | undefined {
    return index < this.length ? this.#entries[this.#entries.length - 1 - index] : undefined;
  }

  add(field: HeaderField): void {
    this.version += 1;
    const bytes = entryBytes(field);
    this.#evictTo(this.#capacityBytes - bytes);
    // One that is larger than the whole table leaves it empty: section 4.4.
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
