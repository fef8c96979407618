import type { BytesLike } from '../runtime/bytes.js';
import type { Compare } from './compare.js';
import type { Keys } from './key-range.js';
import type { KeyValue } from './key-value.js';
import type { DeleteOptions, PutOptions, RangeOptions } from './requests.js';
import type { DeleteResult, PutResult, RangeResult } from './results.js';

// Operations are plain data; these types and `op` are their vocabulary.

/** Reads one key. */
export interface GetOp {
  readonly type: 'get';
  readonly key: BytesLike;
  readonly options: RangeOptions;
}

/** Reads a range of keys. */
export interface RangeOp {
  readonly type: 'range';
  readonly keys: Keys;
  readonly options: RangeOptions;
}

/** Puts a key. */
export interface PutOp {
  readonly type: 'put';
  readonly key: BytesLike;
  readonly value: BytesLike;
  readonly options: PutOptions;
}

/** Deletes a key or a range of keys. */
export interface DeleteOp {
  readonly type: 'delete';
  readonly keys: Keys;
  readonly options: DeleteOptions;
}

/** A transaction within another. */
export interface TxnOp<Then extends readonly Op[] = readonly Op[], Else extends readonly Op[] = readonly Op[]> {
  readonly type: 'txn';
  readonly txn: Txn<Then, Else>;
}

/** What a transaction may do. */
export type Op = GetOp | RangeOp | PutOp | DeleteOp | TxnOp<readonly Op[], readonly Op[]>;

/** What an operation answers with. */
export type OpResult<O> = O extends GetOp
  ? KeyValue | undefined
  : O extends RangeOp
    ? RangeResult
    : O extends PutOp
      ? PutResult
      : O extends DeleteOp
        ? DeleteResult
        : O extends TxnOp<infer Then, infer Else>
          ? TxnResult<Then, Else>
          : never;

/** If every condition holds do `then`, otherwise do `else`; atomic, in one revision. */
export interface Txn<Then extends readonly Op[] = readonly Op[], Else extends readonly Op[] = readonly Op[]> {
  /** Conditions. None: always true. */
  readonly if?: readonly Compare[] | undefined;
  readonly then?: Then | undefined;
  readonly else?: Else | undefined;
}

/** Of each operation its answer. */
export type Results<Ops extends readonly Op[]> = { readonly [Index in keyof Ops]: OpResult<Ops[Index]> };

/** `succeeded` tells which list ran; `responses` has one answer for each of its operations, in order. */
export type TxnResult<Then extends readonly Op[], Else extends readonly Op[]> =
  | { readonly succeeded: true; readonly responses: Results<Then> }
  | { readonly succeeded: false; readonly responses: Results<Else> };

/** The operations of a transaction. */
export const op = {
  /** Answers with the key, or undefined. */
  get: (key: BytesLike, options: RangeOptions = {}): GetOp => ({ type: 'get', key, options }),
  /** Answers with the keys of a range. */
  range: (keys: Keys, options: RangeOptions = {}): RangeOp => ({ type: 'range', keys, options }),
  /** Puts a key. */
  put: (key: BytesLike, value: BytesLike, options: PutOptions = {}): PutOp => ({ type: 'put', key, value, options }),
  /** Deletes a key or a range of keys. */
  delete: (keys: Keys, options: DeleteOptions = {}): DeleteOp => ({ type: 'delete', keys, options }),
  /** A transaction within the transaction (etcd 3.3 and later). */
  txn: <const Then extends readonly Op[] = [], const Else extends readonly Op[] = []>(
    txn: Txn<Then, Else>,
  ): TxnOp<Then, Else> => ({ type: 'txn', txn }),
};
