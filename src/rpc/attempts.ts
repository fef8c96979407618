import { type EtcdError, type Outcome, type Reason, type StatusCode, statusOfReason } from '../base/index.js';
import type { Method, UnaryCall } from '../wire/index.js';

// This file decides whether the client makes another attempt: of a unary call, of a stream, and of a call that a wait
// repeats. It also decides whether a failure says something about its endpoint. The callers make the attempts:
// `Channel` those of unary calls, `AuthenticatedTransport` those with a new token, `ResumableStream` and `readStream`
// those of streams, and `untilAnswered` in the room `locks` those of waits.

// What a reason means for further attempts, in addition to what the status of the error means. Each meaning is one bit.

/** The client itself ended the call, so the error does not prove that the endpoint has failed. */
const ENDED_BY_CLIENT = 1;
/** Every repetition gets the same error. */
const FINAL = 2;
/**
 * A working member refused the call because its cluster is changing its leader, or because the member has not applied
 * all entries yet. The same member will probably answer soon. Another member may need longer: while the old leader is
 * suspended, only a follower that already knows the new leader can answer.
 */
const MOMENTARY = 4;
/** The member refused the call, without processing it, because too many Raft proposals wait. */
const OVERLOAD = 8;
/** The endpoint caused the failure, although the status is not Unavailable. */
const BY_ENDPOINT = 16;
/**
 * No single endpoint caused the failure, although the status is Unavailable: the whole cluster is unhealthy, or the
 * function that the program gave as `auth` failed.
 */
const BY_NO_ENDPOINT = 32;
/** The endpoint is a learner, or is not etcd. Another attempt of the call at the same endpoint gets the same error. */
const UNSUITABLE = 64;
/**
 * The server refused the token: it expired, it is older than the latest change to users and roles, or the request has
 * no token and needs one.
 */
const TOKEN_REFUSED = 128;

/** The meanings of all reasons that have any. Where a reason is not listed, only the status of the error decides. */
const MEANINGS: Readonly<Partial<Record<Reason, number>>> = {
  InvalidInput: ENDED_BY_CLIENT | FINAL,
  ClientClosed: ENDED_BY_CLIENT | FINAL,
  Canceled: ENDED_BY_CLIENT,
  DeadlineExceeded: ENDED_BY_CLIENT,
  MalformedMessage: FINAL,
  ResponseTooLarge: FINAL,
  HeadersTooLarge: FINAL,
  NoSpace: FINAL,
  LeaderChanged: MOMENTARY,
  TimeoutWaitAppliedIndex: MOMENTARY,
  ProposalDropped: MOMENTARY | BY_ENDPOINT,
  RequestTooManyRequests: OVERLOAD,
  ConnectionLost: BY_ENDPOINT,
  NotEtcd: BY_ENDPOINT | UNSUITABLE,
  NotSupportedForLearner: BY_ENDPOINT | UNSUITABLE,
  Unhealthy: BY_NO_ENDPOINT,
  AuthFailed: BY_NO_ENDPOINT,
  InvalidAuthToken: TOKEN_REFUSED,
  AuthOldRevision: TOKEN_REFUSED,
  UserEmpty: TOKEN_REFUSED,
};

/** Whether the reason has at least one of these meanings. */
function has({ reason }: { readonly reason: Reason }, meanings: number): boolean {
  return ((MEANINGS[reason] ?? 0) & meanings) !== 0;
}

/** Whether the client itself ended or refused the call. */
export function isEndedByClient(error: EtcdError): boolean {
  return has(error, ENDED_BY_CLIENT);
}

/** Whether the same member will probably answer soon. See `MOMENTARY`. */
export function isMomentaryRefusal(error: EtcdError): boolean {
  return has(error, MOMENTARY);
}

/** Whether the member refused the call, without processing it, because too many Raft proposals wait. */
export function isOverloadRefusal(error: EtcdError): boolean {
  return has(error, OVERLOAD);
}

/**
 * Whether the endpoint caused the failure, rather than the request. If so, another endpoint may succeed. Checks the
 * reason as well as the status, because etcd's lock and election services forward every error with the status Unknown.
 */
export function isEndpointFailure(error: Pick<EtcdError, 'code' | 'reason'>): boolean {
  if (has(error, ENDED_BY_CLIENT | BY_NO_ENDPOINT)) return false;
  return error.code === 'Unavailable' || statusOfReason(error.reason) === 'Unavailable' || has(error, BY_ENDPOINT);
}

/**
 * Whether the endpoint refused the call because it is a learner, or because it is not etcd. If the call has no other
 * endpoint, the channel usually ends the call at once instead of repeating it until its deadline: see `isFinalAt`.
 */
export function isUnsuitableEndpoint(error: EtcdError): boolean {
  return has(error, UNSUITABLE);
}

/** Whether the server refused the token. */
export function isTokenRefused(error: { readonly reason: Reason }): boolean {
  return has(error, TOKEN_REFUSED);
}

/** Whether the server refused the token, or the client could not obtain one. */
export function concernsToken(error: EtcdError): boolean {
  return isTokenRefused(error) || error.reason === 'AuthFailed';
}

/**
 * Maximum number of new tokens that one call requests. A call may need several tokens while users and roles change. If
 * a server refuses every token, this limit ends the call.
 */
const MAX_TOKEN_RENEWALS = 3;

/** What the client can do about a refused token. */
export interface TokenSettings {
  /** Whether the client can obtain a new token, so that a stream whose token was refused can be opened again. */
  readonly renewsTokens: boolean;
  /** Whether `auth` is a function. The client calls it again after a refusal, because it may return other secrets. */
  readonly rotatesSecrets?: boolean | undefined;
}

/**
 * Whether the client may repeat, with a new token, a call whose token the server refused. `refusals` is the number of
 * tokens that the server has refused in a row before this one.
 */
export function mayRenewToken(renewsTokens: boolean, error: EtcdError, refusals: number): boolean {
  return renewsTokens && isTokenRefused(error) && refusals < MAX_TOKEN_RENEWALS;
}

/**
 * Does the same as `mayRenewToken` for watches and keepalives, which have no time limit. If `auth` is a function, the
 * client never gives up, because the function may return another password later.
 */
export function mayUseAnotherToken(settings: TokenSettings, error: EtcdError, refusals: number): boolean {
  if (settings.rotatesSecrets) return concernsToken(error);
  return mayRenewToken(settings.renewsTokens, error, refusals);
}

/**
 * Whether the client may make another attempt after `error`. If the method is not `repeatable`, such as a put, the
 * client may do so only if the server provably did not process the request: either the client never sent the request,
 * or the member refused the request without processing it. If the method is `repeatable`, the client may do so after
 * any endpoint failure.
 */
export function mayRetry(method: Pick<Method<unknown, unknown>, 'repeatable'>, error: EtcdError): boolean {
  if (!isOverloadRefusal(error) && !isEndpointFailure(error)) return false;
  return error.outcome !== 'unknown' || method.repeatable === true;
}

/**
 * Whether a repetition of the call may succeed although this attempt has failed, for a call that is safe to repeat even
 * if its outcome is unknown.
 */
export function isTransient(error: EtcdError): boolean {
  if (has(error, FINAL)) return false;
  if (isOverloadRefusal(error) || error.reason === 'ProposalDropped') return true;
  return error.code === 'Unavailable' || error.code === 'DeadlineExceeded' || error.outcome === 'unknown';
}

/** Whether the client itself refused the call. The client would refuse a repetition, too. */
export function isRefusedByClient(error: EtcdError): boolean {
  return has(error, ENDED_BY_CLIENT) && has(error, FINAL);
}

/** Statuses that can end a stream although a new stream may succeed. */
const RESUMABLE: ReadonlySet<StatusCode> = new Set([
  'OK',
  'Unavailable',
  'Unknown',
  'Internal',
  'Canceled',
  'DeadlineExceeded',
  'Aborted',
  // An overloaded server or proxy refuses calls with this status.
  'ResourceExhausted',
]);

/** Whether a new stream may succeed, with the same token, after a stream has ended with this error. */
export function isResumable(error: EtcdError): boolean {
  return RESUMABLE.has(error.code) && !has(error, FINAL) && !concernsToken(error);
}

/**
 * Maximum number of momentary refusals of one call that do not park an endpoint. If the client has only one endpoint,
 * no such refusal parks it.
 */
const MAX_MOMENTARY_REFUSALS = 5;

/**
 * Maximum number of retries of a call that has no deadline and names its endpoint. All waits together take about 3 s at
 * most.
 */
const MAX_REPETITIONS_WITHOUT_DEADLINE = 5;

/** The attempts of a call that have failed. */
export interface FailedAttempts {
  readonly count: number;
  readonly momentaryRefusals: number;
  /** Outcome of the whole call so far: `unknown` as soon as one attempt has that outcome. */
  readonly outcome: Outcome;
}

/** What the channel knows about the endpoint at which an attempt has failed. */
export interface EndpointFacts {
  /** Whether the client has only one endpoint. */
  readonly isAlone: boolean;
  /** Whether the call can use no other endpoint. */
  readonly isOnlyForCall: boolean;
  /** Whether etcd has answered at the endpoint before. */
  readonly isEtcd: boolean;
  /** Whether the endpoint has left attempts unanswered for so long that a timeout counts as its failure. */
  readonly isSilent: boolean;
}

/** What the channel does after a failed attempt. */
export interface Verdict extends FailedAttempts {
  /** Whether calls prefer other endpoints for some time. */
  readonly parks: boolean;
  /** Whether another attempt is safe and may succeed. */
  readonly isSafe: boolean;
  /**
   * Whether the next attempt uses the same endpoint if it is available, because its member will probably answer soon
   * (rule S39 in docs/semantics.md).
   */
  readonly stays: boolean;
}

/** Decides what the channel does after an attempt has failed with `error`. `before` are the attempts before it. */
export function verdict(
  { method, endpoint, deadline }: Pick<UnaryCall<unknown, unknown>, 'method' | 'endpoint' | 'deadline'>,
  error: EtcdError,
  before: FailedAttempts,
  facts: EndpointFacts,
): Verdict {
  const momentaryRefusals = before.momentaryRefusals + (isMomentaryRefusal(error) ? 1 : 0);
  const isMomentary = isMomentaryRefusal(error) && (momentaryRefusals <= MAX_MOMENTARY_REFUSALS || facts.isAlone);
  const waitsForever = endpoint !== undefined && deadline === Number.POSITIVE_INFINITY;
  const isHopeless =
    isFinalAt(error, facts.isOnlyForCall, facts.isEtcd) ||
    (waitsForever && before.count === MAX_REPETITIONS_WITHOUT_DEADLINE);
  return {
    count: before.count + 1,
    momentaryRefusals,
    outcome: before.outcome === 'unknown' || error.outcome === 'not-sent' ? before.outcome : error.outcome,
    parks: facts.isSilent || (isEndpointFailure(error) && !isMomentary) || error.reason === 'ClusterChanged',
    isSafe: !isHopeless && mayRetry(method, error),
    stays: isMomentary || isOverloadRefusal(error),
  };
}

/**
 * Whether the channel makes another attempt after `retryAfter` of the call has returned `delayMs`. A write without a
 * guard is never repeated unless that is safe.
 */
export function isRetried(
  { repeatable }: Pick<Method<unknown, unknown>, 'repeatable'>,
  isSafe: boolean,
  delayMs: number | false | undefined,
): delayMs is number | undefined {
  return delayMs !== false && (isSafe || (delayMs !== undefined && repeatable === true));
}

/**
 * Whether another attempt of the call would get the same refusal, because the endpoint is unsuitable. Another attempt
 * may succeed if the call has another endpoint. After a refusal with reason `NotEtcd`, another attempt may also succeed
 * if etcd has answered at this endpoint before, because a proxy may have answered in place of etcd.
 */
export function isFinalAt(error: EtcdError, isOnlyForCall: boolean, isEtcd: boolean): boolean {
  return isUnsuitableEndpoint(error) && isOnlyForCall && !(isEtcd && error.reason === 'NotEtcd');
}
