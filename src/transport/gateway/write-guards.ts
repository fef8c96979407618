import { amended, EtcdError, explained, invalidInput } from '../../errors/etcd-error.js';
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
import type { Method } from '../../protobuf/schema.js';
import { compareBytes, concatBytes, NO_BYTES, randomId, textOf, toBytes } from '../../runtime/bytes.js';
import { environment } from '../../runtime/environment.js';
import { UniqueQueue } from '../../runtime/queues.js';
import { onAbort } from '../../runtime/signals.js';
import { monotonicMs } from '../../runtime/timers.js';
import { connectionLost } from './http.js';

/**
 * Sends one of the requests that a guarded write consists of, such as the grant of the guard's lease or the
 * transaction, with the metadata and deadline of the write. Calls `onSent` just before it sends the request, because
 * from then on the server may receive the request.
 */
export type MakeCall = <Request, Response>(
  method: Method<Request, Response>,
  request: Init<Request>,
  onSent?: () => void,
) => Promise<Response>;

type Operation = Exclude<RequestOp['request'], undefined>;
type OperationResponse = Exclude<ResponseOp['response'], undefined>;
type Operations = readonly Init<RequestOp>[];
type WriteResponse = PutResponse | DeleteRangeResponse | TxnResponse;

/** One attempt of a caller's write: of a put, a deletion or a transaction. */
export interface GuardedWrite {
  /** gRPC path of the caller's call, for errors. */
  readonly method: string;
  /** URL of the endpoint, for errors. */
  readonly endpoint: string;
  readonly operation: Operation;
  /** The caller's request: the same object in each attempt of one call. */
  readonly source: object;
  /** Aborts when the call ends. */
  readonly signal: AbortSignal;
  /** Called just before the client sends the write itself, but not for requests that only prepare a guard. */
  readonly onSent: () => void;
}

/**
 * A key that keeps the server from applying a write twice; see `WriteGuards`. A guard serves one write at a time. Only
 * the client that created the key writes it.
 */
interface Guard {
  readonly key: Uint8Array;
  /** Mod revision of the key, as far as this client knows. */
  revision: bigint;
  /** Number of writes so far. Each write puts its number as the key's value, so a read shows the last applied write. */
  writes: number;
  /** When the client stops using the guard: half of the lease's TTL after the client requested the lease. */
  readonly expires: Expiry;
}

/** One point in time on two clocks, because on some systems the monotonic clock stops while the machine sleeps. */
interface Expiry {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** A guard that one attempt of a write uses. */
interface GuardInUse {
  readonly guard: Guard;
  /** Whether the guard's revision is known after the attempt. Only then can the guard protect another write. */
  isReusable: boolean;
}

/** TTL, in seconds, of a guard key's lease. */
const TTL_SECONDS = 600;
/**
 * How long the client uses a guard, in milliseconds. This is only the first half of the TTL, so that the guard key does
 * not expire during a write.
 */
const USABLE_MS = (TTL_SECONDS / 2) * 1_000;
/**
 * Maximum number of guarded writes at the same time. Further writes wait. The limit costs a browser nothing, because
 * browsers open at most six connections to one server.
 */
const MAX_GUARDS = 32;

/**
 * Sends writes on a runtime that may resend a request by itself, however late.
 *
 * Each write uses a guard key whose mod revision the client knows. The client sends the write as one transaction. If
 * the guard key still has this revision, the transaction applies the write and also puts the guard key. This put
 * changes the key's revision. A second copy of the request finds a changed revision and does nothing. The old revision
 * never returns, even if another client deletes the key, because revisions only grow.
 *
 * If the client receives the response to the second copy, the response to the first copy is lost. The guard key's value
 * in the response shows whether the first copy was applied.
 */
export class WriteGuards {
  readonly #pool: GuardPool;
  readonly #maxTxnOps: number;
  /**
   * The guards of writes that the server refused while the client could not find out whether an earlier copy was
   * applied. If the client retries the call, for example with a new token, the new attempt uses the same guard at the
   * same revision. Therefore at most one of all attempts and copies is applied.
   */
  readonly #unsettled = new WeakMap<object, Guard>();

  constructor(prefix: Uint8Array, maxTxnOps: number) {
    this.#pool = new GuardPool(prefix);
    this.#maxTxnOps = maxTxnOps;
  }

  /**
   * Sends the write with a guard key. Resolves with the server's response to the write.
   *
   * @throws EtcdError if the write fails. Its `outcome` says whether the write may have been applied.
   */
  async write(write: GuardedWrite, call: MakeCall): Promise<WriteResponse> {
    const unsettled = this.#unsettled.get(write.source);
    this.#unsettled.delete(write.source);
    if (unsettled !== undefined) return this.#attempt(write, { guard: unsettled, isReusable: false }, call);
    const inUse: GuardInUse = { guard: await this.#pool.take(call, write.signal), isReusable: false };
    try {
      return await this.#attempt(write, inUse, call);
    } finally {
      this.#pool.release(inUse.isReusable ? inUse.guard : undefined);
    }
  }

  async #attempt(write: GuardedWrite, inUse: GuardInUse, call: MakeCall): Promise<WriteResponse> {
    const { guard } = inUse;
    const number = guard.writes + 1;
    let answer: TxnResponse;
    try {
      const success = withGuardPut(write.operation, guard.key, putOf(guard, number));
      this.#checkCount(success, write.operation);
      answer = await call(methods.kv.txn, ifUnmoved(guard, success), write.onSent);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      inUse.isReusable = error.outcome === 'not-sent';
      if (error.outcome !== 'rejected') throw error;
      return this.#settleRefusal(write, inUse, number, call, error);
    }
    if (!answer.succeeded) return this.#answerToRepeat(write, number, answer);
    // The second response is the response to the put of the guard key. If there is no second response, the transaction
    // contained no such put, because the write deletes a range that may contain guard keys.
    if (answer.responses.length === 2) noteMove(inUse, number, answer);
    else this.#pool.forgetFree();
    return this.#answerTo(write, answer);
  }

  /**
   * Finds out whether a write that the server refused was applied nevertheless. The server may have applied an earlier
   * copy of the request, for example before a restart after which it no longer accepts the token. This method changes
   * the guard key's revision, so that no later copy can be applied. The response shows whether an earlier copy had
   * already changed the revision.
   */
  async #settleRefusal(
    write: GuardedWrite,
    inUse: GuardInUse,
    number: number,
    call: MakeCall,
    refusal: EtcdError,
  ): Promise<WriteResponse> {
    const { guard } = inUse;
    const settling = number + 1;
    let answer: TxnResponse;
    try {
      answer = await call(methods.kv.txn, ifUnmoved(guard, [putOf(guard, settling)]));
    } catch {
      this.#unsettled.set(write.source, guard);
      throw amended(refusal, { outcome: 'unknown' });
    }
    if (!answer.succeeded && !isOfWrite(guardIn(answer), settling)) return this.#answerToRepeat(write, number, answer);
    if (answer.succeeded) noteMove(inUse, settling, answer);
    throw refusal;
  }

  /**
   * Handles a write whose transaction found that the guard key no longer had the known revision, because an earlier
   * copy of the request or another client has changed the key. Returns the response to the write if the guard key shows
   * that a put without `prevKv` was applied.
   *
   * @throws EtcdError with reason `ConnectionLost` in every other case, because the response to the write is lost.
   */
  #answerToRepeat({ method, endpoint, operation }: GuardedWrite, number: number, answer: TxnResponse): PutResponse {
    const kv = guardIn(answer);
    if (kv === undefined) this.#pool.forgetFree();
    const isApplied = isOfWrite(kv, number);
    if (isApplied && answer.header !== undefined && operation.case === 'requestPut' && !operation.value.prevKv)
      return { header: { ...answer.header, revision: kv.modRevision }, prevKv: undefined };
    const problem = isApplied
      ? 'the runtime resent the request after the connection broke: the write was applied once; its response is lost'
      : 'another client deleted or changed the guard key that gateway() adds to each write (option guardPrefix): ' +
        'the write was applied once, or not at all';
    throw connectionLost(problem, { method, endpoint });
  }

  #answerTo({ method, endpoint, operation }: GuardedWrite, { header, responses }: TxnResponse): WriteResponse {
    const response = responses[0]?.response;
    if (response?.case !== RESPONSE_CASES[operation.case]) {
      const malformed = { code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' } as const;
      throw new EtcdError("the server's response does not match the request", {
        ...malformed,
        method,
        endpoint,
      });
    }
    // The header of an operation's response lacks the member and the term, so use the header of the whole transaction.
    if (operation.case !== 'requestTxn' || response.case !== 'responseTxn')
      return { ...(response.value as WriteResponse), header };
    const { succeeded } = response.value;
    const { length } = succeeded ? operation.value.success : operation.value.failure;
    // The put of the guard key may be the last operation of a branch. The caller must not see the response to this put.
    return { header, succeeded, responses: response.value.responses.slice(0, length) };
  }

  /**
   * Checks that the transaction does not exceed `maxTxnOps`. Counts as the server does: the length of the longest list
   * (comparisons or operations of one branch), plus the maximum count of a nested transaction.
   *
   * @throws EtcdError with reason `InvalidInput` if the transaction exceeds `maxTxnOps`.
   */
  #checkCount(success: Operations, operation: Operation): void {
    const count = countOf({ compare: [{}], success });
    if (count <= this.#maxTxnOps) return;
    const given = operation.case === 'requestTxn' ? countOf(operation.value) : 1;
    throw invalidInput(
      'txn',
      given === 1 ? '1 operation' : `${given} operations`,
      `at most ${this.#maxTxnOps - (count - given)} through the JSON gateway, because the guard key that the client ` +
        `adds to every write takes ${count - given} of the ${this.#maxTxnOps} operations that a transaction may ` +
        'contain (option maxTxnOps of the client, --max-txn-ops of the server)',
    );
  }
}

/**
 * The guards of one client. A write takes the free guard that was used most recently. If no guard is free, the pool
 * creates one.
 */
export class GuardPool {
  readonly #prefix: Uint8Array;
  #free: Guard[] = [];
  #taken = 0;
  /** Writes that wait until another write releases its guard. */
  readonly #waiting = new UniqueQueue<() => void>();

  constructor(prefix: Uint8Array) {
    this.#prefix = prefix;
  }

  /**
   * Resolves with a guard for one write, as soon as fewer than `MAX_GUARDS` are in use. Rejects with outcome
   * `not-sent`, because the write that needs the guard has not been sent.
   */
  async take(call: MakeCall, signal: AbortSignal): Promise<Guard> {
    if (this.#taken < MAX_GUARDS) this.#taken += 1;
    else await this.#whenReleased(signal);
    try {
      for (let guard = this.#free.pop(); guard !== undefined; guard = this.#free.pop())
        if (isUsable(guard.expires)) return guard;
      return await createGuard(this.#prefix, call);
    } catch (error) {
      this.release();
      throw error instanceof EtcdError ? amended(error, { outcome: 'not-sent' }) : error;
    }
  }

  /**
   * Ends a write's use of its guard. `reusable` is this guard if its revision is known. Without `reusable`, the pool
   * drops the guard.
   */
  release(reusable?: Guard): void {
    if (reusable !== undefined) this.#free.push(reusable);
    const next = this.#waiting.take();
    if (next === undefined) this.#taken -= 1;
    else next();
  }

  /** Drops all free guards, because the deletion of one guard key has probably deleted the other guard keys too. */
  forgetFree(): void {
    this.#free = [];
  }

  /** Resolves when another write releases its guard. */
  #whenReleased(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        offAbort();
        resolve();
      };
      const offAbort = onAbort(signal, () => {
        this.#waiting.delete(enter);
        reject(signal.reason);
      });
      this.#waiting.add(enter);
    });
  }
}

function isUsable(expires: Expiry): boolean {
  const wallMs = environment.Date.now();
  return monotonicMs() < expires.monotonicMs && wallMs < expires.wallMs && wallMs >= expires.wallMs - USABLE_MS;
}

/**
 * Creates a guard with two requests that are safe to repeat: a lease grant and a transaction. The ID of the lease is
 * random, so if the lease already exists, an earlier copy of the request has granted it. The transaction puts the key
 * only if the key does not exist. If a copy of the transaction arrives after another client has deleted the key, the
 * copy creates the key with a new revision, which no write expects.
 */
async function createGuard(prefix: Uint8Array, call: MakeCall): Promise<Guard> {
  const id = randomId();
  const key = concatBytes(prefix, toBytes(id.toString(16).padStart(16, '0'), 'id'));
  const expires = { monotonicMs: monotonicMs() + USABLE_MS, wallMs: environment.Date.now() + USABLE_MS };
  await call(methods.lease.leaseGrant, { id, ttl: BigInt(TTL_SECONDS) }).catch((error: EtcdError) => {
    if (error.reason !== 'LeaseExist') throw error;
  });
  const missing = { target: CompareTarget.CREATE, result: CompareResult.EQUAL, key } as const;
  const { header, succeeded, responses } = await call(methods.kv.txn, {
    compare: [{ ...missing, targetUnion: { case: 'createRevision', value: 0n } }],
    success: [{ request: { case: 'requestPut', value: { key, value: guardValue(0), lease: id } } }],
    failure: [{ request: { case: 'requestRange', value: { key } } }],
  }).catch((error: EtcdError) => {
    throw error.reason === 'PermissionDenied' ? explained(error, permissionProblem(prefix)) : error;
  });
  const found = responses[0]?.response;
  const earlier = found?.case === 'responseRange' ? found.value.kvs[0]?.modRevision : undefined;
  const revision = succeeded ? header?.revision : earlier;
  if (revision) return { key, revision, writes: 0, expires };
  throw new EtcdError('another client deleted the guard key that gateway() adds to each write (option guardPrefix)', {
    code: 'Unavailable',
    reason: 'ConnectionLost',
    outcome: 'not-sent',
  });
}

/**
 * Returns the error text for a user without permission for the guard keys. The text may show their prefix, because the
 * prefix is a client option and not one of the caller's keys.
 */
function permissionProblem(prefix: Uint8Array): string {
  return (
    `the user may not read and write keys with the prefix ${JSON.stringify(textOf(prefix))}: this runtime may send a ` +
    'request twice, so each write needs a guard key. Grant the user the permission readwrite on the prefix, or set ' +
    'gateway({ guardPrefix }) to a prefix that the user may read and write'
  );
}

/** Returns the value of a guard key after this number of writes. */
function guardValue(writes: number): Uint8Array {
  return toBytes(String(writes), 'writes');
}

/** The kind of response that belongs to each kind of operation. */
const RESPONSE_CASES = {
  requestRange: 'responseRange',
  requestPut: 'responsePut',
  requestDeleteRange: 'responseDeleteRange',
  requestTxn: 'responseTxn',
} as const satisfies Record<Operation['case'], OperationResponse['case']>;

/**
 * Returns a transaction that performs `success` if the guard key has the known revision, and otherwise reads the guard
 * key.
 */
function ifUnmoved({ key, revision }: Guard, success: Operations): Init<TxnRequest> {
  const unmoved = { target: CompareTarget.MOD, result: CompareResult.EQUAL, key } as const;
  return {
    compare: [{ ...unmoved, targetUnion: { case: 'modRevision', value: revision } }],
    success,
    failure: [{ request: { case: 'requestRange', value: { key } } }],
  };
}

/** Returns a put of the guard key that leaves the key attached to its lease. */
function putOf({ key }: Guard, number: number): Init<RequestOp> {
  return { request: { case: 'requestPut', value: { key, value: guardValue(number), ignoreLease: true } } };
}

/** Records the guard's new revision, which is the revision of the transaction that put the guard key. */
function noteMove(inUse: GuardInUse, number: number, { header }: TxnResponse): void {
  if (header === undefined) return;
  inUse.guard.revision = header.revision;
  inUse.guard.writes = number;
  inUse.isReusable = true;
}

/**
 * Returns the guard key from the response to a transaction that found an unexpected revision; undefined if the key does
 * not exist.
 */
function guardIn({ responses }: TxnResponse): KeyValue | undefined {
  const response = responses[0]?.response;
  return response?.case === 'responseRange' ? response.value.kvs[0] : undefined;
}

/** Returns whether the guard key `kv` was last put by the write with this number. */
function isOfWrite(kv: KeyValue | undefined, number: number): kv is KeyValue {
  return kv !== undefined && compareBytes(kv.value, guardValue(number)) === 0;
}

/**
 * Returns the operation together with a put of the guard key. The server refuses a transaction that both puts and
 * deletes the same key. Therefore a branch that deletes a range that contains the guard key gets no put: the deletion
 * itself makes the guard's known revision invalid.
 *
 * @throws EtcdError with reason `InvalidInput` if a branch deletes such a range only in a nested transaction. The
 * client cannot know whether the nested transaction will run the deletion, and so whether the branch needs the put.
 */
function withGuardPut(operation: Operation, key: Uint8Array, put: Init<RequestOp>): Operations {
  if (!mayDelete({ request: operation }, key)) return [{ request: operation }, put];
  if (operation.case !== 'requestTxn') return [{ request: operation }];
  const { compare, success, failure } = operation.value;
  const branch = (operations: Operations): Operations => {
    if (!operations.some((each) => mayDelete(each, key))) return [...operations, put];
    if (operations.some(({ request }) => request?.case !== 'requestTxn' && mayDelete({ request }, key)))
      return operations;
    throw invalidInput(
      'txn',
      'a nested transaction that deletes the guard keys, which gateway() adds to each write',
      'a nested transaction that deletes no guard key; set gateway({ guardPrefix }) to a prefix that it does not delete',
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

/** Whether the range contains the guard key. A range without an end is one key of the caller, never the guard key. */
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
