import { type RangeRequest, RangeResponse, ResponseHeader } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import * as mvccpb from '../gen/mvccpb/kv.js';
import type { Codec } from '../protobuf/codec.js';
import { Reader } from '../protobuf/reader.js';
import type { Method } from '../protobuf/schema.js';
import { NO_BYTES } from '../runtime/bytes.js';
import { KeyValue } from './key-value.js';

/** Tags of `RangeResponse`: field number and wire type. */
const HEADER = 10;
const KVS = 18;
const MORE = 24;

/** What a namespace makes of a key, for one. */
type Change = (kv: mvccpb.KeyValue) => mvccpb.KeyValue;

/**
 * The keys of a response as they came, not decoded yet. Thus the next page can be asked for before this one is decoded,
 * and server and client work at the same time.
 */
export class PackedKeyValues {
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

  /** The same keys, each to be changed when it is decoded. */
  map(change: Change): PackedKeyValues {
    return new PackedKeyValues(this.#bytes, this.length, this.#lastAt, (kv) => change(this.#change(kv)));
  }

  /** Decodes each when it is asked for: what nobody keeps is gone before the next one comes. */
  *[Symbol.iterator](): Generator<KeyValue, void> {
    const reader = new Reader(this.#bytes, RangeResponse.typeName);
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      if (tag === KVS) yield new KeyValue(this.#change(reader.message(mvccpb.KeyValue)));
      else reader.skip(tag);
    }
  }
}

/** As `RangeResponse`, with the keys packed. */
export interface RangePage {
  header: ResponseHeader | undefined;
  kvs: PackedKeyValues;
  more: boolean;
}

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

/** `Range`, answered by a page. */
export const rangePage: Method<RangeRequest, RangePage, 'unary'> = { ...methods.kv.range, response: RangePage };
