import { textOf } from '../../runtime/bytes.js';
import type { Command } from './command.js';

/** Returns a short text that says what a command does, such as `put color` or `leaseGrant 7`. */
export function describeCommand({ name, request }: Command): string {
  const method = name.slice(name.lastIndexOf('/') + 1);
  const verb = method.charAt(0).toLowerCase() + method.slice(1);
  const { key, id, success } = request as { key?: unknown; id?: unknown; success?: unknown };
  if (key instanceof Uint8Array) return `${verb} ${textOf(key)}`;
  // Programs show the IDs of leases and members in hexadecimal, as etcdctl does.
  if (typeof id === 'bigint') return `${verb} ${id.toString(16)}`;
  return success === undefined ? verb : `${verb} ${keysOf(success)}`.trimEnd();
}

/** Returns the keys of the operations of a transaction, if its conditions hold. */
function keysOf(operations: unknown): string {
  const keys = (operations as { request?: { value: { key?: Uint8Array } } }[]).map(({ request }) => request?.value.key);
  return keys.flatMap((key) => (key === undefined ? [] : textOf(key))).join(', ');
}
