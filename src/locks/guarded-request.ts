import { type EtcdError, explained, invalidInput, NO_BYTES, textOf } from '../base/index.js';
import { contains } from '../client/index.js';
import * as wire from '../gen/etcdserverpb/rpc.js';
import { isCheckedByOne } from '../rpc/index.js';
import type { Init } from '../wire/index.js';

// A guard is a key that makes a write safe to repeat: see guards.ts. The functions in this file combine a transaction
// and its guard into one request, and convert the response to that request into the response to the transaction.

export type Operations = readonly Init<wire.RequestOp>[];

/** A guard key and its state, as far as this client knows it. */
export interface Guard {
  readonly key: Uint8Array;
  /** Mod revision of the key. 0n if the key was not put yet. */
  revision: bigint;
  /** The number of the latest write with this guard. */
  writes: number;
}

/**
 * Whether the guarded transaction has the operations of `else` in a nested transaction. Without conditions, the server
 * never runs these operations, but it still checks them, as it does without a guard.
 */
export function hasElse({ compare = [], failure = [] }: Init<wire.TxnRequest>): boolean {
  return compare.length > 0 || failure.length > 0;
}

/**
 * Returns the transaction that performs the request if the guard is unchanged. `move` returns the operation that
 * changes the guard. The argument of `move` is the path of the branch: see `Applied` in guards.ts.
 *
 * One nested transaction that contains the whole request would be simpler and shorter. But etcd before 3.4.42, 3.5.28
 * and 3.6.9 does not check the permissions of the operations in nested transactions, so that the put of a queue key
 * would succeed without permission, and its deletion would not. So the operations of `then` are not nested, except for
 * the reads that would otherwise let members differ.
 */
export function guardedRequest(
  request: Init<wire.TxnRequest>,
  guard: Guard,
  move: (path: string) => Init<wire.RequestOp>,
): Init<wire.TxnRequest> {
  const { compare: conditions = [], success = [], failure = [] } = request;
  const compare = [unchanged(guard), ...conditions];
  const then = withGuard(success, guard.key, '1', move).map((operation) =>
    isCheckedByOne(operation, compare) ? nestedRead(operation) : operation,
  );
  if (!hasElse(request)) return { compare, success: then, failure: [read(guard)] };
  const otherwise = withGuard(failure, guard.key, '0', move);
  const whenFalse = { compare: [unchanged(guard)], success: otherwise, failure: [read(guard)] };
  const nested = { request: { case: 'requestTxn', value: whenFalse } } as const;
  return { compare, success: then, failure: [nested] };
}

/**
 * Returns a nested transaction that makes the read, so that all members check the read. Otherwise, some members could
 * apply the write and move the guard although another member has refused the transaction.
 */
function nestedRead(operation: Init<wire.RequestOp>): Init<wire.RequestOp> {
  return { request: { case: 'requestTxn', value: { success: [operation] } } };
}

/** @throws EtcdError with reason `InvalidInput` if the request and its guard need more than `maxTxnOps` operations. */
export function checkGuardedCount(request: Init<wire.TxnRequest>, maxTxnOps: number): void {
  const guard = { key: NO_BYTES, revision: 0n, writes: 0 };
  const count = operationCount(guardedRequest(request, guard, () => read(guard)));
  if (count <= maxTxnOps) return;
  const own = operationCount(request);
  const limit = 'option maxTxnOps of the client, --max-txn-ops of the server';
  const why = `the guard of the write takes ${count - own} of ${maxTxnOps} (${limit})`;
  throw invalidInput('txn', `${own} operations`, `at most ${maxTxnOps - (count - own)}, because ${why}`);
}

/**
 * Returns the number of operations as the server counts them: the length of the longest list, plus the largest number
 * of operations in one of the nested transactions.
 */
function operationCount({ compare = [], success = [], failure = [] }: Init<wire.TxnRequest>): number {
  const nested = [...success, ...failure].map(({ request }) =>
    request?.case === 'requestTxn' ? operationCount(request.value) : 0,
  );
  return Math.max(compare.length, success.length, failure.length) + Math.max(0, ...nested);
}

/** Returns the condition that the guard still has the mod revision that this client knows. */
export function unchanged({ key, revision }: Guard): Init<wire.Compare> {
  return {
    key,
    target: wire.CompareTarget.MOD,
    result: wire.CompareResult.EQUAL,
    targetUnion: { case: 'modRevision', value: revision },
  };
}

export function read({ key }: Guard): Init<wire.RequestOp> {
  return { request: { case: 'requestRange', value: { key } } };
}

/** The branch of a transaction that ran. */
export interface Branch {
  readonly succeeded: boolean;
  readonly operations: Operations;
  /** The path of the nested transactions: see `Applied` in guards.ts. */
  readonly path: string;
}

/** Returns the branch of the transaction to which the path leads. */
export function branchOf({ success = [], failure = [] }: Init<wire.TxnRequest>, path: string): Branch {
  const succeeded = path.startsWith('1');
  return { succeeded, operations: succeeded ? success : failure, path: path.slice(1) };
}

/**
 * Returns the nested transaction of a branch if there is exactly one, and undefined otherwise. `withGuard` puts the guard
 * in the branches of this nested transaction instead of in the branch itself.
 */
export function onlyNested(operations: Operations): Init<wire.TxnRequest> | undefined {
  const [nested, ...others] = operations.filter(({ request }) => request?.case === 'requestTxn');
  return others.length === 0 && nested?.request?.case === 'requestTxn' ? nested.request.value : undefined;
}

/**
 * Adds the operation that changes the guard, unless an operation of the branch may delete the guard. If the branch has
 * exactly one nested transaction, adds the operation to the branches of that transaction. `path` is the path of the
 * branch: see `Applied` in guards.ts.
 *
 * @throws EtcdError with reason `InvalidInput` if one of several nested transactions may delete the guard.
 */
function withGuard(
  operations: Operations,
  key: Uint8Array,
  path: string,
  move: (path: string) => Init<wire.RequestOp>,
): Operations {
  const nested = onlyNested(operations);
  const others = operations.filter(({ request }) => request?.case !== 'requestTxn');
  if (others.some((operation) => mayDelete(operation, key))) return operations;
  if (nested === undefined) {
    if (!operations.some((operation) => mayDelete(operation, key))) return [...operations, move(path)];
    throw invalidInput(
      'txn',
      'one of several nested transactions that may delete the guard of the write',
      'such a deletion in a transaction of its own, or another guardPrefix of the client',
    );
  }
  const guarded = {
    ...nested,
    success: withGuard(nested.success ?? [], key, `${path}1`, move),
    failure: withGuard(nested.failure ?? [], key, `${path}0`, move),
  };
  return operations.map((operation) =>
    operation.request?.case === 'requestTxn' ? { request: { case: 'requestTxn', value: guarded } } : operation,
  );
}

/**
 * Returns the responses to the operations of a branch, as without the guard: without the responses to the puts of the
 * guard, and with the responses to the reads themselves instead of those to `nestedRead`.
 */
export function withoutGuards(responses: readonly wire.ResponseOp[], operations: Operations): wire.ResponseOp[] {
  return operations.map(({ request }, index) => {
    const operation = responses[index];
    const response = operation?.response;
    if (operation === undefined || response?.case !== 'responseTxn') return operation as wire.ResponseOp;
    // The response to a `nestedRead`.
    if (request?.case !== 'requestTxn') return response.value.responses[0] as wire.ResponseOp;
    const { success = [], failure = [] } = request.value;
    const { value } = response;
    const own = withoutGuards(value.responses, value.succeeded ? success : failure);
    return { response: { case: 'responseTxn', value: { ...value, responses: own } } };
  });
}

export function mayDelete({ request }: Init<wire.RequestOp>, key: Uint8Array): boolean {
  if (request?.case === 'requestDeleteRange') {
    const { key: start = NO_BYTES, rangeEnd = NO_BYTES } = request.value;
    return contains({ key: start, rangeEnd }, key);
  }
  if (request?.case !== 'requestTxn') return false;
  const { success = [], failure = [] } = request.value;
  return [...success, ...failure].some((operation) => mayDelete(operation, key));
}

/** Returns a transaction that puts the key if its version is below 0, so never. The server checks the permission. */
export function neverPut(key: Uint8Array): Init<wire.TxnRequest> {
  const { VERSION: target } = wire.CompareTarget;
  const isNever = {
    key,
    target,
    result: wire.CompareResult.LESS,
    targetUnion: { case: 'version', value: 0n },
  } as const;
  return { compare: [isNever], success: [{ request: { case: 'requestPut', value: { key } } }] };
}

/**
 * Returns the error of a write whose guards the server denies. `denied` is the error of `neverPut`, which names no key,
 * because the keys that `error` names are not what was denied. `prefix` is the prefix of the guards in the store.
 */
export function guardsDenied(error: EtcdError, denied: EtcdError, prefix: Uint8Array): EtcdError {
  const needed =
    'locks, elections, queues, barriers, registrations and writes with retryWrites also put guards, which make their ' +
    'writes safe';
  return explained(
    error,
    `${denied.problem}; ${needed}: grant readwrite on the prefix ${JSON.stringify(textOf(prefix))}`,
  );
}
