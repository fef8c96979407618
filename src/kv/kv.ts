import { checkInt64, show } from '../arguments.js';
import type { BytesLike } from '../bytes.js';
import { readStream } from '../channel/read-stream.js';
import type { CallOptions, Rpc } from '../channel/rpc.js';
import { invalidInput } from '../errors.js';
import { FlatIterator } from '../flat-iterator.js';
import { methods } from '../gen/methods.js';
import { checkTxn } from '../txn/check-txn.js';
import type { Op, Txn, TxnResult } from '../txn/op.js';
import { txnRequest, txnResult } from '../txn/txn.js';
import { checkKey, type Keys, ownKeys } from './key-range.js';
import { KeyValue } from './key-value.js';
import { rangePage } from './range-page.js';
import {
  type DeleteOptions,
  deleteRequest,
  type PutOptions,
  putRequest,
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

/** Options of a read of one key. */
export type GetOptions = Pick<RangeOptions, 'revision' | 'serializable' | 'keysOnly'>;

/** Options of a read of every key; the page size is chosen by weight. */
export type ScanOptions = Omit<RangeOptions, 'limit' | 'sort' | 'countOnly'>;

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
    refuse(options, ['countOnly'], 'get');
    const response = await this.#rpc.call(methods.kv.range, rangeRequest(checkKey(key, 'key'), options), options);
    return rangeResult(response).kvs[0];
  }

  async range(keys: Keys, options: RangeOptions & CallOptions = {}): Promise<WithHeader<RangeResult>> {
    const response = await this.#rpc.call(methods.kv.range, rangeRequest(keys, options), options);
    return withHeader(response.header, rangeResult(response));
  }

  /** Every key of a range in ascending order, all as of one revision. */
  scan(keys: Keys, options: ScanOptions & CallOptions = {}): AsyncIterableIterator<KeyValue> {
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
    refuse(options, ['countOnly', 'limit', 'sort'], 'scan');
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
    const response = await this.#rpc.call(methods.kv.put, putRequest(key, value, options), options);
    return withHeader(response.header, putResult(response));
  }

  async delete(keys: Keys, options: DeleteOptions & CallOptions = {}): Promise<WithHeader<DeleteResult>> {
    const response = await this.#rpc.call(methods.kv.deleteRange, deleteRequest(keys, options), options);
    return withHeader(response.header, deleteResult(response));
  }

  async txn<const Then extends readonly Op[] = [], const Else extends readonly Op[] = []>(
    txn: Txn<Then, Else>,
    options: CallOptions = {},
  ): Promise<WithHeader<TxnResult<Then, Else>>> {
    if (typeof txn !== 'object' || txn === null) throw invalidInput('txn', show(txn), '{ if, then, else }');
    const request = txnRequest(txn);
    checkTxn(request, this.#options.maxTxnOps);
    const response = await this.#rpc.call(methods.kv.txn, request, options);
    return withHeader(response.header, txnResult(txn, response));
  }

  /**
   * Discards history below `revision`, which is the oldest one that can be read and watched from then on. `physical`
   * waits until the space is free in the database file.
   */
  async compact(
    revision: bigint,
    options: { readonly physical?: boolean | undefined } & CallOptions = {},
  ): Promise<WithHeader<object>> {
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

/** The types leave these out, but the presets of a range let them in. */
function refuse(options: RangeOptions, names: readonly (keyof RangeOptions)[], what: string): void {
  const given = names.find((name) => options[name] !== undefined && options[name] !== false);
  if (given !== undefined) throw invalidInput(given, `an option that ${what} has not`, 'range, which has it');
}

/** etcd streams no such ranges. */
function hasRevisionFilter(options: ScanOptions): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = options;
  return Boolean(minModRevision || maxModRevision || minCreateRevision || maxCreateRevision);
}
