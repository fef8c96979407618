import { amended, EtcdError, invalidInput, readError } from '../base/index.js';
import { decode } from './protobuf/reader.js';
import type { Method } from './protobuf/schema.js';
import { encode, type Init } from './protobuf/writer.js';
import type { Metadata } from './transport.js';

/**
 * Encodes a request.
 *
 * @throws EtcdError with reason `InvalidInput` if a value does not fit the type of its field, or if the request is
 * longer than `maxRequestBytes`.
 */
export function encodeRequest<Request>(
  method: Method<Request, unknown>,
  request: Init<Request>,
  maxRequestBytes: number,
): Uint8Array {
  let bytes: Uint8Array;
  try {
    bytes = encode(method.request, request);
  } catch (cause) {
    throw new EtcdError(`${method.request.typeName}: ${readError(cause)?.message ?? 'not encodable'}`, {
      code: 'InvalidArgument',
      reason: 'InvalidInput',
      outcome: 'not-sent',
      method: method.path,
      cause,
    });
  }
  if (bytes.length <= maxRequestBytes) return bytes;
  const allowed = `at most ${maxRequestBytes} bytes (option maxRequestBytes of the client, --max-request-bytes of the server)`;
  throw invalidInput(method.request.typeName, `${bytes.length} bytes`, allowed);
}

/**
 * Decodes a response. The response is the part of `bytes` from `start` to `end`.
 *
 * @throws EtcdError with reason `MalformedMessage` if the bytes are not a valid message.
 */
export function decodeResponse<Request, Response>(
  method: Method<Request, Response>,
  endpoint: string,
  bytes: Uint8Array,
  start?: number,
  end?: number,
): Response {
  try {
    return decode(method.response, bytes, start, end);
  } catch (malformed) {
    throw amended(malformed as EtcdError, { method: method.path, endpoint });
  }
}

export function responseTooLarge(
  bytes: number | string,
  allowed: number,
  { method, endpoint }: { readonly method: string; readonly endpoint: string },
): EtcdError {
  const size = typeof bytes === 'number' ? `${bytes} bytes` : bytes;
  const toDo = method.endsWith('/Range') ? '; use scan, which reads the keys in pages, or a limit' : '';
  return new EtcdError(`the response has ${size}; allowed: at most ${allowed} bytes (option maxReceiveBytes)${toDo}`, {
    code: 'ResourceExhausted',
    reason: 'ResponseTooLarge',
    outcome: 'unknown',
    method,
    endpoint,
  });
}

/**
 * Whether all values are printable ASCII. The gRPC transports refuse metadata with other characters, because a line
 * break in a value could inject another header.
 */
export function isPrintable(metadata: Metadata | undefined): boolean {
  for (const name in metadata) {
    if (!/^[\x20-\x7e]*$/.test(metadata[name] as string)) return false;
  }
  return true;
}

/**
 * @throws EtcdError with reason `Other` unless all values are printable ASCII. The error does not show the values,
 * because a value may be a token.
 */
export function checkMetadata(metadata: Metadata | undefined, method: string): void {
  if (isPrintable(metadata)) return;
  throw new EtcdError('the metadata contains characters other than printable ASCII', {
    code: 'Internal',
    reason: 'Other',
    outcome: 'not-sent',
    method,
  });
}
