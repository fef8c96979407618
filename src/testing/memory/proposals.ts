import { type Codec, encode, type Init } from '../../wire/index.js';
import type { AppliedEntry, Caller, Command } from './command.js';
import type { Consensus } from './consensus.js';
import { serverError } from './service.js';
import type { MemberSettings } from './settings.js';

// etcd sends every write through raft before it checks whether the write fails. So a handler first checks what etcd
// checks when it receives a request. Then it proposes the request, and each member applies it: `Proposals.define`.

/** Length in bytes of a field tag below 16. */
const SHORT_TAG_BYTES = 1;
/** Length in bytes of the tag of the field `header` of `InternalRaftRequest`, whose number is 100. */
const HEADER_TAG_BYTES = 2;

/** The part of a `Member` that proposals need. */
interface Host {
  readonly memberId: bigint;
  readonly settings: Pick<MemberSettings, 'maxRequestBytes'>;
  readonly auth: { readonly store: { readonly revision: bigint } };
  readonly consensus: Consensus;
}

/** Carries out a write at one member. Members with the same state must get the same new state. */
type Apply<Request, Result> = (request: Request, entry: AppliedEntry) => Result;

/**
 * Proposes a write. Returns the result at this member: a promise, unless the member is alone and so applies the write
 * at once.
 *
 * @throws StatusError with `RequestTooLarge` if the entry in raft's log would be longer than `--max-request-bytes`.
 */
export type Propose<Request, Result> = (request: Request, caller?: Caller) => Result | Promise<Result>;

/** The writes of a member. */
export class Proposals {
  readonly #member: Host;
  readonly #applies = new Map<string, Apply<unknown, unknown>>();

  constructor(member: Host) {
    this.#member = member;
  }

  /** Defines a write. `codec` encodes the request in the entry. */
  define<Request, Result>(
    name: string,
    codec: Codec<Request>,
    apply: Apply<Request, Result>,
  ): Propose<Request, Result> {
    this.#applies.set(name, apply as Apply<unknown, unknown>);
    return (request, caller) => {
      checkEntrySize(this.#member, codec, request as Init<Request>, caller);
      const { revision: authRevision } = this.#member.auth.store;
      return this.#member.consensus.propose({ name, request, caller, authRevision }) as Result | Promise<Result>;
    };
  }

  /**
   * Carries out a committed write. `isAwaited` tells whether a call at this member waits for the result.
   *
   * @throws StatusError if the write fails.
   */
  apply({ name, request, caller, authRevision }: Command, index: bigint, isAwaited: boolean): unknown {
    const apply = this.#applies.get(name);
    if (apply === undefined) throw new Error(`no write has the name ${name}`);
    return apply(request, { caller, authRevision, index, isAwaited });
  }
}

/** @throws StatusError with `RequestTooLarge` if the entry of a request would be longer than `--max-request-bytes`. */
function checkEntrySize<Request>(member: Host, codec: Codec<Request>, request: Init<Request>, caller: Caller): void {
  const header = SHORT_TAG_BYTES + varintBytes(requestId(member)) + callerBytes(member, caller);
  const body = encode(codec, request).length;
  const entry = HEADER_TAG_BYTES + delimited(header) + SHORT_TAG_BYTES + delimited(body);
  if (entry > member.settings.maxRequestBytes) throw serverError('RequestTooLarge');
}

/** The length in bytes of the fields with the name of the caller and the revision of the users. */
function callerBytes({ auth }: Host, caller: Caller): number {
  if (caller === undefined) return 0;
  const name = new TextEncoder().encode(caller).length;
  return SHORT_TAG_BYTES + delimited(name) + SHORT_TAG_BYTES + varintBytes(auth.store.revision);
}

/**
 * Returns an ID that takes as many bytes as the IDs that etcd gives to its requests. The upper 16 bits are the low 16
 * bits of the member ID: `pkg/idutil/id.go`.
 */
function requestId({ memberId }: Host): bigint {
  return ((memberId & 0xffffn) << 48n) | (1n << 47n);
}

/** The length in bytes of a message, plus that of the varint which precedes it. */
function delimited(length: number): number {
  return varintBytes(BigInt(length)) + length;
}

function varintBytes(value: bigint): number {
  let bytes = 1;
  for (let rest = value >> 7n; rest > 0n; rest >>= 7n) bytes += 1;
  return bytes;
}
