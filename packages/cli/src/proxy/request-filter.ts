import { allMethods, toBytes } from '../../../../src/internal.js';
import { explain } from '../inspect/index.js';

/** The names by which a user may name an RPC. */
const RPC_NAMES: ReadonlySet<string> = new Set(allMethods.flatMap(({ path }) => rpcNamesOf(path)));
/** What an error says about the names of RPCs. */
export const ALLOWED_RPCS = 'names such as Put or KV/Put; see etcdwire list';

/** Returns the first name that is not the name of an RPC. */
export function unknownRpc(names: readonly string[]): string | undefined {
  return names.find((name) => !RPC_NAMES.has(name));
}

/** Returns the names of an RPC: `Put`, `KV/Put` and `etcdserverpb.KV/Put`. */
function rpcNamesOf(path: string): readonly string[] {
  const full = path.slice(1);
  return [full.slice(full.indexOf('/') + 1), full.slice(full.indexOf('.') + 1), full];
}

/** Chooses requests by their RPC and by the beginning of their keys. */
export class RequestFilter {
  /** Whether all requests fit. */
  readonly isEmpty: boolean;
  readonly #rpcs: readonly string[];
  readonly #prefix: Uint8Array;

  /** With no `rpcs`, requests of all RPCs fit. With an empty `prefix`, requests with any keys, or with none, fit. */
  constructor(rpcs: readonly string[], prefix: string) {
    this.#rpcs = rpcs;
    this.#prefix = toBytes(prefix, 'prefix');
    this.isEmpty = rpcs.length === 0 && prefix === '';
  }

  /** `path` and `typeName` are those of the request. */
  fits(path: string, typeName: string, message: Uint8Array): boolean {
    if (this.#rpcs.length > 0) {
      const names = rpcNamesOf(path);
      if (!this.#rpcs.some((rpc) => names.includes(rpc))) return false;
    }
    if (this.#prefix.length === 0) return true;
    return keysIn(typeName, message).some((key) => this.#prefix.every((byte, index) => key[index] === byte));
  }
}

/** Fields that contain a key or the name of a lock or an election. */
const KEY_FIELDS: ReadonlySet<string> = new Set(['key', 'name']);

/** Returns the keys in a request, also in its operations. */
function keysIn(typeName: string, message: Uint8Array): readonly Uint8Array[] {
  const keys: Uint8Array[] = [];
  try {
    for (const { part, field, start, end } of explain(typeName, message))
      if (part === 'value' && field !== undefined && KEY_FIELDS.has(field.name))
        keys.push(message.subarray(start, end));
  } catch {
    // The server refuses a malformed request.
  }
  return keys;
}
