import { STATUS_CODES, type StatusCode } from '../../base/index.js';
import { entryBytes, type FixedFields, fixedFields, type HeaderField, type Metadata } from '../../wire/index.js';

// The fields of headers and trailers except `grpc-message`. This file creates one list for each possible combination, so
// that the encoder can keep the encoded fields of a list.

function fieldsOf(httpStatus: number | undefined, code?: StatusCode): FixedFields {
  const fields: HeaderField[] = [];
  if (httpStatus !== undefined) fields.push([':status', `${httpStatus}`], ['content-type', 'application/grpc']);
  if (code !== undefined) fields.push(['grpc-status', `${STATUS_CODES.indexOf(code)}`]);
  return fixedFields(fields);
}

/** The headers before the first message. */
export const HEADERS: FixedFields = fieldsOf(200);
const TRAILERS: ReadonlyMap<StatusCode, FixedFields> = fieldsByStatus(undefined);
const TRAILERS_ONLY: ReadonlyMap<StatusCode, FixedFields> = fieldsByStatus(200);

/** The headers of responses to requests that are not valid gRPC requests. */
export const BAD_REQUEST: FixedFields = fieldsOf(400, 'Internal');
export const METHOD_NOT_ALLOWED: FixedFields = fieldsOf(405, 'Internal');
export const UNSUPPORTED_MEDIA_TYPE: FixedFields = fieldsOf(415, 'InvalidArgument');

function fieldsByStatus(httpStatus: number | undefined): ReadonlyMap<StatusCode, FixedFields> {
  return new Map(STATUS_CODES.map((code) => [code, fieldsOf(httpStatus, code)]));
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
