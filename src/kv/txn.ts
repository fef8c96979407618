import { EtcdError, invalidInput } from '../errors/etcd-error.js';
import type { DeleteRangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse } from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { checkFields, checkList, checkOptions, KEYS_HINTS } from '../runtime/arguments.js';
import { compareBytes, idOf } from '../runtime/bytes.js';
import { compareRequest } from './compare.js';
import type { Op, OpResult, Txn, TxnResult } from './op.js';
import {
  DELETE_OPTIONS,
  deleteRequest,
  PUT_HINTS,
  PUT_OPTIONS,
  putRequest,
  RANGE_OPTIONS,
  rangeRequest,
} from './requests.js';
import { deleteResult, putResult, rangeResult } from './results.js';

type WireOps = readonly Init<RequestOp>[];
type Interval = { readonly key: Uint8Array; readonly rangeEnd: Uint8Array };
interface Writes {
  /** Keys put, as text of their bytes. */
  readonly puts: ReadonlyMap<string, Uint8Array>;
  readonly deletes: readonly Interval[];
}

/**
 * Refuses what the server would refuse: the longest of a transaction's lists counts against the limit, and nested
 * transactions share what it leaves; a key is written only once.
 *
 * @throws EtcdError, reason `InvalidInput`.
 */
export function checkTxn(txn: Init<TxnRequest>, maxOps: number): void {
  checkCount(txn, maxOps, maxOps);
  checkWrites(txn.success ?? [], 'then');
  checkWrites(txn.failure ?? [], 'else');
}

function checkCount(txn: Init<TxnRequest>, left: number, maxOps: number): void {
  for (const [name, list] of [
    ['if', txn.compare],
    ['then', txn.success],
    ['else', txn.failure],
  ] as const) {
    const length = list?.length ?? 0;
    if (length <= left) continue;
    const nested = left < maxOps ? ` in a nested transaction, whose parents leave ${left}` : '';
    throw invalidInput(
      name,
      `${length} operations${nested}`,
      `at most ${maxOps} (maxTxnOps, the server's --max-txn-ops)`,
    );
  }
  const longest = Math.max(txn.compare?.length ?? 0, txn.success?.length ?? 0, txn.failure?.length ?? 0);
  for (const { request } of [...(txn.success ?? []), ...(txn.failure ?? [])]) {
    if (request?.case === 'requestTxn') checkCount(request.value, left - longest, maxOps);
  }
}

function checkWrites(ops: WireOps, list: string): Writes {
  const puts = new Map<string, Uint8Array>();
  const deletes: Interval[] = [];
  for (const { request } of ops) {
    if (request?.case === 'requestDeleteRange') deletes.push(intervalOf(request.value));
  }
  const add = (key: Uint8Array, alternatives?: ReadonlyMap<string, Uint8Array>): void => {
    const id = idOf(key);
    const twice = puts.has(id) && !alternatives?.has(id);
    if (twice || deletes.some((interval) => contains(interval, key))) {
      throw invalidInput(
        list,
        `a key that is ${twice ? 'put twice' : 'put and deleted'}`,
        'one write a key in a transaction',
      );
    }
    puts.set(id, key);
  };
  for (const { request } of ops) {
    if (request?.case !== 'requestTxn') continue;
    // Only one of the two lists runs, so they may write the same key.
    const whenThen = checkWrites(request.value.success ?? [], list);
    const whenElse = checkWrites(request.value.failure ?? [], list);
    for (const key of whenThen.puts.values()) add(key);
    for (const key of whenElse.puts.values()) add(key, whenThen.puts);
    deletes.push(...whenThen.deletes, ...whenElse.deletes);
  }
  for (const { request } of ops) {
    if (request?.case === 'requestPut') add(request.value.key as Uint8Array);
  }
  return { puts, deletes };
}

function intervalOf({ key, rangeEnd }: Init<DeleteRangeRequest>): Interval {
  return { key: key as Uint8Array, rangeEnd: rangeEnd as Uint8Array };
}

function contains({ key, rangeEnd }: Interval, point: Uint8Array): boolean {
  if (rangeEnd.length === 0) return compareBytes(key, point) === 0;
  if (compareBytes(point, key) < 0) return false;
  return (rangeEnd.length === 1 && rangeEnd[0] === 0) || compareBytes(point, rangeEnd) < 0;
}

const TXN = { if: true, then: true, else: true } as const;
// The options of an operation have an object of their own: beside the key they would be ignored.
const KEY_OP = { type: true, key: true, options: true } as const;
const KEYS_OP = { type: true, keys: true, options: true } as const;
const PUT_OP = { ...KEY_OP, value: true } as const;
const TXN_OP = { type: true, txn: true } as const;

/** @throws EtcdError, reason `InvalidInput`. */
export function txnRequest(txn: Txn): Init<TxnRequest> {
  checkFields(txn, TXN, 'txn');
  return {
    compare: checkList(txn.if, 'if').map((condition, index) => compareRequest(condition, `if[${index}]`)),
    success: checkList(txn.then, 'then').map(opRequest),
    failure: checkList(txn.else, 'else').map(opRequest),
  };
}

export function txnResult<Then extends readonly Op[], Else extends readonly Op[]>(
  txn: Txn<Then, Else>,
  response: TxnResponse,
): TxnResult<Then, Else> {
  const ops: readonly Op[] = (response.succeeded ? txn.then : txn.else) ?? [];
  if (ops.length !== response.responses.length) throw mismatch();
  const responses = ops.map((operation, index) => opResult(operation, response.responses[index] as ResponseOp));
  return { succeeded: response.succeeded, responses } as unknown as TxnResult<Then, Else>;
}

function opRequest(operation: Op): Init<RequestOp> {
  switch (operation?.type) {
    case 'get':
      checkFields(operation, KEY_OP, 'op.get');
      checkOptions(operation.options, RANGE_OPTIONS, 'op.get', KEYS_HINTS);
      return { request: { case: 'requestRange', value: rangeRequest(operation.key, operation.options) } };
    case 'range':
      checkFields(operation, KEYS_OP, 'op.range');
      checkOptions(operation.options, RANGE_OPTIONS, 'op.range', KEYS_HINTS);
      return { request: { case: 'requestRange', value: rangeRequest(operation.keys, operation.options) } };
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
      throw invalidInput('operation', 'something that is none', 'op.get, op.range, op.put, op.delete, op.txn');
  }
}

function opResult(operation: Op, { response }: ResponseOp): OpResult<Op> {
  if (response?.case === 'responseRange') {
    const range = rangeResult(response.value);
    if (operation.type === 'get') return range.kvs[0];
    if (operation.type === 'range') return range;
  }
  if (response?.case === 'responsePut' && operation.type === 'put') return putResult(response.value);
  if (response?.case === 'responseDeleteRange' && operation.type === 'delete') return deleteResult(response.value);
  if (response?.case === 'responseTxn' && operation.type === 'txn') return txnResult(operation.txn, response.value);
  throw mismatch();
}

function mismatch(): EtcdError {
  return new EtcdError('the responses of the transaction do not match its operations', {
    code: 'Internal',
    reason: 'MalformedMessage',
    outcome: 'unknown',
  });
}
