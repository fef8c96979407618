import { amended, compareBytes, EtcdError, idOf, isBytes, NO_BYTES, textOf } from '../base/index.js';
import type { Transport } from '../wire/index.js';
import { hasNoEnd, prefixEnd, type WireRange } from './kv/keys.js';

const KV = /\.KV\//;
/** Maximum number of ranges in the text of an error. */
const MAX_RANGES = 3;
/** Maximum number of bytes of each key in the text. */
const MAX_KEY_BYTES = 200;

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
        // The key in a request of another service is not what was denied.
        throw isDenied ? denied(error, KV.test(call.method.path) ? call.request : undefined) : error;
      }
    },
    stream: (call, handler) => inner.stream(call, handler),
    close: () => inner.close(),
  };
}

/**
 * Adds the user and the keys of the request to an error with reason `PermissionDenied`, because the server names
 * neither. Leaves out the guards, whose keys contain `guardPrefix`, after the prefix of a namespace: the text would show
 * keys that the caller does not know. `user` is undefined if the client does not know its name, for example because a
 * certificate contains it.
 */
export function naming(error: EtcdError, request: unknown, user: string | undefined, guardPrefix: string): EtcdError {
  const found = new Map<string, WireRange>();
  const visit = (message: unknown): void => {
    if (typeof message !== 'object' || message === null || isBytes(message)) return;
    const { key, rangeEnd = NO_BYTES } = message as Partial<WireRange>;
    if (isBytes(key) && !textOf(key).includes(guardPrefix))
      found.set(`${idOf(key)} ${idOf(rangeEnd)}`, { key, rangeEnd });
    Object.values(message).forEach(visit);
  };
  visit(request);
  const names = [...found.values()].slice(0, MAX_RANGES).map(rangeText);
  const more = found.size > MAX_RANGES ? ` and ${found.size - MAX_RANGES} more` : '';
  const to = user === undefined ? '' : ` to the user ${JSON.stringify(user)}`;
  const on = names.length === 0 ? '' : ` for ${names.join(', ')}${more}`;
  return amended(error, {}, `${error.problem}${to}${on}`);
}

function rangeText(range: WireRange): string {
  const first = quoted(range.key);
  const end = range.rangeEnd;
  if (end.length === 0) return `the key ${first}`;
  if (compareBytes(end, prefixEnd(range.key)) === 0) return `the prefix ${first}`;
  return `the keys from ${first}${hasNoEnd(range) ? '' : ` to ${quoted(end)}`}`;
}

function quoted(key: Uint8Array): string {
  return JSON.stringify(textOf(key.subarray(0, MAX_KEY_BYTES)));
}
