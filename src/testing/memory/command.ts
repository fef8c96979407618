import { textOf } from '../../base/index.js';

/** Name of the user that makes a call. Undefined if the call has no token, or if authentication is disabled. */
export type Caller = string | undefined;

/** A write in raft's log. Everything that must be the same at all members is in the command, such as random numbers. */
export interface Command {
  /** The name with which the write was defined: see `Proposals.define`. */
  readonly name: string;
  readonly request: unknown;
  readonly caller: Caller;
  /** The revision of the users when the member that received the request checked the token of the caller. */
  readonly authRevision: bigint;
}

/** What a write needs to know of its entry in raft's log. */
export interface AppliedEntry extends Pick<Command, 'caller' | 'authRevision'> {
  readonly index: bigint;
  /** Whether a call at this member waits for the result. */
  readonly isAwaited: boolean;
}

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
