import { checkCount, checkInt64 } from '../arguments.js';
import { type BytesLike, toBytes } from '../bytes.js';
import { invalidInput } from '../errors.js';
import {
  type DeleteRangeRequest,
  type PutRequest,
  type RangeRequest,
  SortOrder,
  SortTarget,
} from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { checkKey, type Keys, resolveKeys } from './key-range.js';

export interface Sort {
  /** `create`, `mod` are revisions, `version` the number of puts. */
  readonly by: 'key' | 'version' | 'create' | 'mod' | 'value';
  readonly order: 'ascend' | 'descend';
}

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

export interface DeleteOptions {
  /** Answer with the deleted keys. */
  readonly prevKv?: boolean | undefined;
}

const SORT_TARGETS = {
  key: SortTarget.KEY,
  version: SortTarget.VERSION,
  create: SortTarget.CREATE,
  mod: SortTarget.MOD,
  value: SortTarget.VALUE,
} as const;
const SORT_ORDERS = { ascend: SortOrder.ASCEND, descend: SortOrder.DESCEND } as const;

// Each of these throws an EtcdError with reason InvalidInput that names the argument.

export function rangeRequest(keys: Keys, options: RangeOptions): Init<RangeRequest> {
  return {
    ...resolveKeys(keys, 'keys'),
    ...sortFields(options.sort),
    limit: checkCount(options.limit ?? 0n, 'limit'),
    revision: checkInt64(options.revision ?? 0n, 'revision'),
    serializable: options.serializable,
    keysOnly: options.keysOnly,
    countOnly: options.countOnly,
    minModRevision: checkInt64(options.minModRevision ?? 0n, 'minModRevision'),
    maxModRevision: checkInt64(options.maxModRevision ?? 0n, 'maxModRevision'),
    minCreateRevision: checkInt64(options.minCreateRevision ?? 0n, 'minCreateRevision'),
    maxCreateRevision: checkInt64(options.maxCreateRevision ?? 0n, 'maxCreateRevision'),
  };
}

export function putRequest(key: BytesLike, value: BytesLike, options: PutOptions): Init<PutRequest> {
  const bytes = toBytes(value, 'value');
  if (options.ignoreValue && bytes.length > 0)
    throw invalidInput('value', 'a value together with ignoreValue', 'an empty value');
  if (options.ignoreLease && options.lease)
    throw invalidInput('lease', 'a lease together with ignoreLease', 'no lease');
  return {
    key: checkKey(key, 'key'),
    value: bytes,
    lease: checkInt64(options.lease ?? 0n, 'lease'),
    prevKv: options.prevKv,
    ignoreValue: options.ignoreValue,
    ignoreLease: options.ignoreLease,
  };
}

export function deleteRequest(keys: Keys, options: DeleteOptions): Init<DeleteRangeRequest> {
  return { ...resolveKeys(keys, 'keys'), prevKv: options.prevKv };
}

/** Keys come in ascending order anyway; asking for it would make the server sort all of them. */
function sortFields(sort: Sort | undefined): Init<Pick<RangeRequest, 'sortOrder' | 'sortTarget'>> {
  if (sort === undefined) return {};
  if (!Object.hasOwn(SORT_TARGETS, sort.by))
    throw invalidInput('sort.by', String(sort.by), Object.keys(SORT_TARGETS).join(', '));
  if (!Object.hasOwn(SORT_ORDERS, sort.order)) throw invalidInput('sort.order', String(sort.order), 'ascend, descend');
  if (sort.by === 'key' && sort.order === 'ascend') return {};
  return { sortTarget: SORT_TARGETS[sort.by], sortOrder: SORT_ORDERS[sort.order] };
}
