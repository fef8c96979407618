import type { BytesLike } from '../../base/index.js';
import type { CallOptions, WithHeader, WriteOptions } from '../../rpc/index.js';
import type { KeyValue } from './key-value.js';
import type { Keys } from './keys.js';
import type {
  DeleteOptions,
  DeleteResult,
  GetOptions,
  PutOptions,
  PutResult,
  RangeOptions,
  RangeResult,
  ScanOptions,
} from './requests.js';
import type { ScanPage } from './scan.js';
import type { Conditions, Op, Txn, TxnResult } from './txn.js';

/** The KV service. Every method refuses an invalid argument with reason `InvalidInput` before it sends anything. */
export interface KV {
  /** Reads a key. Returns undefined if the key does not exist. */
  get(key: BytesLike, options?: GetOptions & CallOptions): Promise<KeyValue | undefined>;

  /**
   * Reads a key or a range of keys. All keys arrive in one response, and decoding it blocks the event loop: about 1 s
   * for 300 MB. Use `scan` for ranges of more than about 10 MB, because it reads the keys in pages.
   */
  range(keys: Keys, options?: RangeOptions & CallOptions): Promise<WithHeader<RangeResult>>;

  /**
   * Reads a range of any size in ascending key order, all at one revision. After the first page, uses a stream if the
   * server supports the RPC `RangeStream` (etcd 3.7) and the options have no revision bounds. Otherwise reads page by
   * page. `timeoutMs` limits the time for each page, and for each message of the stream. If etcd compacts the revision
   * of the scan before the scan is complete, the scan fails with reason `Compacted`.
   */
  scan(keys: Keys, options?: ScanOptions & CallOptions): AsyncIterableIterator<KeyValue>;

  /**
   * Writes a key. Without the options `lease` and `ignoreLease`, the put detaches the key from the lease that it had.
   */
  put(key: BytesLike, value: BytesLike, options?: PutOptions & WriteOptions): Promise<WithHeader<PutResult>>;

  /** Deletes a key or a range of keys. `deleted` is the number of keys that existed. */
  delete(keys: Keys, options?: DeleteOptions & WriteOptions): Promise<WithHeader<DeleteResult>>;

  /**
   * Runs a transaction. The server runs `then` if every condition in `if` is true, and `else` otherwise, all at one
   * revision. `succeeded` is true if `then` ran, and narrows the type of `responses`. Without `if`, `then` always runs,
   * and `else` is not allowed.
   *
   * @example
   * const result = await etcd.txn({
   *   if: [compare.missing('config/size')],
   *   then: [op.put('config/size', '10')],
   *   else: [op.get('config/size')],
   * });
   * if (!result.succeeded) console.log(result.responses[0]?.text());
   */
  txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options?: WriteOptions): Promise<WithHeader<TxnResult<If, Then, Else>>>;
}

/** The KV service, with the method that only this package uses. */
export interface PagedKV extends KV {
  /** Does the same as `scan`, but yields whole pages. */
  scanPages(keys: Keys, options: ScanOptions & CallOptions): AsyncGenerator<ScanPage, void>;
}
