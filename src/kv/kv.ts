import { CALL_OPTIONS, type CallOptions, type Rpc, WRITE_OPTIONS, type WriteOptions } from '../channel/rpc.js';
import * as kvMethods from '../gen/methods/kv.js';
import { checkOptions, KEYS_HINTS } from '../runtime/arguments.js';
import { BatchItemIterator } from '../runtime/async.js';
import type { BytesLike } from '../runtime/bytes.js';
import type { KeyValue } from './key-value.js';
import { checkKey, type Keys, resolveKeys, singleKey } from './keys.js';
import {
  DELETE_OPTIONS,
  type DeleteOptions,
  type DeleteResult,
  deleteRequest,
  deleteResult,
  GET_HINTS,
  GET_OPTIONS,
  type GetOptions,
  getResult,
  PUT_HINTS,
  PUT_OPTIONS,
  type PutOptions,
  type PutResult,
  putRequest,
  putResult,
  RANGE_OPTIONS,
  type RangeOptions,
  type RangeResult,
  rangeRequest,
  rangeResult,
  SCAN_HINTS,
  SCAN_OPTIONS,
  type ScanOptions,
  type WithHeader,
  withHeader,
} from './requests.js';
import { Scanner, type ScanPage } from './scan.js';
import { type Conditions, checkTxn, type Op, ownTxn, type Txn, type TxnResult, txnRequest, txnResult } from './txn.js';

const GET_CALL = { ...GET_OPTIONS, ...CALL_OPTIONS } as const;
const RANGE_CALL = { ...RANGE_OPTIONS, ...CALL_OPTIONS } as const;
const SCAN_CALL = { ...SCAN_OPTIONS, ...CALL_OPTIONS } as const;
const PUT_CALL = { ...PUT_OPTIONS, ...WRITE_OPTIONS } as const;
const DELETE_CALL = { ...DELETE_OPTIONS, ...WRITE_OPTIONS } as const;

export interface KVOptions {
  /** The maximum number of operations in a transaction. It corresponds to the server's option `--max-txn-ops`. */
  readonly maxTxnOps: number;
  /** Maximum length, in bytes, of a response that the client accepts. */
  readonly maxReceiveBytes: number;
}

/** The KV service. Every method refuses an invalid argument with reason `InvalidInput` before it sends anything. */
export class KV {
  readonly #rpc: Rpc;
  readonly #maxTxnOps: number;
  readonly #scanner: Scanner;

  constructor(rpc: Rpc, { maxTxnOps, maxReceiveBytes }: KVOptions) {
    this.#rpc = rpc;
    this.#maxTxnOps = maxTxnOps;
    this.#scanner = new Scanner(rpc, maxReceiveBytes);
  }

  /** Reads a key. Returns undefined if the key does not exist. */
  async get(key: BytesLike, options: GetOptions & CallOptions = {}): Promise<KeyValue | undefined> {
    checkOptions(options, GET_CALL, 'get', GET_HINTS);
    const request = rangeRequest(singleKey(checkKey(key, 'key')), options);
    return getResult(await this.#rpc.call(kvMethods.range, request, options));
  }

  /**
   * Reads a key or a range of keys. All keys arrive in one response, and decoding it blocks the event loop: 1 s for
   * 300 MB. Use `scan` for ranges of more than about 10 MB, because it reads the keys in pages.
   */
  async range(keys: Keys, options: RangeOptions & CallOptions = {}): Promise<WithHeader<RangeResult>> {
    checkOptions(options, RANGE_CALL, 'range', KEYS_HINTS);
    const request = rangeRequest(resolveKeys(keys, 'keys'), options);
    const response = await this.#rpc.call(kvMethods.range, request, options);
    return withHeader(response.header, rangeResult(response));
  }

  /**
   * Reads a range of any size in ascending key order, all at one revision. Uses a stream if the server supports the RPC
   * `RangeStream` (etcd 3.7), and reads page by page otherwise. `timeoutMs` limits the time for each page. If etcd
   * compacts the revision of the scan before the scan is complete, the scan ends with reason `Compacted`.
   */
  scan(keys: Keys, options: ScanOptions & CallOptions = {}): AsyncIterableIterator<KeyValue> {
    checkOptions(options, SCAN_CALL, 'scan', SCAN_HINTS);
    return new BatchItemIterator(this.scanPages(keys, options), ({ kvs }) => kvs);
  }

  /**
   * @internal
   * Like `scan`, but yields whole pages.
   */
  scanPages(keys: Keys, options: ScanOptions & CallOptions): AsyncGenerator<ScanPage, void> {
    const range = resolveKeys(keys, 'keys');
    return this.#scanner.pages(range, rangeRequest(range, options), options);
  }

  /** Writes a key. Without the option `lease`, the put detaches the key from the lease that it had. */
  async put(key: BytesLike, value: BytesLike, options: PutOptions & WriteOptions = {}): Promise<WithHeader<PutResult>> {
    checkOptions(options, PUT_CALL, 'put', PUT_HINTS);
    const response = await this.#rpc.call(kvMethods.put, putRequest(key, value, options), options);
    return withHeader(response.header, putResult(response));
  }

  /** Deletes a key or a range of keys. `deleted` is the number of keys that existed. */
  async delete(keys: Keys, options: DeleteOptions & WriteOptions = {}): Promise<WithHeader<DeleteResult>> {
    checkOptions(options, DELETE_CALL, 'delete', KEYS_HINTS);
    const response = await this.#rpc.call(kvMethods.deleteRange, deleteRequest(keys, options), options);
    return withHeader(response.header, deleteResult(response));
  }

  /**
   * Runs a transaction. The server runs `then` if every condition in `if` holds, and `else` otherwise, all at one
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
  async txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options: WriteOptions = {}): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    checkOptions(options, WRITE_OPTIONS, 'txn');
    const own = ownTxn(txn);
    const request = txnRequest(own);
    checkTxn(request, this.#maxTxnOps);
    const response = await this.#rpc.call(kvMethods.txn, request, options);
    return withHeader(response.header, txnResult(own, response));
  }
}
