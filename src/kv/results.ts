import {
  type DeleteRangeResponse,
  type PutResponse,
  type RangeResponse,
  ResponseHeader,
} from '../gen/etcdserverpb/rpc.js';
import { KeyValue } from './key-value.js';

/** The keys of a range, as of one revision. */
export interface RangeResult {
  readonly kvs: readonly KeyValue[];
  /** More keys match than the limit let through. */
  readonly more: boolean;
  /** Keys in the range, whatever the limit and the revision filters. */
  readonly count: bigint;
}

/** What was there before a put. */
export interface PutResult {
  /** The key as it was before, if `prevKv` was asked for and there was one. */
  readonly prevKv: KeyValue | undefined;
}

/** What was deleted. */
export interface DeleteResult {
  /** Number of keys deleted. */
  readonly deleted: bigint;
  /** The deleted keys, if `prevKv` was asked for. */
  readonly prevKvs: readonly KeyValue[];
}

/** The answer to a request of its own, rather than to an operation inside a transaction. */
export type WithHeader<Result> = Result & { readonly header: ResponseHeader };

export function withHeader<Result>(header: ResponseHeader | undefined, result: Result): WithHeader<Result> {
  return { header: header ?? ResponseHeader.create(), ...result };
}

export function rangeResult(response: RangeResponse): RangeResult {
  return { kvs: response.kvs.map((kv) => new KeyValue(kv)), more: response.more, count: response.count };
}

export function putResult(response: PutResponse): PutResult {
  return { prevKv: response.prevKv && new KeyValue(response.prevKv) };
}

export function deleteResult(response: DeleteRangeResponse): DeleteResult {
  return { deleted: response.deleted, prevKvs: response.prevKvs.map((kv) => new KeyValue(kv)) };
}
