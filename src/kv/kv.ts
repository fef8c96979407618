import { readStream } from '../channel/read-stream.js';
import { CALL_OPTIONS, type CallOptions, checkCallOptions, type Rpc } from '../channel/rpc.js';
import { methods } from '../gen/methods.js';
import { checkInt64, checkOptions, KEYS_HINTS } from '../runtime/arguments.js';
import type { BytesLike } from '../runtime/bytes.js';
import { FlatIterator } from '../runtime/iterators.js';
import { checkKey, type Keys, ownKeys } from './key-range.js';
import { KeyValue } from './key-value.js';
import type { Op, Txn, TxnResult } from './op.js';
import { rangePage } from './range-page.js';
import {
  DELETE_OPTIONS,
  type DeleteOptions,
  deleteRequest,
  PUT_HINTS,
  PUT_OPTIONS,
  type PutOptions,
  putRequest,
  RANGE_OPTIONS,
  type RangeOptions,
  rangeRequest,
} from './requests.js';
import {
  type DeleteResult,
  deleteResult,
  type PutResult,
  putResult,
  type RangeResult,
  rangeResult,
  type WithHeader,
  withHeader,
} from './results.js';
import { type PackedPage, type ScanPage, scanPages } from './scan.js';
import { checkTxn, txnRequest, txnResult } from './txn.js';

/** Options of a read of one key. */
export type GetOptions = Pick<RangeOptions, 'revision' | 'serializable' | 'keysOnly'>;

/** Options of a read of every key; the page size is chosen by weight. */
export type ScanOptions = Omit<RangeOptions, 'limit' | 'sort' | 'countOnly'>;

/** Options of a compaction. */
type CompactOptions = { readonly physical?: boolean | undefined } & CallOptions;

const RANGE_CALL = { ...RANGE_OPTIONS, ...CALL_OPTIONS } as const;
const PUT_CALL = { ...PUT_OPTIONS, ...CALL_OPTIONS } as const;
const DELETE_CALL = { ...DELETE_OPTIONS, ...CALL_OPTIONS } as const;
const COMPACT_CALL = { physical: true, ...CALL_OPTIONS } as const;
const GET_CALL = { revision: true, serializable: true, keysOnly: true, ...CALL_OPTIONS } as const;
const SCAN_CALL = {
  revision: true,
  serializable: true,
  keysOnly: true,
  minModRevision: true,
  maxModRevision: true,
  minCreateRevision: true,
  maxCreateRevision: true,
  ...CALL_OPTIONS,
} as const;

/** The types leave these out, but the presets of a range let them in. */
const RANGE_HAS_IT = 'range has this option';
const SCAN_HINTS = { ...KEYS_HINTS, limit: RANGE_HAS_IT, sort: RANGE_HAS_IT, countOnly: RANGE_HAS_IT } as const;
const GET_HINTS = {
  ...SCAN_HINTS,
  prefix: 'to read all keys with a prefix, call range(prefix(key))',
} as const;

export interface KVOptions {
  /** Operations a transaction may have; as the server's `--max-txn-ops`. */
  readonly maxTxnOps: number;
  /** Longest response that is taken. */
  readonly maxReceiveBytes: number;
}

/**
 * Keys and values. Every method throws an `EtcdError`: reason `InvalidInput` before anything is sent, else what the
 * server or the connection had to say, with the `outcome` of the write.
 */
export class KV {
  readonly #rpc: Rpc;
  readonly #options: KVOptions;
  #canStream = true;

  constructor(rpc: Rpc, options: KVOptions) {
    this.#rpc = rpc;
    this.#options = options;
  }

  /** The key, or undefined where there is none. */
  async get(key: BytesLike, options: GetOptions & CallOptions = {}): Promise<KeyValue | undefined> {
    checkOptions(options, GET_CALL, 'get', GET_HINTS);
    const response = await this.#rpc.call(methods.kv.range, rangeRequest(checkKey(key, 'key'), options), options);
    return rangeResult(response).kvs[0];
  }

  async range(keys: Keys, options: RangeOptions & CallOptions = {}): Promise<WithHeader<RangeResult>> {
    checkOptions(options, RANGE_CALL, 'range', KEYS_HINTS);
    const response = await this.#rpc.call(methods.kv.range, rangeRequest(keys, options), options);
    return withHeader(response.header, rangeResult(response));
  }

  /** Every key of a range in ascending order, all as of one revision. */
  scan(keys: Keys, options: ScanOptions & CallOptions = {}): AsyncIterableIterator<KeyValue> {
    checkOptions(options, SCAN_CALL, 'scan', SCAN_HINTS);
    return new FlatIterator(this.#packedPages(keys, options), ({ kvs }) => kvs);
  }

  /**
   * The same by pages, each with the revision that all of them are of. A compaction past that revision during a long
   * scan ends it with reason `Compacted`. `timeoutMs` holds for each page.
   */
  scanPages(keys: Keys, options: ScanOptions & CallOptions = {}): AsyncGenerator<ScanPage, void> {
    return unpacked(this.#packedPages(keys, options));
  }

  #packedPages(keys: Keys, options: ScanOptions & CallOptions): AsyncGenerator<PackedPage, void> {
    rangeRequest(keys, options);
    const { maxReceiveBytes } = this.#options;
    return scanPages(ownKeys(keys), options, {
      maxReceiveBytes,
      page: (page, pageOptions) => {
        const callOptions = { ...options, ...pageOptions };
        return this.#rpc.call(rangePage, rangeRequest(page, callOptions), callOptions);
      },
      stream: (rest, streamOptions) => {
        if (!this.#canStream || hasRevisionFilter(options)) return undefined;
        return this.#rangeStream(rest, { ...options, ...streamOptions });
      },
      cannotStream: () => {
        this.#canStream = false;
      },
    });
  }

  async put(key: BytesLike, value: BytesLike, options: PutOptions & CallOptions = {}): Promise<WithHeader<PutResult>> {
    checkOptions(options, PUT_CALL, 'put', PUT_HINTS);
    const response = await this.#rpc.call(methods.kv.put, putRequest(key, value, options), options);
    return withHeader(response.header, putResult(response));
  }

  async delete(keys: Keys, options: DeleteOptions & CallOptions = {}): Promise<WithHeader<DeleteResult>> {
    checkOptions(options, DELETE_CALL, 'delete', KEYS_HINTS);
    const response = await this.#rpc.call(methods.kv.deleteRange, deleteRequest(keys, options), options);
    return withHeader(response.header, deleteResult(response));
  }

  async txn<const Then extends readonly Op[] = [], const Else extends readonly Op[] = []>(
    txn: Txn<Then, Else>,
    options: CallOptions = {},
  ): Promise<WithHeader<TxnResult<Then, Else>>> {
    checkCallOptions(options, 'txn');
    const request = txnRequest(txn);
    checkTxn(request, this.#options.maxTxnOps);
    const response = await this.#rpc.call(methods.kv.txn, request, options);
    return withHeader(response.header, txnResult(txn, response));
  }

  /**
   * Discards history below `revision`, which is the oldest one that can be read and watched from then on. `physical`
   * waits until the space is free in the database file.
   */
  async compact(revision: bigint, options: CompactOptions = {}): Promise<WithHeader<object>> {
    checkOptions(options, COMPACT_CALL, 'compact');
    const request = { revision: checkInt64(revision, 'revision', 1n), physical: options.physical };
    const response = await this.#rpc.call(methods.kv.compact, request, options);
    return withHeader(response.header, {});
  }

  async *#rangeStream(keys: Keys, options: RangeOptions & CallOptions): AsyncGenerator<readonly KeyValue[], void> {
    const streamOptions = this.#rpc.bounded(options);
    for await (const chunk of readStream(
      this.#rpc,
      methods.kv.rangeStream,
      rangeRequest(keys, options),
      streamOptions,
    )) {
      const kvs = chunk.rangeResponse?.kvs ?? [];
      if (kvs.length > 0) yield kvs.map((kv) => new KeyValue(kv));
    }
  }
}

async function* unpacked(pages: AsyncIterable<PackedPage>): AsyncGenerator<ScanPage, void> {
  for await (const { revision, kvs } of pages) yield { revision, kvs: [...kvs] };
}

/** etcd streams no such ranges. */
function hasRevisionFilter(options: ScanOptions): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = options;
  return Boolean(minModRevision || maxModRevision || minCreateRevision || maxCreateRevision);
}
