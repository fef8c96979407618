import { amended, EtcdError, isBytes, NO_BYTES, textOf } from '../base/index.js';
import type { Transport } from '../wire/index.js';
import { hasNoEnd, prefixEnd, type WireRange } from './kv/keys.js';

/** Maximum number of ranges in the text of an error. */
const MAX_RANGES = 3;

/** Adds what a request has asked for to an error with reason `PermissionDenied`. */
export type Denied = (error: EtcdError, request: unknown) => EtcdError;

/** Returns a transport that makes the same calls, and adds to their errors what they have asked for. */
export function withDenied(inner: Transport, denied: Denied): Transport {
  return {
    unary: async (call) => {
      try {
        return await inner.unary(call);
      } catch (error) {
        const isDenied = error instanceof EtcdError && error.reason === 'PermissionDenied';
        throw isDenied ? denied(error, call.request) : error;
      }
    },
    stream: (call, handler) => inner.stream(call, handler),
    close: () => inner.close(),
  };
}

/**
 * Adds the user and the keys of the request to an error with reason `PermissionDenied`, because the server names
 * neither. Leaves out the guards, which begin with `guardPrefix`: the text would show keys that the caller does not
 * know. `user` is undefined if the client does not know its name, for example because a certificate contains it.
 */
export function naming(error: EtcdError, request: unknown, user: string | undefined, guardPrefix: string): EtcdError {
  const found = new Set<string>();
  const visit = (message: unknown): void => {
    if (typeof message !== 'object' || message === null || isBytes(message)) return;
    const { key, rangeEnd } = message as Partial<WireRange>;
    if (isBytes(key) && !textOf(key).startsWith(guardPrefix)) found.add(rangeText(key, rangeEnd));
    Object.values(message).forEach(visit);
  };
  visit(request);
  const names = [...found];
  const more = names.length > MAX_RANGES ? ` and ${names.length - MAX_RANGES} more` : '';
  const to = user === undefined ? '' : ` to the user ${JSON.stringify(user)}`;
  const on = names.length === 0 ? '' : ` for ${names.slice(0, MAX_RANGES).join(', ')}${more}`;
  return amended(error, {}, error.problem + to + on);
}

function rangeText(key: Uint8Array, rangeEnd = NO_BYTES): string {
  const [first, end, endOfPrefix] = [key, rangeEnd, prefixEnd(key)].map((bytes) => JSON.stringify(textOf(bytes)));
  if (rangeEnd.length === 0) return `the key ${first}`;
  if (end === endOfPrefix) return `the prefix ${first}`;
  return `the keys from ${first}${hasNoEnd({ key, rangeEnd }) ? '' : ` to ${end}`}`;
}
