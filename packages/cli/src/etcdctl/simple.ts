import {
  hexOf,
  type KeyValueMessage,
  prefix as keysWithPrefix,
  PermissionType,
  type pb,
} from '../../../../src/internal.js';
import { hexId, leaseHex } from '../output-base.js';
import { memberSettings } from '../rows.js';
import type { WatchedEvents } from './go-json.js';

/** What a format needs besides the response. */
export interface Details {
  readonly isHex?: boolean;
  /** Whether to leave out the keys. */
  readonly valueOnly?: boolean;
  /** Whether the user asked for the keys of a lease. */
  readonly keys?: boolean;
  /** The name of a role or of a new member. */
  readonly name?: string;
  /** The range of a permission. */
  readonly range?: { readonly key: Uint8Array; readonly rangeEnd: Uint8Array };
}

export type Part = string | Uint8Array;
/** Returns the parts of the output. Keys and values are bytes, which etcdctl prints unchanged. */
type Simple<T> = (response: T, details: Details) => readonly Part[];

function bytesOf(bytes: Uint8Array, { isHex }: Details): Part {
  return isHex ? hexOf(bytes).replace(/../g, '\\x$&') : bytes;
}

function keyParts({ key, value }: KeyValueMessage, details: Details): Part[] {
  return [...(details.valueOnly ? [] : [bytesOf(key, details), '\n']), bytesOf(value, details), '\n'];
}

const get: Simple<pb.RangeResponse> = ({ kvs }, details) => kvs.flatMap((kv) => keyParts(kv, details));

const put: Simple<pb.PutResponse> = ({ prevKv }, details) => [
  'OK\n',
  ...(prevKv === undefined ? [] : keyParts(prevKv, details)),
];

const del: Simple<pb.DeleteRangeResponse> = ({ deleted, prevKvs }, details) => [
  `${deleted}\n`,
  ...prevKvs.flatMap((kv) => keyParts(kv, details)),
];

const txn: Simple<pb.TxnResponse> = ({ succeeded, responses }, details) => [
  succeeded ? 'SUCCESS\n' : 'FAILURE\n',
  ...responses.flatMap(({ response }) => {
    if (response?.case === 'responseRange') return ['\n', ...get(response.value, details)];
    if (response?.case === 'responsePut') return ['\n', ...put(response.value, details)];
    return response?.case === 'responseDeleteRange' ? ['\n', ...del(response.value, details)] : ['\n'];
  }),
];

export const watchParts: Simple<WatchedEvents> = ({ events }, details) =>
  events.flatMap(({ type, kv, prevKv }) => [
    type === 0 ? 'PUT\n' : 'DELETE\n',
    ...(prevKv === undefined ? [] : keyParts(prevKv, details)),
    ...keyParts(kv, details),
  ]);

const timeToLive: Simple<pb.LeaseTimeToLiveResponse> = ({ id, ttl, grantedTtl, keys }, details) => {
  if (grantedTtl === 0n && ttl === -1n) return [`lease ${leaseHex(id)} already expired\n`];
  const attached = keys.flatMap((key, index) => [index === 0 ? '' : ' ', key]);
  return [
    `lease ${leaseHex(id)} granted with TTL(${grantedTtl}s), remaining(${ttl}s)`,
    ...(details.keys ? [', attached keys([', ...attached, '])'] : []),
    '\n',
  ];
};

/** The ID of a member is padded with spaces here, unlike in other places. */
function paddedId(id: bigint): string {
  return hexId(id).padStart(16);
}

const memberAdd: Simple<pb.MemberAddResponse> = (response, { name = '' }) => {
  const { header, member } = response;
  const how = member?.isLearner ? ' as learner ' : ' ';
  return [
    `Member ${paddedId(member?.id ?? 0n)} added${how}to cluster ${paddedId(header?.clusterId ?? 0n)}\n\n`,
    ...memberSettings(name, response).map((line) => `${line}\n`),
  ];
};

const role: Simple<pb.AuthRoleGetResponse> = (response, { name = '' }) => {
  if (name === 'root' && response.perm.length === 0)
    return [`Role ${name}\nKV Read:\n\t[, <open ended>\nKV Write:\n\t[, <open ended>\n`];
  return roleParts(response, name);
};

/** Returns the permissions of a role. The normal mode prints them, too, with keys that people can read. */
export function roleParts({ perm }: pb.AuthRoleGetResponse, name: string): readonly Part[] {
  const ranges = (access: PermissionType): Part[] =>
    perm
      .filter(({ permType }) => permType === access || permType === PermissionType.READWRITE)
      .flatMap(({ key, rangeEnd }) => ['\t', ...rangeParts(key, rangeEnd), '\n']);
  return [`Role ${name}\nKV Read:\n`, ...ranges(PermissionType.READ), 'KV Write:\n', ...ranges(PermissionType.WRITE)];
}

function rangeParts(key: Uint8Array, rangeEnd: Uint8Array): Part[] {
  if (rangeEnd.length === 0) return [key];
  const isPrefix = key.length > 0 && Buffer.from(keysWithPrefix(key).rangeEnd).equals(rangeEnd);
  return [...bounds(key, rangeEnd), ...(isPrefix ? [' (prefix ', key, ')'] : [])];
}

/** A range end of one 0 byte means that the range has no end. */
function bounds(key: Uint8Array, rangeEnd: Uint8Array): Part[] {
  return rangeEnd.length === 1 && rangeEnd[0] === 0 ? ['[', key, ', <open ended>'] : ['[', key, ', ', rangeEnd, ')'];
}

const revoked: Simple<pb.AuthRoleRevokePermissionResponse> = (_, { name = '', range }) => {
  const { key, rangeEnd } = range as NonNullable<Details['range']>;
  const what = rangeEnd.length === 0 ? ['key ', key] : ['range ', ...bounds(key, rangeEnd)];
  return ['Permission of ', ...what, ` is revoked from role ${name}\n`];
};

/**
 * The formats of responses for `--write-out simple`, by message. For the other messages, the normal mode of etcdwire
 * prints the same text as etcdctl.
 */
export const SIMPLE: Readonly<Record<string, Simple<never>>> = {
  'etcdserverpb.RangeResponse': get,
  'etcdserverpb.PutResponse': put,
  'etcdserverpb.DeleteRangeResponse': del,
  'etcdserverpb.TxnResponse': txn,
  'etcdserverpb.LeaseTimeToLiveResponse': timeToLive,
  'etcdserverpb.MemberAddResponse': memberAdd,
  'etcdserverpb.AuthRoleGetResponse': role,
  'etcdserverpb.AuthRoleRevokePermissionResponse': revoked,
};
