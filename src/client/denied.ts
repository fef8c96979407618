import { amended, EtcdError, hexOf, isBytes, NO_BYTES, plain, textOf } from '../base/index.js';
import type { Transport } from '../wire/index.js';
import { hasNoEnd, prefixEnd, type WireRange } from './kv/keys.js';

/** Maximum number of ranges, and of characters of a key, in the text of an error. */
const [MAX_RANGES, MAX_KEY] = [3, 200];

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
  const asked = [...rangesIn(request)].filter((range) => !range.startsWith(guardPrefix, range.indexOf('"') + 1));
  const ranges = [...new Set(asked)];
  const more = ranges.length > MAX_RANGES ? ` and ${ranges.length - MAX_RANGES} more` : '';
  const to = user === undefined ? '' : ` to the user ${JSON.stringify(user)}`;
  const on = ranges.length === 0 ? '' : ` for ${ranges.slice(0, MAX_RANGES).join(', ')}${more}`;
  return amended(error, {}, `${error.problem}${to}${on}`);
}

/** Yields descriptions of the ranges in a request, and in the operations and the conditions of a transaction. */
function* rangesIn(message: unknown): Generator<string> {
  if (typeof message !== 'object' || message === null || isBytes(message)) return;
  const { key, rangeEnd = NO_BYTES } = message as Partial<WireRange>;
  if (isBytes(key) && isBytes(rangeEnd)) yield rangeText({ key, rangeEnd });
  for (const field of Object.values(message)) yield* rangesIn(field);
}

function rangeText(range: WireRange): string {
  const { key, rangeEnd } = range;
  if (rangeEnd.length === 0) return `the key ${quoted(key)}`;
  if (hexOf(rangeEnd) === hexOf(prefixEnd(key))) return `the prefix ${quoted(key)}`;
  return `the keys from ${quoted(key)}${hasNoEnd(range) ? '' : ` to ${quoted(rangeEnd)}`}`;
}

function quoted(key: Uint8Array): string {
  return JSON.stringify(textOf(plain(key)).slice(0, MAX_KEY));
}
