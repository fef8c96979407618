import { STATUS_CODES, type StatusCode } from '../../base/index.js';
import { entryBytes, type HeaderField, type HeaderWriter, HpackEncoder, type Metadata } from '../../wire/index.js';

/** A cached header block. */
interface Block {
  /** The version of the encoder's dynamic table for which `bytes` is valid. */
  readonly version: number;
  /** The encoded fields. */
  readonly bytes: Uint8Array;
}

/** Encodes the headers and trailers of responses. */
export class ResponseHeaders implements HeaderWriter {
  readonly #encoder = new HpackEncoder();
  readonly #blocks = new Map<FixedFields, Block>();

  resizeTable(bytes: number): void {
    this.#encoder.resize(bytes);
  }

  /**
   * Returns the encoded fields. The caller must send them, because otherwise the peer's dynamic table would no longer
   * equal the encoder's.
   */
  block(fixed: FixedFields): Uint8Array {
    const cached = this.#blocks.get(fixed);
    const { version } = this.#encoder;
    if (cached?.version === version) return cached.bytes;
    const bytes = this.#encoder.encode(fixed.fields);
    if (version === this.#encoder.version) this.#blocks.set(fixed, { version, bytes });
    return bytes;
  }
}

/**
 * The fields of headers or trailers except `grpc-message`. This file creates one object for each possible list of
 * fields, so `ResponseHeaders` can cache the encoded fields by the object.
 */
export interface FixedFields {
  readonly fields: readonly HeaderField[];
  /** The size of the fields, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  readonly listBytes: number;
}

function fixedFields(httpStatus: number | undefined, code?: StatusCode): FixedFields {
  const fields: HeaderField[] = [];
  if (httpStatus !== undefined) fields.push([':status', `${httpStatus}`], ['content-type', 'application/grpc']);
  if (code !== undefined) fields.push(['grpc-status', `${STATUS_CODES.indexOf(code)}`]);
  return { fields, listBytes: fields.reduce((sum, field) => sum + entryBytes(field), 0) };
}

/** The headers before the first message. */
export const HEADERS: FixedFields = fixedFields(200);
const TRAILERS: ReadonlyMap<StatusCode, FixedFields> = fieldsByStatus(undefined);
const TRAILERS_ONLY: ReadonlyMap<StatusCode, FixedFields> = fieldsByStatus(200);

/** The headers of responses to requests that are not valid gRPC requests. */
export const BAD_REQUEST: FixedFields = fixedFields(400, 'Internal');
export const METHOD_NOT_ALLOWED: FixedFields = fixedFields(405, 'Internal');
export const UNSUPPORTED_MEDIA_TYPE: FixedFields = fixedFields(415, 'InvalidArgument');

function fieldsByStatus(httpStatus: number | undefined): ReadonlyMap<StatusCode, FixedFields> {
  return new Map(STATUS_CODES.map((code) => [code, fixedFields(httpStatus, code)]));
}

/** Returns the fields of the trailers. If the server has sent no headers, they include the fields of the headers. */
export function trailers(code: StatusCode, hasHeaders: boolean): FixedFields {
  return (hasHeaders ? TRAILERS : TRAILERS_ONLY).get(code) as FixedFields;
}

const NO_MESSAGE: Metadata = { 'grpc-message': '' };

/** Returns the size of a `grpc-message` field, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
export function messageBytes(field: Metadata): number {
  return entryBytes(['grpc-message', field['grpc-message'] ?? '']);
}

/**
 * Returns the field that carries the status message, as percent-encoded UTF-8. grpc-go sends it even if it is empty.
 */
export function messageField(message: string): Metadata {
  if (message === '') return NO_MESSAGE;
  // Printable ASCII stays as it is, except the percent sign.
  const encoded = message.replace(/[^\x20-\x24\x26-\x7e]+/g, percentEncoded);
  return { 'grpc-message': encoded };
}

const encoder = new TextEncoder();

function percentEncoded(text: string): string {
  return Array.from(encoder.encode(text), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
