import type { ServerReason, StatusCode } from './status.js';

/**
 * The reasons that only the client uses. Errors that etcd defines have a `ServerReason`. The client itself also uses
 * reasons of etcd, such as `Canceled` if the caller cancels a call, and `DeadlineExceeded` if a call times out.
 *
 * - `InvalidInput`: The client refused an argument before it sent anything. The message names the argument.
 * - `ConnectFailed`: The client could not connect: connection refused, unknown host, TLS error, or connect timeout.
 * - `ConnectionLost`: The connection or the stream broke during the call.
 * - `StreamRefused`: The server refused the HTTP/2 stream of the call. With outcome `rejected`, the server sent GOAWAY
 *   and did not process the call. With outcome `unknown`, the server sent REFUSED_STREAM, which some proxies send after
 *   they have forwarded the request.
 * - `ProtocolError`: The server violated the HTTP/2 protocol.
 * - `NotEtcd`: The server that answered is not etcd: it answered without gRPC, or has none of etcd's services. A proxy
 *   between the client and etcd may also have answered.
 * - `MalformedMessage`: The server sent bytes that are not a valid message.
 * - `ResponseTooLarge`: The response is larger than `maxReceiveBytes`.
 * - `HeadersTooLarge`: The headers of the request, such as a token, are larger than the server allows.
 * - `ClientClosed`: The client was closed.
 * - `LeaseExpired`: The server reports that the lease does not exist: it expired, or another client revoked it.
 * - `LeaseRevoked`: This client revoked the lease.
 * - `LeaseUnreachable`: No renewal was acknowledged before the deadline of the lease on the clocks of the machine.
 * - `KeepAliveClosed`: The keepalive was closed, so this client no longer renews the lease.
 * - `LockTaken`: Other contenders held the lock, or waited for it in front of the caller, until `maxWaitMs` had passed,
 *   although the servers answered. If they did not answer, the reason is `DeadlineExceeded`.
 * - `LockLost`: The caller does not hold the lock, because its queue key does not exist, or was deleted and put again.
 * - `LockReleased`: The holder has released the lock, or the leader has resigned.
 * - `SnapshotCorrupt`: A snapshot is incomplete, or its bytes differ from the bytes that the member sent. Or the copy of
 *   a persisted range is not whole.
 * - `ClusterChanged`: Another cluster answered, or the store went back to an older revision because the cluster was
 *   restored from a backup.
 * - `TxnConflict`: During every attempt of a transaction, other clients changed keys that the transaction reads or
 *   writes.
 * - `BarrierFull`: As many participants as the barrier was created for have already entered.
 * - `NotInGateway`: The JSON gateway of etcd does not support this call or feature. Or the runtime may send the request
 *   twice, and the client cannot prevent the write from taking effect twice; see `guardWrites`.
 * - `ResultLost`: A write with a guard, such as a write with `retryWrites`, was applied at the error's `revision`, but
 *   its result is lost.
 * - `WatchClosed`: The program closed the watch.
 * - `InvalidValue`: A codec could not decode the value of a key, see `typed`. The read itself succeeded.
 * - `InvalidJson`: The value of the key is not valid JSON, or the function that was passed to `KeyValue.json` threw.
 * - `NotText`: The program has read `key` of a key that is not UTF-8. Read `keyBytes` instead.
 * - `Other`: Any other failure, such as an error message of the server that is not in etcd's table of errors.
 */
export type ClientReason =
  | 'InvalidInput'
  | 'ConnectFailed'
  | 'ConnectionLost'
  | 'StreamRefused'
  | 'ProtocolError'
  | 'NotEtcd'
  | 'MalformedMessage'
  | 'ResponseTooLarge'
  | 'HeadersTooLarge'
  | 'ClientClosed'
  | 'LeaseExpired'
  | 'LeaseRevoked'
  | 'LeaseUnreachable'
  | 'KeepAliveClosed'
  | 'LockTaken'
  | 'LockLost'
  | 'LockReleased'
  | 'SnapshotCorrupt'
  | 'ClusterChanged'
  | 'TxnConflict'
  | 'BarrierFull'
  | 'NotInGateway'
  | 'ResultLost'
  | 'WatchClosed'
  | 'InvalidValue'
  | 'InvalidJson'
  | 'NotText'
  | 'Other';

/** Why a call failed. */
export type Reason = ServerReason | ClientReason;

/**
 * What happened to the request.
 *
 * - `not-sent`: No server received the request.
 * - `rejected`: The request had no effect, although a server may have received it.
 * - `unknown`: A server may have processed the request, or may still process it.
 * - `applied`: A server has carried out the request once, at the revision `revision`. Only writes that a guard makes
 *   safe to repeat, such as writes with `retryWrites`, have this outcome.
 */
export type Outcome = 'not-sent' | 'rejected' | 'unknown' | 'applied';

/** The call that an error belongs to. */
export interface ErrorContext {
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  /** URL of the endpoint. */
  readonly endpoint: string;
}

/** The properties of an `EtcdError`. */
export interface EtcdErrorDetails {
  readonly code: StatusCode;
  readonly reason: Reason;
  readonly outcome: Outcome;
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. */
  readonly method?: string | undefined;
  /** URL of the endpoint where the call failed. */
  readonly endpoint?: string | undefined;
  /**
   * Oldest revision that is not compacted. Set if the requested revision is compacted and the server reports its oldest
   * revision.
   */
  readonly compactRevision?: bigint | undefined;
  /** The revision at which the write was applied. Set if the outcome is `applied`. */
  readonly revision?: bigint | undefined;
  readonly cause?: unknown;
}

/** Every copy of the package marks its errors with this symbol. */
const BRAND = Symbol.for('etcdwire.EtcdError');

/**
 * The only error class of the client. Decide by `reason` and `outcome`, never by the message text, which may change.
 * The error contains no value, token or password. Only an error with reason `PermissionDenied` contains keys: those of
 * the denied request. So does an error whose cause is such an error.
 *
 * @example
 * try {
 *   await etcd.put('config/color', 'blue');
 * } catch (error) {
 *   if (error instanceof EtcdError && error.outcome === 'unknown') console.log('the key may have been written');
 *   else throw error;
 * }
 */
export class EtcdError extends Error {
  override readonly name = 'EtcdError';
  /** The message without the method, the endpoint and the outcome. */
  declare readonly problem: string;
  /** gRPC status code. */
  declare readonly code: StatusCode;
  /** Why the call failed. */
  declare readonly reason: Reason;
  /** What happened to the request. */
  declare readonly outcome: Outcome;
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. Undefined for errors that belong to no call. */
  declare readonly method: string | undefined;
  /** URL of the endpoint where the call failed. */
  declare readonly endpoint: string | undefined;
  /**
   * Oldest revision that is not compacted. Set if the requested revision is compacted and the server reports its oldest
   * revision.
   */
  declare readonly compactRevision: bigint | undefined;
  /** The revision at which the write was applied. Set if the outcome is `applied`. */
  declare readonly revision: bigint | undefined;

  constructor(problem: string, details: EtcdErrorDetails) {
    super(describe(problem, details), details.cause === undefined ? {} : { cause: details.cause });
    // Runtimes print each enumerable property of an uncaught error. The message already contains the problem.
    Object.defineProperty(this, 'problem', { value: problem });
    for (const name of PROPERTIES)
      Object.defineProperty(this, name, { value: details[name], enumerable: details[name] !== undefined });
  }

  /** @internal */
  get [BRAND](): true {
    return true;
  }

  /**
   * @internal An error of another copy of the package is an `EtcdError`, too: a program that uses `import` and `require`
   * has two copies. Returns false for a value that cannot be examined, such as a proxy whose traps throw.
   */
  static override [Symbol.hasInstance](value: unknown): value is EtcdError {
    try {
      return typeof value === 'object' && value !== null && BRAND in value;
    } catch {
      return false;
    }
  }

  /**
   * Returns the properties for `JSON.stringify`, which error reporters use. The revisions become strings, because JSON
   * has no bigint. Reduces a `cause` that is an error to its name and message, and leaves out any other cause.
   */
  toJSON(): Readonly<Record<string, unknown>> {
    return {
      ...(this as object),
      message: this.message,
      compactRevision: this.compactRevision?.toString(),
      revision: this.revision?.toString(),
      cause: readError(this.cause),
    };
  }
}

const PROPERTIES = ['code', 'reason', 'outcome', 'method', 'endpoint', 'compactRevision', 'revision'] as const;

/**
 * Returns the name and the message of a value that any code may have thrown. Returns undefined if the value is not an
 * error, or if its properties cannot be read or are not texts. Never throws.
 */
export function readError(thrown: unknown): { readonly name: string; readonly message: string } | undefined {
  try {
    // Do not use `instanceof Error`, because the error may come from another realm, such as that of a test runner.
    const { name, message } = thrown as Partial<Record<'name' | 'message', unknown>>;
    return typeof name === 'string' && typeof message === 'string' ? { name, message } : undefined;
  } catch {
    return undefined;
  }
}

const OUTCOME_TEXT: Record<Outcome, string> = {
  'not-sent': 'not sent',
  rejected: 'rejected, nothing was done',
  unknown: 'outcome unknown, it may have been done',
  applied: 'done once',
};

/** Matches the paths of the RPCs that change nothing. A message about one of these RPCs does not mention an outcome. */
const READ =
  /\/(?:Range|RangeStream|Watch|LeaseTimeToLive|LeaseLeases|MemberList|Status|Hash|HashKV|Snapshot|AuthStatus|UserGet|UserList|RoleGet|RoleList|Authenticate|Leader|Observe)$/;

/** Whether the RPC with this gRPC path changes nothing, so that its outcome has no meaning. */
export function changesNothing(method: string): boolean {
  return READ.test(method);
}

function describe(problem: string, { method, endpoint, outcome }: EtcdErrorDetails): string {
  if (method === undefined) return problem;
  const where = `${method.slice(1)}${endpoint === undefined ? '' : ` at ${endpoint}`}`;
  return `${problem} (${where}${changesNothing(method) ? '' : `: ${OUTCOME_TEXT[outcome]}`})`;
}

export function amended(error: EtcdError, changes: Partial<EtcdErrorDetails>, problem = error.problem): EtcdError {
  return new EtcdError(problem, { ...error, cause: error.cause, ...changes });
}

/** Returns an error whose text says what to do about `error`. The cause of the returned error is `error`. */
export function explained(error: EtcdError, problem: string): EtcdError {
  return new EtcdError(problem, { ...error, cause: error });
}

interface StackCapture {
  readonly captureStackTrace?: (target: object, below?: unknown) => void;
}

/**
 * Adds the callers that await a call to the stack of the call's error, which is created where a response is read or a
 * timer fires. V8 and Bun show these callers as "at async". This function costs time only when a call fails.
 *
 * @param below The function whose callers the stack shows. For an uncaught error, Node.js prints the source line of the
 * first caller.
 */
export function withCallers<T>(error: T, below: unknown = withCallers): T {
  if (error instanceof EtcdError) (Error as StackCapture).captureStackTrace?.(error, below);
  return error;
}

/** Adds the place where this function is called to the stack of the error that `call` rejects with. */
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

/** Returns the error for an argument that the client refuses before it sends anything. */
export function invalidInput(argument: string, given: string, allowed: string): EtcdError {
  const problem = `${argument}: got ${given}; allowed: ${allowed}`;
  return new EtcdError(problem, { code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' });
}

/** Returns the error for an argument that the caller left out. `toDo` says what the caller should pass. */
export function missingInput(argument: string, toDo: string): EtcdError {
  return new EtcdError(`${argument}: missing; ${toDo}`, {
    code: 'InvalidArgument',
    reason: 'InvalidInput',
    outcome: 'not-sent',
  });
}

/** The latest failure at each endpoint, by URL, in the order in which the failures occurred. */
export type Failures = ReadonlyMap<string, EtcdError>;
const NO_FAILURES: Failures = new Map();

/** Returns the error for a call that the caller's signal canceled. `failures` occurred before the signal aborted. */
export function canceled(
  signal: AbortSignal,
  outcome: Outcome,
  method?: string,
  failures: Failures = NO_FAILURES,
): EtcdError {
  const cause: unknown = signal.reason;
  if (cause instanceof EtcdError && method === undefined) return cause;
  const problem = `canceled by the caller's signal${latest(failures)}`;
  return new EtcdError(problem, { code: 'Canceled', reason: 'Canceled', outcome, method, cause });
}

/**
 * Returns the error for a call or a wait that exceeded its time limit. `what` is the name of the call or wait. The
 * cause is the failure, or an `AggregateError` of several failures. `endpoint` is the URL of an endpoint that has not
 * answered yet. `option` is the name of the time limit, such as `maxWaitMs`.
 */
export function timedOut(
  what: string,
  timeoutMs: number,
  outcome: Outcome,
  method?: string,
  failures: Failures = NO_FAILURES,
  endpoint?: string,
  option = 'timeoutMs',
): EtcdError {
  const [only, ...others] = [...failures.values()].map(withoutFrames);
  const why = only === undefined && endpoint !== undefined ? `; no answer from ${endpoint} so far` : latest(failures);
  const isUnreached = only !== undefined && [only, ...others].every(({ reason }) => reason === 'ConnectFailed');
  const toDo = isUnreached ? ', because it reached no etcd: start etcd, or correct endpoints' : '';
  return new EtcdError(`${what} did not finish within ${option} = ${timeoutMs}${toDo}${why}`, {
    code: 'DeadlineExceeded',
    reason: 'DeadlineExceeded',
    outcome,
    method,
    endpoint: only === undefined ? endpoint : others.length === 0 ? only.endpoint : undefined,
    cause:
      others.length === 0 ? only : withoutFrames(new AggregateError([only, ...others], 'several endpoints failed')),
  });
}

/** Removes the stack frames of a failure, which only show that bytes arrived from a socket. */
export function withoutFrames<T extends Error>(failure: T): T {
  failure.stack = String(failure);
  return failure;
}

function latest(failures: Failures): string {
  if (failures.size === 0) return '';
  const texts = [...failures.values()].map(({ problem, endpoint }) =>
    endpoint === undefined || problem.includes(endpoint) ? problem : `${problem} at ${endpoint}`,
  );
  return `; last failure${texts.length === 1 ? '' : 's'}: ${texts.join('; ')}`;
}

/** Adds the failure to the latest failures, as the last one. */
export function noteFailure(failures: Map<string, EtcdError>, error: EtcdError): void {
  const { endpoint = '' } = error;
  failures.delete(endpoint);
  failures.set(endpoint, error);
}

/** Returns the error for a call that exceeded its time limit between two attempts. */
export function callTimedOut(
  { timeoutMs, method }: { readonly timeoutMs: number; readonly method: { readonly path: string } },
  outcome: Outcome,
  failures?: Failures,
): EtcdError {
  return timedOut('call', timeoutMs, outcome, method.path, failures);
}

export function clientClosed(outcome: Outcome = 'unknown', method?: string): EtcdError {
  return new EtcdError('the client was closed', { code: 'Canceled', reason: 'ClientClosed', outcome, method });
}
