import { checkList } from '../arguments.js';
import { EtcdError, invalidInput } from '../errors.js';
import type { RequestOp, ResponseOp, TxnRequest, TxnResponse } from '../gen/etcdserverpb/rpc.js';
import {
  DELETE_OPTIONS,
  deleteRequest,
  PUT_HINTS,
  PUT_OPTIONS,
  putRequest,
  RANGE_OPTIONS,
  rangeRequest,
} from '../kv/requests.js';
import { deleteResult, putResult, rangeResult } from '../kv/results.js';
import { checkFields, checkOptions, KEYS_HINTS } from '../options.js';
import type { Init } from '../protobuf/codec.js';
import { compareRequest } from './compare.js';
import type { Op, OpResult, Txn, TxnResult } from './op.js';

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
