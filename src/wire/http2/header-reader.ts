import { type HeaderList, HpackDecoder } from './hpack.js';

const MAX_CACHED_BYTES = 32;
/** Maximum number of cached header blocks: the headers and the trailers of a successful response, and two more. */
const MAX_CACHED_BLOCKS = 4;

// The next two patterns follow RFC 9113, section 8.2.1, with one exception: a value may begin or end with a space,
// because error messages of etcd may do so.
const FIELD_NAME = /^:?[^\0- A-Z:\x7f-\xff]+$/;
const NOT_IN_VALUE = /[\0\r\n]/;
/** Fields that HTTP/2 forbids: RFC 9113, section 8.2.2. */
const CONNECTION_SPECIFIC = /^(?:connection|proxy-connection|keep-alive|transfer-encoding|upgrade)$/;

interface CachedBlock<Fields> {
  /** The version of the decoder's dynamic table at which the block decodes to these fields. */
  readonly version: number;
  readonly bytes: Uint8Array;
  readonly fields: Fields;
}

/**
 * Reads the header blocks of a connection. After the first call, the blocks of successful responses are the same two or
 * three octets, and many requests to the same method have equal blocks. The reader recognizes the latest short blocks
 * by their bytes and does not decode them again.
 */
export class HeaderReader<Fields> {
  readonly #decoder: HpackDecoder;
  readonly #interpret: (list: HeaderList) => Fields;
  /** The cached blocks, newest first. A block of an older version of the table no longer matches. */
  #cached: readonly CachedBlock<Fields>[] = [];

  /**
   * `maxListBytes` limits the size of a header list, as SETTINGS_MAX_HEADER_LIST_SIZE does. `interpret` picks the
   * fields that the connection needs. The caller of `read` must not change the result, because the reader may return
   * the same object again.
   */
  constructor(maxListBytes: number, interpret: (list: HeaderList) => Fields) {
    this.#decoder = new HpackDecoder(maxListBytes);
    this.#interpret = interpret;
  }

  /** Decodes a header block. @throws ConnectionError on bytes that are not a valid header block. */
  read(bytes: Uint8Array, start: number, end: number): Fields {
    const { version } = this.#decoder;
    for (const cached of this.#cached) {
      if (version === cached.version && isSame(cached.bytes, bytes, start, end)) return cached.fields;
    }
    const fields = this.#interpret(this.#decoder.decode(bytes, start, end));
    if (version === this.#decoder.version && end - start <= MAX_CACHED_BYTES) {
      const cached = { version, bytes: bytes.slice(start, end), fields };
      this.#cached = [cached, ...this.#cached.slice(0, MAX_CACHED_BLOCKS - 1)];
    }
    return fields;
  }
}

function isSame(cached: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (cached.length !== end - start) return false;
  for (let index = 0; index < cached.length; index += 1) {
    if (cached[index] !== bytes[start + index]) return false;
  }
  return true;
}

/** Returns why a field is malformed, or undefined if it is well-formed: RFC 9113, sections 8.2.1 and 8.2.2. */
export function problemOfField(name: string, value: string): string | undefined {
  if (!FIELD_NAME.test(name)) return 'an invalid field name';
  if (NOT_IN_VALUE.test(value)) return 'an invalid field value';
  return CONNECTION_SPECIFIC.test(name) ? `the field ${name}` : undefined;
}
