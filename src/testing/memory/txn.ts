import { compareBytes, NO_BYTES } from '../../base/index.js';
import {
  type Compare,
  CompareResult,
  CompareTarget,
  type DeleteRangeRequest,
  type PutRequest,
  type PutResponse,
  type RangeRequest,
  type RequestOp,
  type ResponseOp,
  type TxnRequest,
  type TxnResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { KeyValue } from '../../gen/mvccpb/kv.js';
import type { Init } from '../../wire/index.js';
import { compare, KeyRange, keyId } from './key-range.js';
import type { Lessor } from './lessor.js';
import { readRange } from './range.js';
import { serverError } from './service.js';
import type { MemoryVersion } from './settings.js';
import type { ReadView, WriteTransaction } from './write-transaction.js';

// Puts, deletions and transactions, as `etcdserver/txn` of etcd applies them. etcd evaluates all conditions of a
// transaction, and checks the operations of the chosen branches, before it changes anything.

/**
 * An operation of a chosen branch. Instead of a nested transaction, it contains the chosen branch of that transaction.
 */
type Step = Exclude<RequestOp['request'], undefined | { case: 'requestTxn' }> | { case: 'branch'; value: Branch };

/** The branch of a transaction that its conditions have chosen. */
export interface Branch {
  readonly succeeded: boolean;
  readonly steps: readonly Step[];
}

/** The state, other than the keys, that the checks of a put depend on. */
export interface PutContext {
  readonly leases: Pick<Lessor, 'has'>;
  readonly version: MemoryVersion;
}

/**
 * Evaluates the conditions of a transaction, and those of its nested transactions in the chosen branch. Returns the
 * chosen branch.
 */
export function chooseBranch(view: ReadView, { compare, success, failure }: TxnRequest): Branch {
  const succeeded = compare.every((condition) => holds(view, condition));
  const steps: Step[] = [];
  for (const { request } of succeeded ? success : failure) {
    if (request?.case === 'requestTxn') steps.push({ case: 'branch', value: chooseBranch(view, request.value) });
    else if (request !== undefined) steps.push(request);
  }
  return { succeeded, steps };
}

/** Whether etcd answers the transaction without a raft proposal: each operation of both branches is a range. */
export function isReadOnly({ success, failure }: TxnRequest): boolean {
  return [...success, ...failure].every(({ request }) => request?.case === 'requestRange');
}

/**
 * Returns the request as etcd before 3.7 applies it at a member where no call waits for the result: a transaction loses
 * its ranges, except for those of nested transactions (`removeNeedlessRangeReqs` in `etcdserver/server.go`). So this
 * member applies a transaction that the member of the call refuses because of such a range: etcd issue 18667.
 */
export function withoutNeedlessReads<Request>(request: Request): Request {
  const { success, failure } = request as Partial<TxnRequest>;
  if (success === undefined || failure === undefined) return request;
  const [then, otherwise] = [success, failure].map((operations) =>
    operations.filter((operation) => operation.request?.case !== 'requestRange'),
  );
  return { ...request, success: then, failure: otherwise };
}

/** Whether all operations of a transaction that is read-only are serializable ranges. */
export function isSerializable({ success, failure }: TxnRequest): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' && request.value.serializable,
  );
}

/**
 * Checks the operations against the state before the transaction.
 *
 * @throws StatusError with `KeyNotFound`, `LeaseNotFound`, `FutureRev` or `Compacted`.
 */
export function checkBranch(view: ReadView, branch: Branch, context: PutContext): void {
  // etcd 3.5 checks all puts before all ranges: `applierV3backend.Txn` in `etcdserver/apply.go`. Other versions check
  // the operations in their order.
  const passes = context.version === '3.5' ? (['requestPut', 'requestRange'] as const) : [undefined];
  for (const only of passes) checkSteps(view, branch, context, only);
}

function checkSteps(view: ReadView, branch: Branch, context: PutContext, only?: Step['case']): void {
  for (const step of branch.steps) {
    if (step.case === 'branch') checkSteps(view, step.value, context, only);
    else if (only !== undefined && step.case !== only) continue;
    else if (step.case === 'requestPut') checkPutInTxn(view, step.value, context);
    else if (step.case === 'requestRange') checkRevision(view, step.value);
  }
}

function checkPutInTxn(view: ReadView, request: PutRequest, { leases, version }: PutContext): void {
  const checks = [() => checkPrevious(view, request), () => checkLease(request, leases)];
  // etcd 3.7 checks the lease first: `checkPut` in `etcdserver/txn/put.go`. Older versions check the lease last.
  for (const check of version === '3.7' ? checks.reverse() : checks) check();
}

/** Unlike a range outside of a transaction, a range in a transaction may not have a revision below 0. */
function checkRevision(view: ReadView, { revision }: RangeRequest): void {
  if (revision === 0n) return;
  if (revision > view.revision) throw serverError('FutureRev');
  if (revision < view.compacted) throw serverError('Compacted');
}

/** Runs the operations of the chosen branch. */
export function runBranch(view: WriteTransaction, branch: Branch, version: MemoryVersion): Init<TxnResponse> {
  const responses = branch.steps.map((step) => ({ response: runStep(view, step, version) }));
  return { succeeded: branch.succeeded, responses };
}

/** Runs one operation. The header of an inner response has only a revision; that of a nested transaction is empty. */
function runStep(view: WriteTransaction, step: Step, version: MemoryVersion): Init<ResponseOp['response']> {
  switch (step.case) {
    case 'requestRange': {
      const { revision, ...result } = readRange(view, step.value, version);
      return { case: 'responseRange', value: { header: { revision }, ...result } };
    }
    case 'requestPut': {
      const { prevKv } = runPut(view, step.value);
      return { case: 'responsePut', value: { header: { revision: view.revision }, prevKv } };
    }
    case 'requestDeleteRange': {
      const result = runDeleteRange(view, step.value);
      return { case: 'responseDeleteRange', value: { header: { revision: view.revision }, ...result } };
    }
    case 'branch':
      return { case: 'responseTxn', value: { header: {}, ...runBranch(view, step.value, version) } };
  }
}

/** @throws StatusError with `LeaseNotFound` if the put names a lease that does not exist. */
export function checkLease({ lease }: PutRequest, leases: PutContext['leases']): void {
  if (lease !== 0n && !leases.has(lease)) throw serverError('LeaseNotFound');
}

function checkPrevious(view: ReadView, { key, ignoreValue, ignoreLease }: PutRequest): void {
  if ((ignoreValue || ignoreLease) && view.get(keyId(key)) === undefined) throw serverError('KeyNotFound');
}

/**
 * Puts a key.
 *
 * @throws StatusError with `KeyNotFound` if the put keeps the value or lease of a key that does not exist.
 */
export function runPut(view: WriteTransaction, request: PutRequest): Pick<PutResponse, 'prevKv'> {
  const { key, ignoreValue, ignoreLease, prevKv } = request;
  checkPrevious(view, request);
  const before = view.get(keyId(key));
  const value = ignoreValue ? before?.value : request.value;
  const lease = ignoreLease ? before?.lease : request.lease;
  view.put(key, value ?? NO_BYTES, lease ?? 0n);
  return { prevKv: prevKv ? before : undefined };
}

export function runDeleteRange(
  view: WriteTransaction,
  { key, rangeEnd, prevKv }: DeleteRangeRequest,
): { readonly deleted: bigint; readonly prevKvs: KeyValue[] } {
  const deleted = view.delete(new KeyRange(key, rangeEnd));
  return { deleted: BigInt(deleted.length), prevKvs: prevKv ? deleted : [] };
}

/**
 * Whether a condition holds for each key of its range. If the range has no key, the version, the lease and the
 * revisions count as 0.
 */
function holds(view: ReadView, condition: Compare): boolean {
  const found = view.range(new KeyRange(condition.key, condition.rangeEnd));
  if (found.length > 0) return found.every((kv) => holdsFor(kv, condition));
  // A key that does not exist has no value, which differs from an empty value.
  return condition.target !== CompareTarget.VALUE && holdsFor(KeyValue.create(), condition);
}

function holdsFor(kv: KeyValue, condition: Compare): boolean {
  const order = orderOf(kv, condition);
  switch (condition.result) {
    case CompareResult.EQUAL:
      return order === 0;
    case CompareResult.NOT_EQUAL:
      return order !== 0;
    case CompareResult.GREATER:
      return order > 0;
    case CompareResult.LESS:
      return order < 0;
    default:
      // In etcd, a condition with an unknown relation holds.
      return true;
  }
}

/** Compares a property of the key with the operand. An operand of another type than the property counts as empty. */
function orderOf(kv: KeyValue, { target, targetUnion: operand }: Compare): number {
  switch (target) {
    case CompareTarget.VALUE:
      return compareBytes(kv.value, operand?.case === 'value' ? operand.value : NO_BYTES);
    case CompareTarget.VERSION:
      return compare(kv.version, operand?.case === 'version' ? operand.value : 0n);
    case CompareTarget.CREATE:
      return compare(kv.createRevision, operand?.case === 'createRevision' ? operand.value : 0n);
    case CompareTarget.MOD:
      return compare(kv.modRevision, operand?.case === 'modRevision' ? operand.value : 0n);
    case CompareTarget.LEASE:
      return compare(kv.lease, operand?.case === 'lease' ? operand.value : 0n);
    default:
      // In etcd, the operand counts as equal if the property is unknown.
      return 0;
  }
}
