import {
  type BytesLike,
  checkedLaterAll,
  checkFields,
  checkList,
  checkOptions,
  type EtcdError,
  invalidInput,
  KEYS_HINTS,
  ownBytes,
  printable,
  show,
} from '../../base/index.js';
import type * as wire from '../../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../../gen/methods/kv.js';
import { type Rpc, type WithHeader, WRITE_OPTIONS, type WriteOptions, withHeader, withRead } from '../../rpc/index.js';
import type { Init } from '../../wire/index.js';
import { type Compare, conditionRequest } from './compare.js';
import type { KeyValue } from './key-value.js';
import { checkKey, type Keys, ownKey, ownKeys, resolveKeys, singleKey } from './keys.js';
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
  malformedResponse,
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
} from './requests.js';
import { checkTxn } from './txn-rules.js';

export { type Compare, compare, type Operator } from './compare.js';

/** An operation that reads one key. */
export interface GetOp {
  readonly type: 'get';
  readonly key: BytesLike;
  readonly options: GetOptions;
}

/** An operation that reads a range of keys. */
export interface RangeOp {
  readonly type: 'range';
  readonly keys: Keys;
  readonly options: RangeOptions;
}

/** An operation that puts a key. */
export interface PutOp {
  readonly type: 'put';
  readonly key: BytesLike;
  readonly value: BytesLike;
  readonly options: PutOptions;
}

/** An operation that deletes a key or a range of keys. */
export interface DeleteOp {
  readonly type: 'delete';
  readonly keys: Keys;
  readonly options: DeleteOptions;
}

/** An operation that runs a nested transaction. */
export interface TxnOp<
  If extends Conditions = Conditions,
  Then extends readonly Op[] = readonly Op[],
  Else extends readonly Op[] = readonly Op[],
> {
  readonly type: 'txn';
  readonly txn: Txn<If, Then, Else>;
}

/** An operation of a transaction. */
export type Op = GetOp | RangeOp | PutOp | DeleteOp | TxnOp<Conditions, readonly Op[], readonly Op[]>;

/** The result of an operation. */
export type OpResult<O> = O extends GetOp
  ? KeyValue | undefined
  : O extends RangeOp
    ? RangeResult
    : O extends PutOp
      ? PutResult
      : O extends DeleteOp
        ? DeleteResult
        : O extends TxnOp<infer If, infer Then, infer Else>
          ? TxnResult<If, Then, Else>
          : never;

/** The conditions of a transaction; undefined when the transaction has no `if`. */
export type Conditions = readonly Compare[] | undefined;

/**
 * A transaction. The server runs `then` if every condition in `if` is true, and `else` otherwise. No other write takes
 * effect between the conditions and the operations. Without `if`, the server always runs `then`, and `else` is not
 * allowed.
 */
export interface Txn<
  If extends Conditions = Conditions,
  Then extends readonly Op[] = readonly Op[],
  Else extends readonly Op[] = readonly Op[],
> {
  readonly if?: If | undefined;
  readonly then?: Then | undefined;
  readonly else?: (Else & (If extends undefined ? undefined : unknown)) | undefined;
}

/** The results of a list of operations, in the order of the operations. */
export type Results<Ops extends readonly Op[]> = { readonly [Index in keyof Ops]: OpResult<Ops[Index]> };

/**
 * The result of a transaction. `succeeded` is true if the server ran `then`, which it always does when the transaction
 * has no `if`. `responses` contains the results of the operations that ran.
 */
export type TxnResult<If extends Conditions, Then extends readonly Op[], Else extends readonly Op[]> =
  | { readonly succeeded: true; readonly responses: Results<Then> }
  | ([If] extends [undefined] ? never : { readonly succeeded: false; readonly responses: Results<Else> });

/** Keeps TypeScript from inferring T where this type stands, as `NoInfer` of TypeScript 5.4 and later does. */
type NotInferred<T> = [T][T extends unknown ? 0 : never];

/**
 * Makes the operations of a transaction. Copies the caller's bytes.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid.
 *
 * @example
 * const { responses } = await etcd.txn({ then: [op.put('a', '1'), op.get('b'), op.range(prefix('c/'))] });
 * const [, b, c] = responses;
 * console.log(b?.text(), c.count);
 */
export const op = {
  /** Reads one key. The result is the key, or undefined if it does not exist. Accepts the options of `etcd.get`. */
  get: (key: BytesLike, options?: GetOptions): GetOp =>
    printable({ type: 'get', key: ownKey(key, 'key'), options: getOptions(options) }),
  /** Reads a range of keys. Accepts the options of `etcd.range`. */
  range: (keys: Keys, options?: RangeOptions): RangeOp =>
    printable({ type: 'range', keys: ownKeys(keys), options: rangeOptions(options) }),
  /** Puts a key. Accepts the options of `etcd.put`. */
  put: (key: BytesLike, value: BytesLike, options?: PutOptions): PutOp =>
    printable({
      type: 'put',
      key: ownKey(key, 'key'),
      value: ownBytes(value, 'value'),
      options: putOptions(options),
    }),
  /** Deletes a key or a range of keys. Accepts the options of `etcd.delete`. */
  delete: (keys: Keys, options?: DeleteOptions): DeleteOp =>
    printable({ type: 'delete', keys: ownKeys(keys), options: deleteOptions(options) }),
  /** Runs a nested transaction (etcd 3.3 and later). */
  txn: <
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(
    txn: Txn<If, Then, Else>,
    // `NotInferred` keeps `If` undefined for a transaction without `if`, even if the expected type is any `Op`.
  ): TxnOp<NotInferred<If>, Then, Else> => {
    const own = ownTxn(txn);
    txnRequest(own);
    return printable({ type: 'txn', txn: own });
  },
};

const TXN = checkedLaterAll('if', 'then', 'else');
// The fields of each operation. Options belong in `options`, so the client refuses an option directly next to `key`.
const KEY_OP = checkedLaterAll('type', 'key', 'options');
const KEYS_OP = checkedLaterAll('type', 'keys', 'options');
const PUT_OP = checkedLaterAll('type', 'key', 'options', 'value');
const TXN_OP = checkedLaterAll('type', 'txn');

// These functions check the options of an operation. They return a copy, because the caller may change its object
// before the call.
function getOptions(options: GetOptions = {}): GetOptions {
  checkOptions(options, GET_OPTIONS, 'op.get', GET_HINTS);
  return { ...options };
}

function rangeOptions(options: RangeOptions = {}): RangeOptions {
  checkOptions(options, RANGE_OPTIONS, 'op.range', KEYS_HINTS);
  return { ...options };
}

function putOptions(options: PutOptions = {}): PutOptions {
  checkOptions(options, PUT_OPTIONS, 'op.put', PUT_HINTS);
  return { ...options };
}

function deleteOptions(options: DeleteOptions = {}): DeleteOptions {
  checkOptions(options, DELETE_OPTIONS, 'op.delete', KEYS_HINTS);
  return { ...options };
}

/** Copies the caller's lists, because the client reads them again when the response arrives. */
function ownTxn<T extends Txn>(txn: T): T {
  checkFields<Txn, typeof TXN>(txn, TXN, 'txn');
  const lists = (['if', 'then', 'else'] as const).map((name) => [
    name,
    txn[name] === undefined ? undefined : checkList<unknown>(txn[name], name),
  ]);
  return Object.fromEntries(lists);
}

/**
 * @throws EtcdError with reason `InvalidInput` if the transaction is invalid. The message names the invalid argument.
 */
function txnRequest(txn: Txn): Init<wire.TxnRequest> {
  if (txn.else !== undefined && txn.if === undefined)
    throw invalidInput('else', 'operations that never run, because the transaction has no if', 'else together with if');
  return {
    compare: (txn.if ?? []).map((condition, index) => conditionRequest(condition, `if[${index}]`)),
    success: opRequests(txn.then, 'then'),
    failure: opRequests(txn.else, 'else'),
  };
}

function opRequests(list: readonly Op[] | undefined, name: string): Init<wire.RequestOp>[] {
  return (list ?? []).map((operation, index) => opRequest(operation, `${name}[${index}]`));
}

/** Checks a list of operations. Returns a copy of the list. `argument` is the name of the list in error messages. */
export function checkOps(list: readonly Op[], argument: string): readonly Op[] {
  const own = checkList(list, argument);
  opRequests(own, argument);
  return own;
}

function opRequest(operation: Op, argument: string): Init<wire.RequestOp> {
  switch (operation?.type) {
    case 'get': {
      checkFields(operation, KEY_OP, 'op.get');
      const range = singleKey(checkKey(operation.key, 'key'));
      return { request: { case: 'requestRange', value: rangeRequest(range, getOptions(operation.options)) } };
    }
    case 'range': {
      checkFields(operation, KEYS_OP, 'op.range');
      const range = resolveKeys(operation.keys, 'keys');
      return { request: { case: 'requestRange', value: rangeRequest(range, rangeOptions(operation.options)) } };
    }
    case 'put':
      checkFields(operation, PUT_OP, 'op.put');
      return {
        request: {
          case: 'requestPut',
          value: putRequest(operation.key, operation.value, putOptions(operation.options)),
        },
      };
    case 'delete':
      checkFields(operation, KEYS_OP, 'op.delete');
      return {
        request: { case: 'requestDeleteRange', value: deleteRequest(operation.keys, deleteOptions(operation.options)) },
      };
    case 'txn':
      checkFields(operation, TXN_OP, 'op.txn');
      return { request: { case: 'requestTxn', value: txnRequest(ownTxn(operation.txn)) } };
    default:
      throw invalidInput(
        argument,
        show(operation),
        'an operation made by op.get, op.range, op.put, op.delete or op.txn',
      );
  }
}

/** A transaction that is checked and ready to be sent, any number of times. */
export interface PreparedTxn<Result> {
  readonly request: Init<wire.TxnRequest>;
  readonly resultOf: (response: wire.TxnResponse) => Result;
}

export function preparedTxn<
  const If extends Conditions = undefined,
  const Then extends readonly Op[] = [],
  const Else extends readonly Op[] = [],
>(txn: Txn<If, Then, Else>): PreparedTxn<TxnResult<If, Then, Else>> {
  const own = ownTxn(txn);
  return { request: txnRequest(own), resultOf: (response) => txnResult(own, response) };
}

/**
 * The method of a transaction that the client may repeat, whatever happened to an earlier attempt: the transaction only
 * reads, or a guard keeps a second copy from having an effect.
 */
export const REPEATABLE_TXN = { ...kvMethods.txn, repeatable: true } as const;

/** Runs a transaction, see `KV.txn`. `maxTxnOps` is the limit for `checkTxn`. */
export async function runTxn<
  const If extends Conditions = undefined,
  const Then extends readonly Op[] = [],
  const Else extends readonly Op[] = [],
>(
  rpc: Rpc,
  maxTxnOps: number,
  txn: Txn<If, Then, Else>,
  options: WriteOptions = {},
): Promise<WithHeader<TxnResult<If, Then, Else>>> {
  checkOptions(options, WRITE_OPTIONS, 'txn');
  const { request, resultOf } = preparedTxn(txn);
  const method = checkTxn(request, maxTxnOps) ? REPEATABLE_TXN : kvMethods.txn;
  const compared = withRead(request);
  const response = await rpc.call(method, compared ?? request, options);
  return withHeader(response.header, resultOf(compared ? { ...response, responses: [] } : response));
}

function txnResult<If extends Conditions, Then extends readonly Op[], Else extends readonly Op[]>(
  txn: Txn<If, Then, Else>,
  { succeeded, responses }: wire.TxnResponse,
): TxnResult<If, Then, Else> {
  const ops: readonly Op[] = (succeeded ? txn.then : txn.else) ?? [];
  if (ops.length !== responses.length) throw mismatch();
  const results = ops.map((operation, index) => opResult(operation, responses[index] as wire.ResponseOp));
  return { succeeded, responses: results } as unknown as TxnResult<If, Then, Else>;
}

function opResult(operation: Op, { response }: wire.ResponseOp): OpResult<Op> {
  if (response?.case === 'responseRange') {
    if (operation.type === 'get') return getResult(response.value);
    if (operation.type === 'range') return rangeResult(response.value);
  }
  if (response?.case === 'responsePut' && operation.type === 'put') return putResult(response.value);
  if (response?.case === 'responseDeleteRange' && operation.type === 'delete') return deleteResult(response.value);
  if (response?.case === 'responseTxn' && operation.type === 'txn') return txnResult(operation.txn, response.value);
  throw mismatch();
}

export function mismatch(): EtcdError {
  return malformedResponse('the responses of the transaction do not match its operations');
}
