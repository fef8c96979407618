import {
  type BytesLike,
  checkBoolean,
  checkCount,
  checkFields,
  checkInt64,
  EtcdError,
  type Int64Like,
  int64Of,
  invalidInput,
  KEYS_HINTS,
  oneOf,
  printable,
  toBytes,
} from '../../base/index.js';
import * as wire from '../../gen/etcdserverpb/rpc.js';
import type { Init } from '../../wire/index.js';
import { type LeaseLike, leaseIdOrNone } from '../lease/lease-id.js';
import { KeyValue } from './key-value.js';
import { checkKey, type Keys, resolveKeys, type WireRange } from './keys.js';

/**
 * The order of the keys in the result of `range`.
 *
 * @example
 * const newest = await etcd.range(prefix('log/'), { sort: { target: 'modRevision', order: 'desc' }, limit: 10 });
 */
export interface Sort {
  /** What the server compares. `version` is the number of puts since the key was created. */
  readonly target: 'key' | 'version' | 'createRevision' | 'modRevision' | 'value';
  readonly order: 'asc' | 'desc';
}

/** Marks types of options that only `range` accepts. No object has this property, and editors do not suggest it. */
declare const ONLY_RANGE: unique symbol;

/** Options of `get` and of `op.get`. */
export interface GetOptions {
  /** Reads the store as it was at this revision. Default 0n: the latest revision. */
  readonly revision?: Int64Like | undefined;
  /**
   * Lets a member answer from its own data without asking the leader. The answer needs no quorum, but it may be stale.
   * Default false: the read is linearizable.
   */
  readonly serializable?: boolean | undefined;
  /** Leaves the values out of the result. Default false. */
  readonly keysOnly?: boolean | undefined;
  /** @hidden Makes the compiler refuse the options that `withFirstCreate` and similar functions return. */
  readonly [ONLY_RANGE]?: undefined;
}

/**
 * Options of `scan`, which chooses the size of its pages itself. The revision bounds are inclusive. Their default, 0n,
 * means no bound.
 */
export interface ScanOptions extends GetOptions {
  /** Selects keys that were last put at or after this revision. */
  readonly minModRevision?: Int64Like | undefined;
  /** Selects keys that were last put at or before this revision. */
  readonly maxModRevision?: Int64Like | undefined;
  /** Selects keys that were created at or after this revision. */
  readonly minCreateRevision?: Int64Like | undefined;
  /** Selects keys that were created at or before this revision. */
  readonly maxCreateRevision?: Int64Like | undefined;
}

/** Options of `range` and of `op.range`. */
export interface RangeOptions extends Omit<ScanOptions, typeof ONLY_RANGE> {
  /** @hidden */
  readonly [ONLY_RANGE]?: true | undefined;
  /** The maximum number of keys in the result. Default 0: no maximum. */
  readonly limit?: number | undefined;
  /** The order of the keys in the result. Default: by key, ascending. */
  readonly sort?: Sort | undefined;
  /** Returns `count` without any keys or values. Default false. */
  readonly countOnly?: boolean | undefined;
}

export const GET_OPTIONS = { revision: checkInt64, serializable: checkBoolean, keysOnly: checkBoolean } as const;
export const SCAN_OPTIONS = {
  ...GET_OPTIONS,
  minModRevision: checkInt64,
  maxModRevision: checkInt64,
  minCreateRevision: checkInt64,
  maxCreateRevision: checkInt64,
} as const;
export const RANGE_OPTIONS = { limit: checkCount, sort: checkSort, countOnly: checkBoolean, ...SCAN_OPTIONS } as const;

const RANGE_HAS_IT = 'range has this option';
export const SCAN_HINTS = { ...KEYS_HINTS, limit: RANGE_HAS_IT, sort: RANGE_HAS_IT, countOnly: RANGE_HAS_IT } as const;
export const GET_HINTS = {
  ...SCAN_HINTS,
  prefix: 'to read all keys with a prefix, call range(prefix(key))',
} as const;

/** Options of `put` and of `op.put`. */
export interface PutOptions {
  /**
   * The lease to attach the key to. Without `lease` and `ignoreLease`, the put detaches the key from the lease that it
   * had.
   */
  readonly lease?: LeaseLike | undefined;
  /** Returns the key as it was before the put. Default false. */
  readonly prevKv?: boolean | undefined;
  /** Keeps the current value of the key. The key must exist, and `value` must be empty. Default false. */
  readonly ignoreValue?: boolean | undefined;
  /** Keeps the current lease of the key. The key must exist, and `lease` must be absent. Default false. */
  readonly ignoreLease?: boolean | undefined;
}

export const PUT_OPTIONS = {
  lease: leaseIdOrNone,
  prevKv: checkBoolean,
  ignoreValue: checkBoolean,
  ignoreLease: checkBoolean,
} as const;

/** A hint for an option of other etcd clients, which grant a lease with this `ttl` and attach the key to it. */
export const PUT_HINTS = { ttl: 'use ExpiringKeys of etcdwire/recipes, or lease: lease.grant({ ttl })' } as const;

/** Options of `delete` and of `op.delete`. */
export interface DeleteOptions {
  /** Returns the keys that were deleted. Default false. */
  readonly prevKv?: boolean | undefined;
}

export const DELETE_OPTIONS = { prevKv: checkBoolean } as const;

/** The result of reading a range. */
export interface RangeResult {
  readonly kvs: readonly KeyValue[];
  /** Whether `limit` kept matching keys out of the result. */
  readonly more: boolean;
  /** Number of keys in the range. etcd counts them before it applies `limit` and the revision bounds. */
  readonly count: number;
}

/** The result of a put. */
export interface PutResult {
  /** The key as it was before the put. Undefined if the key did not exist or the option `prevKv` was not true. */
  readonly prevKv: KeyValue | undefined;
}

/** The result of a deletion. */
export interface DeleteResult {
  /** Number of keys that were deleted. */
  readonly deleted: number;
  /** The keys that were deleted. Empty unless the option `prevKv` was true. */
  readonly prevKvs: readonly KeyValue[];
}

/**
 * Options of `range` that select the first key in a sort order. The functions below, such as `withFirstCreate`, return
 * these options. The functions correspond to `WithFirstCreate` and the similar options of the Go client.
 */
export interface FirstOf {
  readonly sort: Sort;
  readonly limit: number;
  /** @hidden */
  readonly [ONLY_RANGE]?: true;
}

const firstOf = (target: Sort['target'], order: Sort['order']) => (): FirstOf => ({
  sort: { target, order },
  limit: 1,
});

/**
 * Selects the key that was created first.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('queue/'), withFirstCreate());
 */
export const withFirstCreate: () => FirstOf = firstOf('createRevision', 'asc');

/**
 * Selects the key that was created last.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('queue/'), withLastCreate());
 */
export const withLastCreate: () => FirstOf = firstOf('createRevision', 'desc');

/**
 * Selects the smallest key, in byte order.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('log/'), withFirstKey());
 */
export const withFirstKey: () => FirstOf = firstOf('key', 'asc');

/**
 * Selects the largest key, in byte order.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('log/'), withLastKey());
 */
export const withLastKey: () => FirstOf = firstOf('key', 'desc');

/**
 * Selects the key whose last put is the oldest.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('session/'), withFirstRev());
 */
export const withFirstRev: () => FirstOf = firstOf('modRevision', 'asc');

/**
 * Selects the key whose last put is the newest.
 *
 * @example
 * const { kvs } = await etcd.range(prefix('session/'), withLastRev());
 */
export const withLastRev: () => FirstOf = firstOf('modRevision', 'desc');

/**
 * Selects keys that were created at or before this revision. Combine the result with the result of one of the functions
 * above, such as `withLastCreate`.
 *
 * @example
 * const own = await etcd.put('queue/me', '');
 * const before = own.header.revision - 1n;
 * const { kvs } = await etcd.range(prefix('queue/'), { ...withLastCreate(), ...withMaxCreateRev(before) });
 */
export function withMaxCreateRev(maxCreateRevision: Int64Like): { readonly maxCreateRevision: bigint } {
  return printable({ maxCreateRevision: checkInt64(maxCreateRevision, 'maxCreateRevision') });
}

const SORT_TARGETS = {
  key: wire.SortTarget.KEY,
  version: wire.SortTarget.VERSION,
  createRevision: wire.SortTarget.CREATE,
  modRevision: wire.SortTarget.MOD,
  value: wire.SortTarget.VALUE,
} as const;
const SORT_ORDERS = { asc: wire.SortOrder.ASCEND, desc: wire.SortOrder.DESCEND } as const;

const SORT = { target: oneOf(SORT_TARGETS), order: oneOf(SORT_ORDERS) } as const;

function checkSort(sort: Sort, argument: string): void {
  checkFields(sort, SORT, argument);
  for (const name of ['target', 'order'] as const) SORT[name](sort[name] as never, `${argument}.${name}`);
}

// The functions below that build a request throw an EtcdError with reason `InvalidInput` if a key, a value or a lease
// is invalid. The caller has checked the other options. Each function sets all fields of its message, in the order of
// the schema, because the encoder is fastest when all objects have one shape.

export function rangeRequest({ key, rangeEnd }: WireRange, options: RangeOptions = {}): Init<wire.RangeRequest> {
  const { limit, sort, serializable, keysOnly, countOnly } = options;
  const sorted = sort !== undefined && needsSorting(sort);
  return {
    key,
    rangeEnd,
    limit: limit === undefined ? undefined : BigInt(limit),
    revision: int64Of(options.revision),
    sortOrder: sorted ? SORT_ORDERS[sort.order] : undefined,
    sortTarget: sorted ? SORT_TARGETS[sort.target] : undefined,
    serializable,
    keysOnly,
    countOnly,
    minModRevision: int64Of(options.minModRevision),
    maxModRevision: int64Of(options.maxModRevision),
    minCreateRevision: int64Of(options.minCreateRevision),
    maxCreateRevision: int64Of(options.maxCreateRevision),
  };
}

/**
 * Whether the request has to name the order. A request for ascending key order does not name the order: etcd returns
 * keys in that order anyway, but would sort them again if the request named the order (rule S35 in docs/semantics.md).
 */
function needsSorting({ target, order }: Sort): boolean {
  return target !== 'key' || order !== 'asc';
}

export function putRequest(key: BytesLike, value: BytesLike, options: PutOptions = {}): Init<wire.PutRequest> {
  const bytes = toBytes(value, 'value');
  if (options.ignoreValue && bytes.length > 0)
    throw invalidInput('value', 'a value together with ignoreValue', 'only one of the two');
  if (options.ignoreLease && options.lease)
    throw invalidInput('lease', 'a lease together with ignoreLease', 'only one of the two');
  return {
    key: checkKey(key, 'key'),
    value: bytes,
    lease: options.lease === undefined ? undefined : leaseIdOrNone(options.lease, 'lease'),
    prevKv: options.prevKv,
    ignoreValue: options.ignoreValue,
    ignoreLease: options.ignoreLease,
  };
}

export function deleteRequest(keys: Keys, options: DeleteOptions = {}): Init<wire.DeleteRangeRequest> {
  const { key, rangeEnd } = resolveKeys(keys, 'keys');
  return { key, rangeEnd, prevKv: options.prevKv };
}

export function getResult({ kvs: [kv] }: wire.RangeResponse): KeyValue | undefined {
  return kv && new KeyValue(kv);
}

export function rangeResult({ kvs, more, count }: wire.RangeResponse): RangeResult {
  return { kvs: kvs.map((kv) => new KeyValue(kv)), more, count: toNumber(count) };
}

export function putResult({ prevKv }: wire.PutResponse): PutResult {
  return { prevKv: prevKv && new KeyValue(prevKv) };
}

export function deleteResult({ deleted, prevKvs }: wire.DeleteRangeResponse): DeleteResult {
  return { deleted: toNumber(deleted), prevKvs: prevKvs.map((kv) => new KeyValue(kv)) };
}

/** @throws EtcdError with reason `MalformedMessage` if the key count is negative or not a safe integer. */
function toNumber(count: bigint): number {
  const number = Number(count);
  if (Number.isSafeInteger(number) && number >= 0) return number;
  throw malformedResponse(`the server sent an invalid number of keys: ${count}`);
}

export function malformedResponse(problem: string): EtcdError {
  return new EtcdError(problem, { code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' });
}
