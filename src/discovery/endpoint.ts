import { invalidInput } from '../errors/etcd-error.js';
import { show } from '../runtime/arguments.js';
import { textOf } from '../runtime/bytes.js';

/** Where one instance of a service is reached. */
export interface Endpoint {
  /** As a client dials it, "host:port" for one. */
  readonly address: string;
  /** Anything that JSON holds. */
  readonly metadata?: unknown;
}

/** Go's `Add`, the only operation that stands in a value. */
const OP_ADD = 0;

/** As Go writes it: `{"Op":0,"Addr":…,"Metadata":…}`. @throws EtcdError, reason `InvalidInput`. */
export function encodeEndpoint(endpoint: Endpoint): string {
  if (typeof endpoint !== 'object' || endpoint === null)
    throw invalidInput('endpoint', show(endpoint), '{ address, metadata }');
  const { address, metadata } = endpoint;
  if (typeof address !== 'string' || address === '')
    throw invalidInput('endpoint.address', show(address), 'a string, not empty');
  const allowed = 'anything that JSON holds';
  if (typeof metadata === 'function' || typeof metadata === 'symbol')
    throw invalidInput('endpoint.metadata', show(metadata), allowed);
  try {
    return JSON.stringify({ Op: OP_ADD, Addr: address, Metadata: metadata ?? null });
  } catch {
    throw invalidInput('endpoint.metadata', 'a value that JSON cannot hold', allowed);
  }
}

/** Undefined where it is no endpoint. */
export function decodeEndpoint(value: Uint8Array): Endpoint | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(textOf(value));
  } catch {
    return undefined;
  }
  if (typeof parsed !== 'object' || parsed === null || !('Addr' in parsed) || typeof parsed.Addr !== 'string')
    return undefined;
  const metadata = 'Metadata' in parsed ? parsed.Metadata : undefined;
  return metadata === undefined || metadata === null ? { address: parsed.Addr } : { address: parsed.Addr, metadata };
}
