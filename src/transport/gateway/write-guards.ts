import { amended, EtcdError, invalidInput } from '../../errors/etcd-error.js';
import {
  CompareResult,
  CompareTarget,
  type DeleteRangeRequest,
  type DeleteRangeResponse,
  type PutResponse,
  type RequestOp,
  type ResponseOp,
  type TxnRequest,
  type TxnResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { KeyValue } from '../../gen/mvccpb/kv.js';
import type { Init } from '../../protobuf/codec.js';
import { compareBytes, NO_BYTES } from '../../runtime/bytes.js';
import { connectionLost } from './failures.js';
import { type Ask, type Guard, GuardPool, markOf } from './guard-pool.js';

type Operation = Exclude<RequestOp['request'], undefined>;
type Answer = Exclude<ResponseOp['response'], undefined>;

type Operations = readonly Init<RequestOp>[];

/** What the server answers to a put, a deletion or a transaction. */
export type WriteResponse = PutResponse | DeleteRangeResponse | TxnResponse;

/** One write of a caller. */
export interface GuardedWrite {
  /** gRPC path of the caller's own call, for errors. */
  readonly method: string;
  readonly endpoint: string;
  readonly operation: Operation;
  /** The caller's request: the same object in each attempt of one call. */
  readonly source: object;
  /** Aborts when the call ends. */
  readonly signal: AbortSignal;
  /** Called before the write itself leaves. */
  readonly onSent: () => void;
}

/** A guard that one attempt of a write has. */
interface Hold {
  readonly guard: Guard;
  /** The guard's revision is known after the attempt, so that it can serve another write. */
  isKept: boolean;
}

/**
 * Writes over a host that may send a request again, at any later time, without telling.
 *
 * Each write takes a guard key, whose mod revision this client knows, and goes as one transaction: if the guard still
 * has that revision, the transaction does the write and puts the guard, whose revision moves by that. A second copy
 * finds another revision and does nothing. Revisions of a key only go forward, even if somebody deletes the key.
 *
 * If the answer that arrives is that of the second copy, it tells what the guard has. The guard's value tells whether the
 * first copy came through, but the answer to the first copy is lost.
 */
export class WriteGuards {
  readonly #pool: GuardPool;
  readonly #maxTxnOps: number;
  /**
   * Guards of writes that the server refused, where the client could not find out whether an earlier copy came through.
   * If the caller's call is attempted again, as with a new token, it takes the same guard at the same revision: of all
   * attempts and copies one applies.
   */
  readonly #unsettled = new WeakMap<object, Guard>();

  constructor(prefix: Uint8Array, maxTxnOps: number) {
    this.#pool = new GuardPool(prefix);
    this.#maxTxnOps = maxTxnOps;
  }

  /** What the server answers to the operation. @throws EtcdError */
  async write(write: GuardedWrite, ask: Ask): Promise<WriteResponse> {
    const unsettled = this.#unsettled.get(write.source);
    this.#unsettled.delete(write.source);
    if (unsettled !== undefined) return this.#attempt(write, { guard: unsettled, isKept: false }, ask);
    const hold: Hold = { guard: await this.#pool.take(ask, write.signal), isKept: false };
    try {
      return await this.#attempt(write, hold, ask);
    } finally {
      if (hold.isKept) this.#pool.putBack(hold.guard);
      else this.#pool.discard();
    }
  }

  async #attempt(write: GuardedWrite, hold: Hold, ask: Ask): Promise<WriteResponse> {
    const { guard } = hold;
    const number = guard.writes + 1;
    let answer: TxnResponse;
    try {
      const success = movingGuard(write.operation, guard.key, putOf(guard, number));
      this.#checkCount(success, write.operation);
      answer = await ask(methods.kv.txn, ifUnmoved(guard, success), write.onSent);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      hold.isKept = error.outcome === 'not-sent';
      if (error.outcome !== 'rejected') throw error;
      return this.#refused(write, hold, number, ask, error);
    }
    if (!answer.succeeded) return this.#repeated(write, number, answer);
    // The second answer is that of the guard's put. Where there is none, the write has deleted the guard, or may have.
    if (answer.responses.length === 2) keep(hold, number, answer);
    else this.#pool.discardFree();
    return this.#answerTo(write, answer);
  }

  /**
   * The server refused this copy, but may have applied an earlier one, for example before it was restarted and forgot
   * the token. The client moves the guard, after which no copy can apply, and sees whether the guard had moved.
   */
  async #refused(
    write: GuardedWrite,
    hold: Hold,
    number: number,
    ask: Ask,
    refusal: EtcdError,
  ): Promise<WriteResponse> {
    const { guard } = hold;
    const settling = number + 1;
    let answer: TxnResponse;
    try {
      answer = await ask(methods.kv.txn, ifUnmoved(guard, [putOf(guard, settling)]));
    } catch {
      this.#unsettled.set(write.source, guard);
      throw amended(refusal, { outcome: 'unknown' });
    }
    if (!answer.succeeded && !isFrom(guardIn(answer), settling)) return this.#repeated(write, number, answer);
    if (answer.succeeded) keep(hold, settling, answer);
    throw refusal;
  }

  /** The guard is not where this client left it. */
  #repeated({ method, endpoint, operation }: GuardedWrite, number: number, answer: TxnResponse): PutResponse {
    const kv = guardIn(answer);
    if (kv === undefined) this.#pool.discardFree();
    const isApplied = isFrom(kv, number);
    if (isApplied && answer.header !== undefined && operation.case === 'requestPut' && !operation.value.prevKv)
      return { header: { ...answer.header, revision: kv.modRevision }, prevKv: undefined };
    const problem = isApplied
      ? 'the host sent the request again after its connection broke: the write was applied once, and its answer is lost'
      : 'the guard key of the write was deleted or changed: the write was applied once, or not at all';
    throw connectionLost(problem, { method, endpoint });
  }

  #answerTo({ method, endpoint, operation }: GuardedWrite, { header, responses }: TxnResponse): WriteResponse {
    const response = responses[0]?.response;
    if (response?.case !== ANSWERS[operation.case]) {
      const malformed = { code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' } as const;
      throw new EtcdError('the responses of a guarded write do not match it', { ...malformed, method, endpoint });
    }
    // In a transaction the answer to an operation has a header without member and term.
    if (operation.case !== 'requestTxn' || response.case !== 'responseTxn')
      return { ...(response.value as WriteResponse), header };
    const { succeeded } = response.value;
    const { length } = succeeded ? operation.value.success : operation.value.failure;
    // The put of the guard may be the last operation of a branch.
    return { header, succeeded, responses: response.value.responses.slice(0, length) };
  }

  /** As the server counts: the longest list of a transaction, and what is nested in it shares what is left. */
  #checkCount(success: Operations, operation: Operation): void {
    const count = countOf({ compare: [{}], success });
    if (count <= this.#maxTxnOps) return;
    const given = operation.case === 'requestTxn' ? countOf(operation.value) : 1;
    throw invalidInput(
      'txn',
      `${given} operations`,
      `at most ${this.#maxTxnOps - (count - given)} over this gateway, because the guard of the write takes ` +
        `${count - given} of the ${this.#maxTxnOps} that a transaction may have (maxTxnOps, the server's --max-txn-ops)`,
    );
  }
}

/** By the operation that they answer. */
const ANSWERS = {
  requestRange: 'responseRange',
  requestPut: 'responsePut',
  requestDeleteRange: 'responseDeleteRange',
  requestTxn: 'responseTxn',
} as const satisfies Record<Operation['case'], Answer['case']>;

/** A transaction that does this if the guard has not moved, and reads the guard if it has. */
function ifUnmoved({ key, revision }: Guard, success: Operations): Init<TxnRequest> {
  const unmoved = { target: CompareTarget.MOD, result: CompareResult.EQUAL, key } as const;
  return {
    compare: [{ ...unmoved, targetUnion: { case: 'modRevision', value: revision } }],
    success,
    failure: [{ request: { case: 'requestRange', value: { key } } }],
  };
}

/** Keeps the guard's lease. */
function putOf({ key }: Guard, number: number): Init<RequestOp> {
  return { request: { case: 'requestPut', value: { key, value: markOf(number), ignoreLease: true } } };
}

/** The guard after its put, whose revision is the transaction's. */
function keep(hold: Hold, number: number, { header }: TxnResponse): void {
  if (header === undefined) return;
  hold.guard.revision = header.revision;
  hold.guard.writes = number;
  hold.isKept = true;
}

/** What the guard has, as a transaction tells that found it moved. */
function guardIn({ responses }: TxnResponse): KeyValue | undefined {
  const response = responses[0]?.response;
  return response?.case === 'responseRange' ? response.value.kvs[0] : undefined;
}

function isFrom(kv: KeyValue | undefined, number: number): kv is KeyValue {
  return kv !== undefined && compareBytes(kv.value, markOf(number)) === 0;
}

/**
 * The operation and a put of the guard. The server refuses a transaction that both puts and deletes a key: in a branch
 * that deletes a range with the guard in it, the deletion stands for the put.
 *
 * @throws EtcdError, reason `InvalidInput`.
 */
function movingGuard(operation: Operation, key: Uint8Array, put: Init<RequestOp>): Operations {
  if (!mayDelete({ request: operation }, key)) return [{ request: operation }, put];
  if (operation.case !== 'requestTxn') return [{ request: operation }];
  const { compare, success, failure } = operation.value;
  const branch = (operations: Operations): Operations => {
    if (!operations.some((each) => mayDelete(each, key))) return [...operations, put];
    if (operations.some(({ request }) => request?.case !== 'requestTxn' && mayDelete({ request }, key)))
      return operations;
    throw invalidInput(
      'txn',
      'a nested transaction that deletes the range of the guard keys',
      'a guardPrefix of the gateway outside the ranges that nested transactions delete',
    );
  };
  const value = { compare, success: branch(success), failure: branch(failure) };
  return [{ request: { case: 'requestTxn', value } }];
}

function mayDelete({ request }: Init<RequestOp>, key: Uint8Array): boolean {
  if (request?.case === 'requestDeleteRange') return isIn(request.value, key);
  if (request?.case !== 'requestTxn') return false;
  const { success = [], failure = [] } = request.value;
  return [...success, ...failure].some((operation) => mayDelete(operation, key));
}

/** A deletion with an empty end is one of a single key, which is not the guard. */
function isIn({ key: start = NO_BYTES, rangeEnd: end = NO_BYTES }: Init<DeleteRangeRequest>, key: Uint8Array): boolean {
  if (end.length === 0 || compareBytes(key, start) < 0) return false;
  return (end.length === 1 && end[0] === 0) || compareBytes(key, end) < 0;
}

function countOf({ compare = [], success = [], failure = [] }: Init<TxnRequest>): number {
  const nested = [...success, ...failure].map(({ request }) =>
    request?.case === 'requestTxn' ? countOf(request.value) : 0,
  );
  return Math.max(compare.length, success.length, failure.length) + Math.max(0, ...nested);
}
