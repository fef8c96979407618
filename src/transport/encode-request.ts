import { EtcdError, invalidInput } from '../errors.js';
import { encode, type Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/method.js';

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
