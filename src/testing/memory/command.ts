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
}
