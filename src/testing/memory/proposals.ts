import { type Codec, encode, type Init } from '../../protobuf/codec.js';
import type { Caller } from './auth.js';
import type { Member } from './member.js';
import { serverError } from './service.js';

/** Length in bytes of a field tag below 16. */
const SHORT_TAG_BYTES = 1;
/** Length in bytes of the tag of the field `header` of `InternalRaftRequest`, whose number is 100. */
const HEADER_TAG_BYTES = 2;

/**
 * Stands in for raft: checks the size that the entry of a request would have in raft's log, and increases
 * `Member.raftIndex`. etcd sends every write through raft before it checks whether the write fails. The entry contains
 * the name of the caller.
 *
 * @throws StatusError with `RequestTooLarge` if the entry in raft's log would be longer than `--max-request-bytes`.
 */
export function propose<Request>(member: Member, codec: Codec<Request>, request: Init<Request>, caller?: Caller): void {
  const header = SHORT_TAG_BYTES + varintBytes(requestId(member)) + callerBytes(member, caller);
  const body = encode(codec, request).length;
  const entry = HEADER_TAG_BYTES + delimited(header) + SHORT_TAG_BYTES + delimited(body);
  if (entry > member.settings.maxRequestBytes) throw serverError('RequestTooLarge');
  member.raftIndex += 1n;
}

/** The length in bytes of the fields with the name of the caller and the revision of the users. */
function callerBytes({ auth }: Member, caller: Caller): number {
  if (caller === undefined) return 0;
  const name = new TextEncoder().encode(caller).length;
  return SHORT_TAG_BYTES + delimited(name) + SHORT_TAG_BYTES + varintBytes(auth.store.revision);
}

/**
 * Returns an ID that takes as many bytes as the IDs that etcd gives to its requests. The upper 16 bits are the low 16
 * bits of the member ID: `pkg/idutil/id.go`.
 */
function requestId({ memberId }: Member): bigint {
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
