import { amended, EtcdError, invalidInput } from '../errors/etcd-error.js';
import { decode, encode, type Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';

/** @throws EtcdError, reason `InvalidInput`, on a value that its field's type cannot hold, and on too long a request. */
export function encodeRequest<Request>(
  method: Method<Request, unknown>,
  request: Init<Request>,
  maxRequestBytes: number,
): Uint8Array {
  const bytes = encodeOrRefuse(method, request);
  if (bytes.length <= maxRequestBytes) return bytes;
  throw invalidInput(
    method.request.typeName,
    `${bytes.length} bytes`,
    `at most ${maxRequestBytes} (maxRequestBytes, the server's --max-request-bytes)`,
  );
}

function encodeOrRefuse<Request>(method: Method<Request, unknown>, request: Init<Request>): Uint8Array {
  try {
    return encode(method.request, request);
  } catch (cause) {
    throw new EtcdError(`${method.request.typeName}: ${cause instanceof Error ? cause.message : 'not encodable'}`, {
      code: 'InvalidArgument',
      reason: 'InvalidInput',
      outcome: 'not-sent',
      method: method.path,
      cause,
    });
  }
}

/** @throws EtcdError, reason `MalformedMessage`, on bytes that are no answer of the method. */
export function decodeAnswer<Request, Response>(
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

/** A response longer than this side takes. */
export function responseTooLarge(
  bytes: number | string,
  allowed: number,
  { method, endpoint }: { readonly method: string; readonly endpoint: string },
): EtcdError {
  return new EtcdError(
    `a response of ${typeof bytes === 'number' ? `${bytes} bytes` : bytes}; at most ${allowed} are taken (maxReceiveBytes)`,
    {
      code: 'ResourceExhausted',
      reason: 'ResponseTooLarge',
      outcome: 'unknown',
      method,
      endpoint,
    },
  );
}
