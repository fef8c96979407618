import { invalidInput } from '../errors/etcd-error.js';
import * as wire from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import {
  checkChoice,
  checkFields,
  checkInt64,
  checkList,
  checkOptions,
  KEYS_HINTS,
  show,
} from '../runtime/arguments.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import type { KeyValue } from './key-value.js';
import { checkKey, contains, type Keys, resolveKeys, singleKey, type WireRange } from './keys.js';
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

/** How a condition compares a property of a key with the operand. */
export type Operator = '==' | '!=' | '<' | '>';

/**
 * A condition of a transaction. It compares a property (`target`) of one key, or of every key of a range, with an
 * operand. For a key that does not exist, the version, the revisions and the lease are 0n, and a comparison of its
 * value is always false. A range that contains no key counts as one key that does not exist.
 */
export type Compare =
  | {
      readonly target: 'version' | 'createRevision' | 'modRevision' | 'lease';
      readonly keys: Keys;
      readonly operator: Operator;
      readonly operand: bigint;
    }
  | { readonly target: 'value'; readonly keys: Keys; readonly operator: Operator; readonly operand: BytesLike };

const comparison =
  (target: 'version' | 'createRevision' | 'modRevision' | 'lease') =>
  (keys: Keys, operator: Operator, operand: bigint): Compare => ({ target, keys, operator, operand });

/**
 * Makes the conditions of a transaction.
 *
 * @example
 * await etcd.txn({
 *   if: [compare.missing('config/size'), compare.value('config/mode', '==', 'setup')],
 *   then: [op.put('config/size', '10')],
 * });
 */
export const compare = {
  /** Compares the key's version: the number of puts since the key was created, or 0n if the key does not exist. */
  version: comparison('version'),
  /** Compares the revision at which the key was created, or 0n if the key does not exist. */
  createRevision: comparison('createRevision'),
  /** Compares the revision of the key's last put, or 0n if the key does not exist. */
  modRevision: comparison('modRevision'),
  /** Compares the ID of the key's lease, or 0n if the key has no lease. */
  lease: comparison('lease'),
  /** Requires that the key exists or, for a range, that the range contains at least one key. */
  exists: (keys: Keys): Compare => ({ target: 'createRevision', keys, operator: '>', operand: 0n }),
  /** Requires that the key does not exist or, for a range, that the range contains no key. */
  missing: (keys: Keys): Compare => ({ target: 'createRevision', keys, operator: '==', operand: 0n }),
  /** Compares the value of the key with `operand`, in byte order. */
  value: (keys: Keys, operator: Operator, operand: BytesLike): Compare => ({
    target: 'value',
    keys,
    operator,
    operand,
  }),
};

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
 * A transaction. The server runs `then` if every condition in `if` holds, and `else` otherwise. The conditions and the
 * operations see the store at one revision. Without `if`, the server always runs `then`, and `else` is not allowed.
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
 * Makes the operations of a transaction.
 *
 * @example
 * const { responses } = await etcd.txn({ then: [op.put('a', '1'), op.get('b'), op.range(prefix('c/'))] });
 * const [, b, c] = responses;
 * console.log(b?.text(), c.count);
 */
export const op = {
  /** Reads one key. The result is the key, or undefined if it does not exist. Accepts the options of `etcd.get`. */
  get: (key: BytesLike, options: GetOptions = {}): GetOp => ({ type: 'get', key, options }),
  /** Reads a range of keys. Accepts the options of `etcd.range`. */
  range: (keys: Keys, options: RangeOptions = {}): RangeOp => ({ type: 'range', keys, options }),
  /** Puts a key. Accepts the options of `etcd.put`. */
  put: (key: BytesLike, value: BytesLike, options: PutOptions = {}): PutOp => ({ type: 'put', key, value, options }),
  /** Deletes a key or a range of keys. Accepts the options of `etcd.delete`. */
  delete: (keys: Keys, options: DeleteOptions = {}): DeleteOp => ({ type: 'delete', keys, options }),
  /** Runs a nested transaction (etcd 3.3 and later). */
  txn: <
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(
    txn: Txn<If, Then, Else>,
    // `NotInferred` keeps `If` undefined for a transaction without `if`, even if the expected type is any `Op`.
  ): TxnOp<NotInferred<If>, Then, Else> => ({ type: 'txn', txn }),
};

const TXN = { if: true, then: true, else: true } as const;
const COMPARE = { target: true, keys: true, operator: true, operand: true } as const;
// The fields of each operation. Options belong in `options`, so the client refuses an option directly next to `key`.
const KEY_OP = { type: true, key: true, options: true } as const;
const KEYS_OP = { type: true, keys: true, options: true } as const;
const PUT_OP = { ...KEY_OP, value: true } as const;
const TXN_OP = { type: true, txn: true } as const;

const COMPARE_RESULTS = {
  '==': wire.CompareResult.EQUAL,
  '!=': wire.CompareResult.NOT_EQUAL,
  '<': wire.CompareResult.LESS,
  '>': wire.CompareResult.GREATER,
} as const;

const COMPARE_TARGETS = {
  version: wire.CompareTarget.VERSION,
  createRevision: wire.CompareTarget.CREATE,
  modRevision: wire.CompareTarget.MOD,
  value: wire.CompareTarget.VALUE,
  lease: wire.CompareTarget.LEASE,
} as const;

/**
 * Converts a transaction to its request.
 *
 * @throws EtcdError with reason `InvalidInput` if the transaction is invalid. The message names the invalid argument.
 */
export function txnRequest(txn: Txn): Init<wire.TxnRequest> {
  checkFields(txn, TXN, 'txn');
  if (txn.else !== undefined && txn.if === undefined)
    throw invalidInput('else', 'operations that never run, because the transaction has no if', 'else together with if');
  return {
    compare: checkList(txn.if, 'if').map((condition, index) => compareRequest(condition, `if[${index}]`)),
    success: checkList(txn.then, 'then').map(opRequest),
    failure: checkList(txn.else, 'else').map(opRequest),
  };
}

function compareRequest(condition: Compare, argument: string): Init<wire.Compare> {
  if (typeof condition !== 'object' || condition === null)
    throw invalidInput(argument, show(condition), 'a condition made by compare, such as compare.exists(key)');
  checkFields(condition, COMPARE, argument);
  const { target, operator, operand, keys } = condition;
  return {
    ...resolveKeys(keys, `${argument}.keys`),
    result: checkChoice(COMPARE_RESULTS, operator, `${argument}.operator`),
    target: checkChoice(COMPARE_TARGETS, target, `${argument}.target`),
    targetUnion:
      target === 'value'
        ? { case: target, value: toBytes(operand, `${argument}.operand`) }
        : { case: target, value: checkInt64(operand, `${argument}.operand`) },
  };
}

function opRequest(operation: Op): Init<wire.RequestOp> {
  switch (operation?.type) {
    case 'get': {
      checkFields(operation, KEY_OP, 'op.get');
      checkOptions(operation.options, GET_OPTIONS, 'op.get', GET_HINTS);
      const range = singleKey(checkKey(operation.key, 'key'));
      return { request: { case: 'requestRange', value: rangeRequest(range, operation.options) } };
    }
    case 'range': {
      checkFields(operation, KEYS_OP, 'op.range');
      checkOptions(operation.options, RANGE_OPTIONS, 'op.range', KEYS_HINTS);
      const range = resolveKeys(operation.keys, 'keys');
      return { request: { case: 'requestRange', value: rangeRequest(range, operation.options) } };
    }
    case 'put':
      checkFields(operation, PUT_OP, 'op.put');
      checkOptions(operation.options, PUT_OPTIONS, 'op.put', PUT_HINTS);
      return { request: { case: 'requestPut', value: putRequest(operation.key, operation.value, operation.options) } };
    case 'delete':
      checkFields(operation, KEYS_OP, 'op.delete');
      checkOptions(operation.options, DELETE_OPTIONS, 'op.delete', KEYS_HINTS);
      return { request: { case: 'requestDeleteRange', value: deleteRequest(operation.keys, operation.options) } };
    case 'txn':
      checkFields(operation, TXN_OP, 'op.txn');
      return { request: { case: 'requestTxn', value: txnRequest(operation.txn) } };
    default:
      throw invalidInput(
        'operation',
        show(operation),
        'an operation made by op.get, op.range, op.put, op.delete or op.txn',
      );
  }
}

export function txnResult<If extends Conditions, Then extends readonly Op[], Else extends readonly Op[]>(
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

function mismatch(): Error {
  return malformedResponse('the responses of the transaction do not match its operations');
}

/**
 * Checks two of the server's rules. First, `if`, `then` and `else` may each contain at most `maxOps` items. A nested
 * transaction has a lower limit: `maxOps` minus the length of the longest list in each transaction around it
 * (`checkTxnRequest` in etcd's `v3rpc/key.go`). Second, a transaction may write each key only once.
 *
 * @throws EtcdError with reason `InvalidInput` if the transaction breaks one of the rules.
 */
export function checkTxn(txn: Init<wire.TxnRequest>, maxOps: number): void {
  checkLengths(txn, maxOps, maxOps);
  checkWrites(txn.success ?? [], 'then');
  checkWrites(txn.failure ?? [], 'else');
}

function checkLengths(
  { compare = [], success = [], failure = [] }: Init<wire.TxnRequest>,
  left: number,
  maxOps: number,
): void {
  for (const [name, { length }] of Object.entries({ if: compare, then: success, else: failure })) {
    if (length <= left) continue;
    const items = `${length} ${name === 'if' ? 'condition' : 'operation'}${length === 1 ? '' : 's'}`;
    const limit = 'option maxTxnOps of the client, --max-txn-ops of the server';
    if (left === maxOps) throw invalidInput(name, items, `at most ${maxOps} (${limit})`);
    const allowed = `at most ${left}, because the transactions around it use ${maxOps - left} of ${maxOps} (${limit})`;
    throw invalidInput(name, `${items} in a nested transaction`, allowed);
  }
  const longest = Math.max(compare.length, success.length, failure.length);
  for (const { request } of [...success, ...failure])
    if (request?.case === 'requestTxn') checkLengths(request.value, left - longest, maxOps);
}

/** The keys that a list of operations writes. */
interface Writes {
  /** The keys that the list puts, indexed by `idOf(key)`. */
  readonly puts: ReadonlyMap<string, Uint8Array>;
  /** The ranges that the list deletes. */
  readonly deletes: readonly WireRange[];
}

function checkWrites(ops: readonly Init<wire.RequestOp>[], list: string): Writes {
  const puts = new Map<string, Uint8Array>();
  const deletes: WireRange[] = [];
  const add = (key: Uint8Array, alternatives?: ReadonlyMap<string, Uint8Array>): void => {
    const id = idOf(key);
    const isPutTwice = puts.has(id) && !alternatives?.has(id);
    if (isPutTwice || deletes.some((range) => contains(range, key))) {
      const given = `a key that is ${isPutTwice ? 'put twice' : 'put and deleted'}`;
      throw invalidInput(list, given, 'at most one write per key in a transaction');
    }
    puts.set(id, key);
  };
  for (const { request } of ops) if (request?.case === 'requestDeleteRange') deletes.push(request.value as WireRange);
  for (const { request } of ops) {
    if (request?.case !== 'requestTxn') continue;
    // The server runs only one of the two lists, so both may write the same key.
    const whenThen = checkWrites(request.value.success ?? [], list);
    const whenElse = checkWrites(request.value.failure ?? [], list);
    for (const key of whenThen.puts.values()) add(key);
    for (const key of whenElse.puts.values()) add(key, whenThen.puts);
    deletes.push(...whenThen.deletes, ...whenElse.deletes);
  }
  for (const { request } of ops) if (request?.case === 'requestPut') add(request.value.key as Uint8Array);
  return { puts, deletes };
}
