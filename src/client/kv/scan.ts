import { canceled, compareBytes, EtcdError, NO_BYTES } from '../../base/index.js';
import { type RangeRequest, RangeResponse, ResponseHeader } from '../../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../../gen/methods/kv.js';
import * as mvccpb from '../../gen/mvccpb/kv.js';
import { type CallOptions, isEndpointFailure, isTokenRefused, type Rpc, readStream } from '../../rpc/index.js';
import { type Codec, type Init, type Method, Reader } from '../../wire/index.js';
import { KeyValue } from './key-value.js';
import { endOf, keyAfter, type WireRange } from './keys.js';

/** Number of keys in the first page: small, because the client does not know yet how large the values are. */
const FIRST_PAGE_KEYS = 32;
const MAX_PAGE_KEYS = 40_000;
/** Intended size of a page in bytes: large enough to hide the network round trip, and small enough for memory. */
const PAGE_BYTES = 4_194_304;

/**
 * A page of a range, that is, some consecutive keys, and the revision at which the page was read. Each iteration over
 * `kvs` may decode the keys again.
 */
export interface ScanPage {
  readonly revision: bigint;
  readonly kvs: Iterable<KeyValue>;
}

/**
 * Reads ranges of any size: the first page with a unary call, and the rest with a stream if possible (RPC `RangeStream`
 * of etcd 3.7), or page by page.
 */
export class Scanner {
  readonly #rpc: Rpc;
  readonly #pageBytes: number;
  readonly #method: Method<RangeRequest, RangePage | RangeResponse, 'unary'>;
  #canStream = true;

  /**
   * `maxReceiveBytes` is the maximum length of a response that the client accepts. Interceptors of an `isIntercepted`
   * client get decoded keys, as those of every other response.
   */
  constructor(rpc: Rpc, maxReceiveBytes: number, isIntercepted: boolean) {
    this.#rpc = rpc;
    this.#method = isIntercepted ? kvMethods.range : rangePage;
    this.#pageBytes = Math.min(PAGE_BYTES, maxReceiveBytes / 2);
  }

  /**
   * Reads a range in ascending key order, all of it at the revision of the first page. `request` contains the options
   * of the read. The scanner requests each page before it decodes the previous page, so that the server and the client
   * work at the same time. If a stream breaks, the scanner continues after the last key that arrived. The signal of
   * `options` must abort when the iteration ends, because the scanner may have requested the next page by then.
   */
  async *pages(range: WireRange, request: Init<RangeRequest>, options: CallOptions): AsyncGenerator<ScanPage, void> {
    const end = endOf(range);
    let rest: WireRange | undefined = range;
    let revision = request.revision ?? 0n;
    let limit = FIRST_PAGE_KEYS;
    let { serializable } = request;
    const requestPage = (from: WireRange): Promise<RangePage> => {
      const { key, rangeEnd } = from;
      const pageRequest = { ...request, serializable, key, rangeEnd, revision, limit: BigInt(limit) };
      const page = this.#rpc.call(this.#method, pageRequest, options).then(pageOf);
      // If the caller stops iterating before this page, nothing awaits the promise, and Node.js would report its
      // rejection as unhandled.
      page.catch(() => {});
      return page;
    };
    // The member of a later page may not have reached the revision of the first page.
    const isBehind = ({ reason }: EtcdError): boolean =>
      reason === 'FutureRev' && serializable === true && !request.revision;
    let ahead: Promise<RangePage> | undefined;
    while (rest !== undefined) {
      let page: RangePage;
      try {
        page = await (ahead ?? requestPage(rest));
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        if (error.reason === 'ResponseTooLarge' && limit > 1) limit = Math.max(1, Math.floor(limit / 4));
        else if (isBehind(error)) serializable = false;
        else throw error;
        ahead = undefined;
        continue;
      }
      if (revision === 0n) revision = page.header?.revision ?? 0n;
      const last = page.kvs.last();
      if (last !== undefined) rest = rangeAfter(last.key, end);
      const next: WireRange | undefined = page.more && last !== undefined ? rest : undefined;
      limit = this.#limitAfter(page.kvs);
      const chunks = next && this.#stream({ ...request, ...next, serializable, revision }, options);
      ahead = next === undefined || chunks !== undefined ? undefined : requestPage(next);
      yield { revision, kvs: page.kvs };
      // The signal may have aborted before the consumer has taken all keys of the page.
      checkSignalOf(options);
      if (next === undefined) return;
      if (chunks === undefined) continue;
      try {
        for await (const kvs of chunks) {
          rest = rangeAfter((kvs.at(-1) as KeyValue).keyBytes, end);
          yield { revision, kvs };
          checkSignalOf(options);
        }
        return;
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        if (error.code === 'Unimplemented') this.#canStream = false;
        else if (isBehind(error)) serializable = false;
        // The next page request may succeed, because it asks for less data, goes to another endpoint, or carries a
        // new token.
        else if (error.reason !== 'ResponseTooLarge' && !isEndpointFailure(error) && !isTokenRefused(error))
          throw error;
      }
    }
  }

  /** Returns undefined if the server cannot stream this range. */
  #stream(request: Init<RangeRequest>, options: CallOptions): AsyncGenerator<readonly KeyValue[], void> | undefined {
    const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request;
    // etcd does not stream ranges with revision bounds.
    const isBounded = minModRevision || maxModRevision || minCreateRevision || maxCreateRevision;
    return this.#canStream && !isBounded ? this.#chunks(request, this.#rpc.withDefaultTimeout(options)) : undefined;
  }

  async *#chunks(
    request: Init<RangeRequest>,
    options: CallOptions & { readonly timeoutMs: number },
  ): AsyncGenerator<readonly KeyValue[], void> {
    for await (const { rangeResponse } of readStream(this.#rpc, kvMethods.rangeStream, request, options)) {
      const kvs = rangeResponse?.kvs ?? [];
      if (kvs.length > 0) yield kvs.map((kv) => new KeyValue(kv));
    }
  }

  /** Returns the number of keys to request in the next page. Assumes that they are as large as those in `kvs`. */
  #limitAfter(kvs: PageKeys): number {
    const limit = Math.floor((this.#pageBytes * kvs.length) / Math.max(1, kvs.bytes));
    return Math.max(1, Math.min(MAX_PAGE_KEYS, limit));
  }
}

function checkSignalOf({ signal }: CallOptions): void {
  if (signal?.aborted) throw canceled(signal, 'rejected', kvMethods.range.path);
}

/** Returns the range from the first key after `key` to `end`. Returns undefined if this range cannot contain a key. */
function rangeAfter(key: Uint8Array, end: Uint8Array | undefined): WireRange | undefined {
  const start = keyAfter(key);
  if (end === undefined) return { key: start, rangeEnd: new Uint8Array([0]) };
  return compareBytes(start, end) < 0 ? { key: start, rangeEnd: end } : undefined;
}

/** A change to each key of a response, such as removing the prefix of a namespace. */
type Change = (kv: mvccpb.KeyValue) => mvccpb.KeyValue;

/**
 * The keys of a response, still encoded. The scanner decodes only the last key immediately, so that it can request the
 * next page before the other keys are decoded.
 */
class PackedKeyValues {
  readonly #bytes: Uint8Array;
  readonly #lastAt: number;
  readonly #change: Change;
  readonly length: number;

  constructor(bytes: Uint8Array, length: number, lastAt: number, change: Change = (kv) => kv) {
    this.#bytes = bytes;
    this.length = length;
    this.#lastAt = lastAt;
    this.#change = change;
  }

  get bytes(): number {
    return this.#bytes.length;
  }

  last(): mvccpb.KeyValue | undefined {
    if (this.length === 0) return undefined;
    return this.#change(new Reader(this.#bytes, RangeResponse.typeName, this.#lastAt).message(mvccpb.KeyValue));
  }

  /**
   * Applies a change to each key when the key is decoded. `namespaceTransport` calls this method in place of
   * `Array.prototype.map`, because `namespaceTransport` treats this object as the array `kvs` of a `RangeResponse`.
   */
  map(change: Change): PackedKeyValues {
    return new PackedKeyValues(this.#bytes, this.length, this.#lastAt, (kv) => change(this.#change(kv)));
  }

  /** Decodes each key only when the caller asks for it, so that keys that the caller drops can be garbage-collected. */
  *[Symbol.iterator](): Generator<KeyValue, void> {
    const reader = new Reader(this.#bytes, RangeResponse.typeName);
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      if (tag === KVS) yield new KeyValue(this.#change(reader.message(mvccpb.KeyValue)));
      else reader.skip(tag);
    }
  }
}

type PageKeys = Iterable<KeyValue> & Pick<PackedKeyValues, 'length' | 'bytes' | 'last'>;

/** A `RangeResponse` whose keys may still be encoded. */
interface RangePage {
  header: ResponseHeader | undefined;
  kvs: PageKeys;
  more: boolean;
}

/** The Protobuf tags of fields of `RangeResponse`: the field number times 8, plus the wire type. */
const HEADER = 10;
const KVS = 18;
const MORE = 24;

const RangePage: Codec<RangePage> = {
  typeName: RangeResponse.typeName,
  write: () => {},
  create: () => ({ header: undefined, kvs: new PackedKeyValues(NO_BYTES, 0, 0), more: false }),
  read(outer, page) {
    const bytes = outer.rest();
    const reader = new Reader(bytes, RangeResponse.typeName);
    let length = 0;
    let lastAt = 0;
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      if (tag === HEADER) page.header = reader.message(ResponseHeader, page.header);
      else if (tag === MORE) page.more = reader.bool();
      else {
        if (tag === KVS) {
          length += 1;
          lastAt = reader.at;
        }
        reader.skip(tag);
      }
    }
    page.kvs = new PackedKeyValues(bytes, length, lastAt);
  },
};

/** Returns the page of a response whose keys may be decoded already. */
function pageOf({ header, kvs, more }: RangePage | RangeResponse): RangePage {
  if (kvs instanceof PackedKeyValues) return { header, kvs, more };
  const list = kvs as readonly mvccpb.KeyValue[];
  const bytes = list.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
  const own = Object.assign(
    list.map((kv) => new KeyValue(kv)),
    { bytes, last: () => list.at(-1) },
  );
  return { header, kvs: own, more };
}

const rangePage: Method<RangeRequest, RangePage, 'unary'> = { ...kvMethods.range, response: RangePage };
