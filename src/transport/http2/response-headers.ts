import { textOf } from '../../runtime/bytes.js';
import { ErrorCode, StreamError } from './error-code.js';
import { type HeaderList, HpackDecoder } from './hpack/decoder.js';

/** Longer blocks are not worth comparing. */
const MAX_KNOWN_BYTES = 32;
/** The headers and the trailers of an answer that went well, with some to spare. */
const MAX_KNOWN = 4;

// RFC 9113, section 8.2.1, but for spaces around a value: etcd's error texts may end in one.
const FIELD_NAME = /^:?[^\0- A-Z:\x7f-\xff]+$/;
const NOT_IN_VALUE = /[\0\r\n]/;
/** Section 8.2.2: of HTTP/1.1 alone. */
const OF_HTTP_1 = /^(?:connection|proxy-connection|keep-alive|transfer-encoding|upgrade)$/;

/** What of an answer's header or trailer fields means something to gRPC. */
export interface ResponseFields {
  /** `:status`; undefined in trailers. */
  readonly httpStatus: number | undefined;
  readonly contentType: string | undefined;
  /** How many bytes of data are to come, if that was said. */
  readonly contentLength: number | undefined;
  readonly grpcStatus: number | undefined;
  readonly grpcMessage: string;
  /** Larger than SETTINGS_MAX_HEADER_LIST_SIZE allows. */
  readonly tooLarge: boolean;
  /** What makes them no valid HTTP/2 fields: RFC 9113, section 8.1.1. */
  readonly malformed: string | undefined;
}

interface KnownBlock {
  readonly version: number;
  readonly bytes: Uint8Array;
  readonly fields: ResponseFields;
}

/**
 * Reads header blocks of answers. A block that came before, and that the state of the decoder gives the same meaning, is
 * recognised by its bytes: after the first call an answer's blocks are two or three octets, and the same ones.
 */
export class ResponseHeaders {
  readonly #decoder: HpackDecoder;
  #known: KnownBlock[] = [];

  constructor(maxListBytes: number) {
    this.#decoder = new HpackDecoder(maxListBytes);
  }

  /** @throws ConnectionError on what is no header block. */
  read(bytes: Uint8Array, start: number, end: number): ResponseFields {
    const { version } = this.#decoder;
    for (const known of this.#known) {
      if (known.version === version && isSame(known.bytes, bytes, start, end)) return known.fields;
    }
    const fields = responseFields(this.#decoder.decode(bytes, start, end));
    if (this.#decoder.version === version && end - start <= MAX_KNOWN_BYTES) {
      const kept = this.#known.filter((known) => known.version === version).slice(1 - MAX_KNOWN);
      this.#known = [...kept, { version, bytes: bytes.slice(start, end), fields }];
    }
    return fields;
  }
}

/** @throws StreamError on fields that HTTP/2 does not allow there. */
export function checkFields(fields: ResponseFields, trailers: boolean): void {
  const { malformed, httpStatus } = fields;
  if (malformed !== undefined) throw new StreamError(ErrorCode.PROTOCOL_ERROR, malformed);
  if (trailers && httpStatus !== undefined) throw new StreamError(ErrorCode.PROTOCOL_ERROR, ':status in trailers');
  if (!trailers && httpStatus === undefined)
    throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'an answer without :status');
}

function isSame(known: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (known.length !== end - start) return false;
  for (let index = 0; index < known.length; index += 1) {
    if (known[index] !== bytes[start + index]) return false;
  }
  return true;
}

function responseFields({ fields, tooLarge }: HeaderList): ResponseFields {
  let httpStatus: number | undefined;
  let contentType: string | undefined;
  let contentLength: number | undefined;
  let grpcStatus: number | undefined;
  let grpcMessage = '';
  let malformed: string | undefined;
  let regular = false;
  for (const [name, value] of fields) {
    if (!FIELD_NAME.test(name)) malformed ??= 'a field name that is none';
    if (NOT_IN_VALUE.test(value)) malformed ??= 'a field value that is none';
    if (OF_HTTP_1.test(name)) malformed ??= `the field ${name}`;
    if (name.startsWith(':')) {
      if (name !== ':status' || regular || httpStatus !== undefined || !/^\d{3}$/.test(value)) {
        malformed ??= 'a pseudo-header field that does not belong there';
      }
      httpStatus = Number(value);
      continue;
    }
    regular = true;
    if (name === 'content-type') contentType = value;
    else if (name === 'grpc-status') grpcStatus = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
    else if (name === 'grpc-message') grpcMessage = percentDecoded(value);
    else if (name === 'content-length') {
      contentLength = Number(value);
      if (!/^\d{1,15}$/.test(value)) malformed ??= 'a content-length that is no number';
    }
  }
  return { httpStatus, contentType, contentLength, grpcStatus, grpcMessage, tooLarge, malformed };
}

/** `grpc-message` is UTF-8, percent-encoded; what is not encoded rightly is left as it is. */
function percentDecoded(text: string): string {
  if (!text.includes('%')) return text;
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const encoded = /^%([0-9A-Fa-f]{2})/.exec(text.slice(at, at + 3));
    bytes.push(encoded === null ? text.charCodeAt(at) : Number.parseInt(encoded[1] as string, 16));
    if (encoded !== null) at += 2;
  }
  return textOf(Uint8Array.from(bytes));
}
