import {
  type DeleteRangeRequest,
  type PutRequest,
  type RangeRequest,
  type RequestOp,
  SortOrder,
  SortTarget,
  type TxnRequest,
} from '../../gen/etcdserverpb/rpc.js';
import { type KeyId, keyId } from './key-range.js';
import { hasRevisionFilters, isInKeyOrder } from './range.js';
import { StatusError, serverError } from './service.js';
import type { MemoryVersion } from './settings.js';

// The checks that etcd makes before it looks at its data: `etcdserver/api/v3rpc/key.go`. The order of the checks
// decides which error a request with several mistakes gets.

export function checkRange(request: RangeRequest, version: MemoryVersion): void {
  checkKey(request);
  // `checkRangeRequest` of etcd 3.5 does not check the enums.
  if (version === '3.5') return;
  if (!isValueOf(SortOrder, request.sortOrder) || !isValueOf(SortTarget, request.sortTarget))
    throw serverError('InvalidSortOption');
}

export function checkRangeStream(request: RangeRequest, version: MemoryVersion): void {
  checkRange(request, version);
  if (!isInKeyOrder(request)) throw new StatusError('Unimplemented', 'RangeStream does not support custom sort orders');
  if (hasRevisionFilters(request))
    throw new StatusError('Unimplemented', 'RangeStream does not support revision filters');
}

export function checkPut(request: PutRequest): void {
  checkKey(request);
  if (request.ignoreValue && request.value.length > 0) throw serverError('ValueProvided');
  if (request.ignoreLease && request.lease !== 0n) throw serverError('LeaseProvided');
}

/** Checks a transaction, its operations, and whether its branches change a key twice. */
export function checkTxn(request: TxnRequest, maxOperations: number, version: MemoryVersion): void {
  checkOperations(request, maxOperations, version);
  checkOverlaps(request.success);
  checkOverlaps(request.failure);
}

/** Checks a request to which no other rule applies, such as a deletion. */
export function checkKey({ key }: { readonly key: Uint8Array }): void {
  if (key.length === 0) throw serverError('EmptyKey');
}

function isValueOf(values: Readonly<Record<string, number>>, value: number): boolean {
  return Object.values(values).includes(value);
}

/**
 * Checks that no list of a transaction has more than `max` items. The maximum of a nested transaction is `max` minus
 * the length of the longest list of its parent.
 */
function checkOperations({ compare, success, failure }: TxnRequest, max: number, version: MemoryVersion): void {
  const longest = Math.max(compare.length, success.length, failure.length);
  if (longest > max) throw serverError('TooManyOps');
  for (const condition of compare) checkKey(condition);
  for (const operation of [...success, ...failure]) checkOperation(operation, max - longest, version);
}

function checkOperation({ request }: RequestOp, maxNested: number, version: MemoryVersion): void {
  switch (request?.case) {
    case 'requestRange':
      return checkRange(request.value, version);
    case 'requestPut':
      return checkPut(request.value);
    case 'requestDeleteRange':
      return checkKey(request.value);
    case 'requestTxn':
      return checkOperations(request.value, maxNested, version);
    case undefined:
      throw serverError('KeyNotFound');
  }
}

/** The keys from `first` up to, but not including, `end`. */
interface Span {
  readonly first: KeyId;
  readonly end: KeyId;
}

/** The keys that a list of operations changes. */
interface Changed {
  readonly puts: ReadonlySet<KeyId>;
  readonly deletions: readonly Span[];
}

/**
 * Throws `DuplicateKey` if the operations put a key twice, or put a key and delete it. Follows `checkIntervals` of
 * etcd, which misses some cases:
 * - A deletion of all keys from a key on (`rangeEnd` is one zero byte) overlaps no put, because etcd compares its end
 *   literally.
 * - The two branches of a nested transaction may put the same key. One branch may delete a key that the other puts.
 * - A nested transaction may delete a key that an earlier nested transaction of the same list puts. It may not put a
 *   key that an earlier nested transaction deletes.
 */
function checkOverlaps(operations: readonly RequestOp[]): Changed {
  const puts = new Set<KeyId>();
  const deletions: Span[] = [];
  for (const { request } of operations)
    if (request?.case === 'requestDeleteRange') deletions.push(spanOf(request.value));

  const add = (put: KeyId, mayRepeat: boolean): void => {
    if (puts.has(put) && !mayRepeat) throw serverError('DuplicateKey');
    if (deletions.some(({ first, end }) => put >= first && put < end)) throw serverError('DuplicateKey');
    puts.add(put);
  };

  for (const { request } of operations) {
    if (request?.case !== 'requestTxn') continue;
    const success = checkOverlaps(request.value.success);
    const failure = checkOverlaps(request.value.failure);
    for (const put of success.puts) add(put, false);
    for (const put of failure.puts) add(put, success.puts.has(put));
    deletions.push(...success.deletions, ...failure.deletions);
  }
  for (const { request } of operations) if (request?.case === 'requestPut') add(keyId(request.value.key), false);
  return { puts, deletions };
}

function spanOf({ key, rangeEnd }: DeleteRangeRequest): Span {
  const first = keyId(key);
  return { first, end: rangeEnd.length === 0 ? `${first}\0` : keyId(rangeEnd) };
}
