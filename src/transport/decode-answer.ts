import { amended, type EtcdError } from '../errors.js';
import { decode } from '../protobuf/codec.js';
import type { Method } from '../protobuf/method.js';

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
