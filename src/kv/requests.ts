import { invalidInput } from '../errors/etcd-error.js';
import {
  type DeleteRangeRequest,
  type PutRequest,
  type RangeRequest,
  SortOrder,
  SortTarget,
} from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { checkChoice, checkCount, checkOptionalInt64 } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';
import { checkKey, type Keys, resolveKeys } from './key-range.js';

/** An order of keys other than their own. */
export interface Sort {
  /** `create`, `mod` are revisions, `version` the number of puts. */
  readonly by: 'key' | 'version' | 'create' | 'mod' | 'value';
  readonly order: 'ascend' | 'descend';
}

/** What of a range is to be read. The bounds of revisions are inclusive; 0n, the default, is none. */
export interface RangeOptions {
  /** At most this many keys; 0, the default, for all. */
  readonly limit?: number | bigint | undefined;
  /** Read the store as of this revision; 0n, the default, for now. */
  readonly revision?: bigint | undefined;
  /** Default: ascending by key. */
  readonly sort?: Sort | undefined;
  /** Let the member read its own, perhaps stale, data: no quorum needed. */
  readonly serializable?: boolean | undefined;
  /** Leave values out. */
  readonly keysOnly?: boolean | undefined;
  /** Leave keys out too, only count. */
  readonly countOnly?: boolean | undefined;
  readonly minModRevision?: bigint | undefined;
  readonly maxModRevision?: bigint | undefined;
  readonly minCreateRevision?: bigint | undefined;
  readonly maxCreateRevision?: bigint | undefined;
}

export const RANGE_OPTIONS = {
  limit: true,
  revision: true,
  sort: true,
  serializable: true,
  keysOnly: true,
  countOnly: true,
  minModRevision: true,
  maxModRevision: true,
  minCreateRevision: true,
  maxCreateRevision: true,
} as const;

/** What else is to happen to a key that is put. */
export interface PutOptions {
  /** Attach the key to this lease; without it the key is detached from the one it had. */
  readonly lease?: bigint | undefined;
  /** Answer with the key as it was before. */
  readonly prevKv?: boolean | undefined;
  /** Keep the value: the key must exist, and `value` be empty. */
  readonly ignoreValue?: boolean | undefined;
  /** Keep the lease: the key must exist, and `lease` be left out. */
  readonly ignoreLease?: boolean | undefined;
}

export const PUT_OPTIONS = { lease: true, prevKv: true, ignoreValue: true, ignoreLease: true } as const;

/** Other clients of etcd grant a lease in a put. */
export const PUT_HINTS = { ttl: 'to attach a lease: lease: (await etcd.lease.grant({ ttl: 5 })).id' } as const;

/** What the answer to a deletion is to tell. */
export interface DeleteOptions {
  /** Answer with the deleted keys. */
  readonly prevKv?: boolean | undefined;
}

export const DELETE_OPTIONS = { prevKv: true } as const;

const SORT_TARGETS = {
  key: SortTarget.KEY,
  version: SortTarget.VERSION,
  create: SortTarget.CREATE,
  mod: SortTarget.MOD,
  value: SortTarget.VALUE,
} as const;
const SORT_ORDERS = { ascend: SortOrder.ASCEND, descend: SortOrder.DESCEND } as const;

// Each of these throws an EtcdError with reason InvalidInput that names the argument.

// And each gives all its fields in one order, left out or not: what writes them to the wire is then fastest.

export function rangeRequest(keys: Keys, options: RangeOptions = {}): Init<RangeRequest> {
  const { key, rangeEnd } = resolveKeys(keys, 'keys');
  const { limit, sort, serializable, keysOnly, countOnly } = options;
  const sorted = sort !== undefined && checkSort(sort);
  return {
    key,
    rangeEnd,
    limit: limit === undefined ? undefined : checkCount(limit, 'limit'),
    revision: checkOptionalInt64(options.revision, 'revision'),
    sortOrder: sorted ? SORT_ORDERS[sort.order] : undefined,
    sortTarget: sorted ? SORT_TARGETS[sort.by] : undefined,
    serializable,
    keysOnly,
    countOnly,
    minModRevision: checkOptionalInt64(options.minModRevision, 'minModRevision'),
    maxModRevision: checkOptionalInt64(options.maxModRevision, 'maxModRevision'),
    minCreateRevision: checkOptionalInt64(options.minCreateRevision, 'minCreateRevision'),
    maxCreateRevision: checkOptionalInt64(options.maxCreateRevision, 'maxCreateRevision'),
  };
}

export function putRequest(key: BytesLike, value: BytesLike, options: PutOptions = {}): Init<PutRequest> {
  const bytes = toBytes(value, 'value');
  if (options.ignoreValue && bytes.length > 0)
    throw invalidInput('value', 'a value together with ignoreValue', 'an empty value');
  if (options.ignoreLease && options.lease)
    throw invalidInput('lease', 'a lease together with ignoreLease', 'no lease');
  return {
    key: checkKey(key, 'key'),
    value: bytes,
    lease: checkOptionalInt64(options.lease, 'lease'),
    prevKv: options.prevKv,
    ignoreValue: options.ignoreValue,
    ignoreLease: options.ignoreLease,
  };
}

export function deleteRequest(keys: Keys, options: DeleteOptions = {}): Init<DeleteRangeRequest> {
  const { key, rangeEnd } = resolveKeys(keys, 'keys');
  return { key, rangeEnd, prevKv: options.prevKv };
}

/** False for ascending by key: keys come so anyway, and asking for it would make the server sort all of them (S35). */
function checkSort({ by, order }: Sort): boolean {
  checkChoice(SORT_TARGETS, by, 'sort.by');
  checkChoice(SORT_ORDERS, order, 'sort.order');
  return by !== 'key' || order !== 'ascend';
}
