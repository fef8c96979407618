import type { ServerReason } from './server-errors.js';
import type { StatusCode } from './status.js';

/**
 * Why a call failed, where the cause lies on this side of the wire or is none that etcd names.
 *
 * - `InvalidInput`: An argument was refused before anything was sent; the message names it.
 * - `ConnectFailed`: No connection came about: refused, no such host, TLS, or no answer within the connect deadline.
 * - `ConnectionLost`: The connection or its stream broke while the call was under way.
 * - `StreamRefused`: HTTP/2 refused the call. Outcome `rejected`: by GOAWAY, whose last stream came before it. Outcome
 *   `unknown`: by REFUSED_STREAM, which some proxies also send for what they have passed on.
 * - `ProtocolError`: The peer broke a rule of HTTP/2.
 * - `MalformedMessage`: The peer sent bytes that are no such message.
 * - `ResponseTooLarge`: The response is longer than `maxReceiveBytes`.
 * - `ClientClosed`: The client was closed.
 * - `LeaseExpired`: The server says the lease is gone: it expired, or somebody revoked it.
 * - `LeaseRevoked`: This client revoked the lease.
 * - `LeaseUnreachable`: No renewal was acknowledged before the lease's deadline on the local monotonic clock.
 * - `KeepAliveClosed`: The keepalive was closed by its owner; nobody renews the lease here any more.
 * - `LockLost`: The lock is not held, or not any more: its key is gone.
 * - `LockReleased`: The holder itself has released the lock, or resigned.
 * - `SnapshotCorrupt`: A snapshot lacks bytes, or they are not those that the member sent.
 * - `ClusterChanged`: Another cluster answered, or the store went back to an older revision because the cluster was restored
 *   from a backup.
 * - `StaleRead`: No member at hand has come as far as what was read before; see `orderedReads`.
 * - `TxnConflict`: Others changed what a transaction read, as often as it was tried.
 * - `BarrierFull`: As many as the barrier is for have entered already.
 * - `NotInGateway`: etcd's JSON gateway, over which the client goes, has no such call, or cannot do this with it; or the
 *   host may send the request again, and nothing can keep it from acting twice: see `guardWrites`.
 * - `WatchClosed`: The watch was closed by its owner.
 * - `InvalidJson`: The value of a key is not JSON, so `KeyValue.json` cannot parse it. Nothing was sent.
 * - `Other`: An error with a message that is not in etcd's table.
 */
export type ClientReason =
  | 'InvalidInput'
  | 'ConnectFailed'
  | 'ConnectionLost'
  | 'StreamRefused'
  | 'ProtocolError'
  | 'MalformedMessage'
  | 'ResponseTooLarge'
  | 'ClientClosed'
  | 'LeaseExpired'
  | 'LeaseRevoked'
  | 'LeaseUnreachable'
  | 'KeepAliveClosed'
  | 'LockLost'
  | 'LockReleased'
  | 'SnapshotCorrupt'
  | 'ClusterChanged'
  | 'StaleRead'
  | 'TxnConflict'
  | 'BarrierFull'
  | 'NotInGateway'
  | 'WatchClosed'
  | 'InvalidJson'
  | 'Other';

/** Why a call failed. */
export type Reason = ServerReason | ClientReason;

/**
 * What became of the request. `not-sent`: it never reached a server. `rejected`: a server answered that it did nothing.
 * `unknown`: it may have been processed, or may still be.
 */
export type Outcome = 'not-sent' | 'rejected' | 'unknown';

/** What an `EtcdError` is made of. */
export interface EtcdErrorDetails {
  readonly code: StatusCode;
  readonly reason: Reason;
  readonly outcome: Outcome;
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. */
  readonly method?: string | undefined;
  readonly endpoint?: string | undefined;
  /** Set when a revision asked for is compacted: the oldest one that is not, where the server tells. */
  readonly compactRevision?: bigint | undefined;
  readonly cause?: unknown;
}

/**
 * The one error this package throws. Match on `reason`, never on the text. No key, value, token or password is part
 * of it.
 */
export class EtcdError extends Error {
  override readonly name = 'EtcdError';
  /** What went wrong, without the call it went wrong in. */
  readonly problem: string;
  /** gRPC status. */
  readonly code: StatusCode;
  readonly reason: Reason;
  readonly outcome: Outcome;
  readonly method: string | undefined;
  readonly endpoint: string | undefined;
  readonly compactRevision: bigint | undefined;

  constructor(problem: string, details: EtcdErrorDetails) {
    super(describe(problem, details), details.cause === undefined ? {} : { cause: details.cause });
    this.problem = problem;
    this.code = details.code;
    this.reason = details.reason;
    this.outcome = details.outcome;
    this.method = details.method;
    this.endpoint = details.endpoint;
    this.compactRevision = details.compactRevision;
  }
}

const OUTCOME_TEXT: Record<Outcome, string> = {
  'not-sent': 'not sent',
  rejected: 'rejected, nothing was done',
  unknown: 'outcome unknown, it may have been done',
};

function describe(problem: string, { method, endpoint, outcome }: EtcdErrorDetails): string {
  if (method === undefined) return problem;
  return `${problem} (${method.slice(1)}${endpoint === undefined ? '' : ` at ${endpoint}`}: ${OUTCOME_TEXT[outcome]})`;
}

/** The same error, with some of what is known of it changed. */
export function amended(error: EtcdError, changes: Partial<EtcdErrorDetails>): EtcdError {
  const { problem, code, reason, outcome, method, endpoint, compactRevision, cause } = error;
  return new EtcdError(problem, { code, reason, outcome, method, endpoint, compactRevision, cause, ...changes });
}

/** The same error in words that say what to do about it; the error itself is the cause. */
export function explained(error: EtcdError, problem: string): EtcdError {
  const { code, reason, outcome, method, endpoint } = error;
  return new EtcdError(problem, { code, reason, outcome, method, endpoint, cause: error });
}

interface StackCapture {
  readonly captureStackTrace?: (target: object, below?: unknown) => void;
}

/**
 * Has the stack of the error show the callers that await it. An error is made where an answer is read or a timer fires,
 * and its stack ends there. In an async function that goes on after an `await`, V8 and Bun know who awaits it: the frames
 * "at async". It costs nothing where nothing fails.
 */
export function withCallers<T>(error: T): T {
  if (error instanceof EtcdError) (Error as StackCapture).captureStackTrace?.(error, withCallers);
  return error;
}

/** Has the error that a call may reject with show, besides, where the call was made: the place where this is called. */
export async function withCallSite<T>(call: Promise<T>): Promise<T> {
  const site: { stack?: string } = {};
  (Error as StackCapture).captureStackTrace?.(site, withCallSite);
  try {
    return await call;
  } catch (error) {
    if (error instanceof EtcdError && site.stack !== undefined)
      error.stack = `${error.stack}\n  the call was made here:${site.stack.slice(site.stack.indexOf('\n'))}`;
    throw error;
  }
}

/** The refusal of an argument: nothing was sent. */
export function invalidInput(argument: string, given: string, allowed: string): EtcdError {
  return new EtcdError(`${argument}: got ${given}; allowed: ${allowed}`, {
    code: 'InvalidArgument',
    reason: 'InvalidInput',
    outcome: 'not-sent',
  });
}

/** The caller's own signal ended the call. `last`, if given, is what failed last before that. */
export function canceled(signal: AbortSignal, outcome: Outcome, method?: string, last?: EtcdError): EtcdError {
  if (signal.reason instanceof EtcdError && method === undefined) return signal.reason;
  const why = last === undefined ? '' : `; last failure: ${last.problem}`;
  return new EtcdError(`ended by the caller's signal${why}`, {
    code: 'Canceled',
    reason: 'Canceled',
    outcome,
    method,
    cause: signal.reason,
  });
}

/**
 * The caller's `timeoutMs` passed. The cause is the latest failure, if there was one. `endpoint` has not answered yet.
 */
export function timedOut(
  what: string,
  timeoutMs: number,
  outcome: Outcome,
  method?: string,
  last?: EtcdError,
  endpoint?: string,
  option = 'timeoutMs',
): EtcdError {
  return new EtcdError(`${what} not done within ${option} = ${timeoutMs}${whyLate(last, endpoint)}`, {
    code: 'DeadlineExceeded',
    reason: 'DeadlineExceeded',
    outcome,
    method,
    endpoint: last?.endpoint ?? endpoint,
    cause: last,
  });
}

function whyLate(last: EtcdError | undefined, endpoint: string | undefined): string {
  if (last === undefined) return endpoint === undefined ? '' : `; no answer from ${endpoint} so far`;
  const isNamed = last.endpoint === undefined || last.problem.includes(last.endpoint);
  return `; last failure: ${last.problem}${isNamed ? '' : ` at ${last.endpoint}`}`;
}

/** The same of a call, whose time ran out between attempts. */
export function outOfTime(
  { timeoutMs, method }: { readonly timeoutMs: number; readonly method: { readonly path: string } },
  outcome: Outcome,
  last: EtcdError | undefined,
): EtcdError {
  return timedOut('call', timeoutMs, outcome, method.path, last);
}

/** Nothing more is to be had of a client that was closed. */
export function clientClosed(outcome: Outcome = 'unknown', method?: string): EtcdError {
  return new EtcdError('the client was closed', { code: 'Canceled', reason: 'ClientClosed', outcome, method });
}
