import { compareBytes, concatBytes, NO_BYTES } from '../../base/index.js';
import { type RangeRequest, RangeResponse, SortOrder, SortTarget } from '../../gen/etcdserverpb/rpc.js';
import type { KeyValue } from '../../gen/mvccpb/kv.js';
import { encode } from '../../wire/index.js';
import { KeyRange } from './key-range.js';
import { serverError } from './service.js';
import type { MemoryVersion } from './settings.js';
import type { ReadView } from './write-transaction.js';

/** The answer to a range request. `revision` is the newest revision of the view, even if an older revision was read. */
export interface RangeResult extends Pick<RangeResponse, 'kvs' | 'more' | 'count'> {
  readonly revision: bigint;
}

/** Whether the request asks for the order in which the store yields keys: ascending by key. */
export function isInKeyOrder({ sortOrder, sortTarget }: RangeRequest): boolean {
  return sortOrder === SortOrder.NONE || (sortOrder === SortOrder.ASCEND && sortTarget === SortTarget.KEY);
}

export function hasRevisionFilters(request: RangeRequest): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request;
  return [minModRevision, maxModRevision, minCreateRevision, maxCreateRevision].some((revision) => revision !== 0n);
}

/** Reads the keys that a request asks for. @throws StatusError with `FutureRev`, `Compacted` or `InvalidSortOption`. */
export function readRange(view: ReadView, request: RangeRequest, version: MemoryVersion): RangeResult {
  const { limit, countOnly } = request;
  const found = view.range(new KeyRange(request.key, request.rangeEnd), revisionToRead(view, request.revision));
  const result = { revision: view.revision, count: BigInt(found.length), more: false };
  if (countOnly) return { ...result, kvs: [] };
  // If the request needs neither sorting nor filtering, etcd reads one key more than the limit, to find out whether
  // there are more keys. Otherwise, etcd reads all keys of the range, and then filters and sorts them.
  const fetched = isInKeyOrder(request) && !hasRevisionFilters(request) && limit > 0n ? limit + 1n : 0n;
  const sorted = sort(filter(takeUpTo(fetched, found), request), request);
  const kvs = takeUpTo(limit, sorted);
  return { ...result, kvs: withoutValues(kvs, request, version), more: kvs.length < sorted.length };
}

/** One response of a RangeStream. Only the last response has a revision, a count and `more`. */
export interface RangeChunk extends Partial<RangeResult> {
  readonly kvs: KeyValue[];
}

/**
 * Yields the responses of a RangeStream. The number of keys in a response depends on the size of the response before
 * it, so that later responses approach `maxBytes` bytes: `rangeStream` in `etcdserver/v3_server.go` of etcd 3.7.
 *
 * @throws StatusError with `FutureRev` or `Compacted` instead of the first response.
 */
export function* rangeChunks(
  view: ReadView,
  request: RangeRequest,
  version: MemoryVersion,
  maxBytes: number,
): Generator<RangeChunk, void> {
  if (request.countOnly) return yield readRange(view, request, version);
  let { key, limit: rest } = request;
  let chunkLimit = FIRST_CHUNK_KEYS;
  let sent = 0n;
  for (;;) {
    const limit = rest === 0n ? chunkLimit : minimum(chunkLimit, rest);
    const { kvs, more, count, revision } = readRange(view, { ...request, key, limit }, version);
    sent += BigInt(kvs.length);
    if (rest !== 0n) rest -= BigInt(kvs.length);
    // The key after the last key of this chunk.
    key = more ? concatBytes((kvs.at(-1) as KeyValue).key, new Uint8Array(1)) : NO_BYTES;
    const isDone = !more || (request.limit !== 0n && rest === 0n);
    if (isDone) {
      const remaining = more ? readRange(view, { ...request, key, countOnly: true }, version).count : 0n;
      return yield { kvs, more, count: sent + remaining, revision };
    }
    yield { kvs };
    const fetched = minimum(count, limit + 1n);
    const bytes = encode(RangeResponse, { header: { revision }, kvs, more, count: fetched }).length;
    chunkLimit = nextChunkLimit(limit, bytes, maxBytes);
  }
}

/** Maximum number of keys in the first response of a RangeStream. */
const FIRST_CHUNK_KEYS = 10n;

function nextChunkLimit(limit: bigint, bytes: number, maxBytes: number): bigint {
  if (bytes < Math.floor(maxBytes / 2)) return limit * 2n;
  if (bytes > maxBytes * 2) return limit / 2n || 1n;
  return limit;
}

function minimum(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function revisionToRead(view: ReadView, requested: bigint): bigint {
  if (requested > view.revision) throw serverError('FutureRev');
  const revision = requested > 0n ? requested : view.revision;
  if (revision < view.compacted) throw serverError('Compacted');
  return revision;
}

/** Returns the first `limit` keys. A limit of 0 or less means no limit. */
function takeUpTo(limit: bigint, kvs: KeyValue[]): KeyValue[] {
  return limit > 0n && limit < kvs.length ? kvs.slice(0, Number(limit)) : kvs;
}

function filter(kvs: KeyValue[], request: RangeRequest): KeyValue[] {
  if (!hasRevisionFilters(request)) return kvs;
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request;
  const isWithin = (revision: bigint, min: bigint, max: bigint): boolean =>
    (min === 0n || revision >= min) && (max === 0n || revision <= max);
  return kvs.filter(
    ({ modRevision, createRevision }) =>
      isWithin(modRevision, minModRevision, maxModRevision) &&
      isWithin(createRevision, minCreateRevision, maxCreateRevision),
  );
}

type Comparison = (a: KeyValue, b: KeyValue) => number;

const COMPARISONS: Readonly<Record<SortTarget, Comparison>> = {
  [SortTarget.KEY]: (a, b) => compareBytes(a.key, b.key),
  [SortTarget.VERSION]: (a, b) => Number(a.version - b.version),
  [SortTarget.CREATE]: (a, b) => Number(a.createRevision - b.createRevision),
  [SortTarget.MOD]: (a, b) => Number(a.modRevision - b.modRevision),
  [SortTarget.VALUE]: (a, b) => compareBytes(a.value, b.value),
};

/**
 * Sorts the keys in the order of the request. Without an order, etcd sorts ascending by every target except the key.
 * Keys that compare equal stay in key order. etcd leaves their order to Go's `sort.Sort`, which keeps it for up to 12
 * keys.
 */
function sort(kvs: KeyValue[], { sortOrder, sortTarget }: RangeRequest): KeyValue[] {
  if (sortTarget === SortTarget.KEY && sortOrder !== SortOrder.DESCEND) return kvs;
  if (!Object.values<number>(SortOrder).includes(sortOrder)) return kvs;
  const compare: Comparison | undefined = COMPARISONS[sortTarget];
  // etcd 3.5 accepts an unknown target, and its process ends here. Later versions refuse an unknown target earlier, in
  // `checkRange`.
  if (compare === undefined) throw serverError('InvalidSortOption');
  return kvs.toSorted(sortOrder === SortOrder.DESCEND ? (a, b) => compare(b, a) : compare);
}

/**
 * Leaves the values out if the request has `keysOnly`. etcd 3.7 then also leaves out the leases, unless it has to read
 * the values to sort by them: `rangeKeys` in `storage/mvcc/kvstore_txn.go`, option `FastKeysOnly`.
 */
function withoutValues(kvs: KeyValue[], { keysOnly, sortTarget }: RangeRequest, version: MemoryVersion): KeyValue[] {
  if (!keysOnly) return kvs;
  const hasLease = version !== '3.7' || sortTarget === SortTarget.VALUE;
  return kvs.map((kv) => ({ ...kv, value: NO_BYTES, lease: hasLease ? kv.lease : 0n }));
}
