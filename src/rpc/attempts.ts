import {
  at,
  callTimedOut,
  canceled,
  type EtcdError,
  type Failures,
  monotonicMs,
  onAbort,
  type Reason,
  statusOfReason,
} from '../base/index.js';
import type { Method, UnaryCall } from '../wire/index.js';

/**
 * Reasons of errors with which the client itself ended a call. Such an error does not prove that the endpoint has
 * failed.
 */
export const ENDED_BY_CLIENT: ReadonlySet<Reason> = new Set([
  'InvalidInput',
  'ClientClosed',
  'Canceled',
  'DeadlineExceeded',
]);

const MOMENTARY: ReadonlySet<Reason> = new Set(['LeaderChanged', 'ProposalDropped', 'TimeoutWaitAppliedIndex']);

/**
 * Whether a working member refused the call because its cluster is changing its leader, or because the member has not
 * applied all entries yet. The same member will probably answer soon. Another member may need longer: while the old
 * leader is suspended, only a follower that already knows the new leader can answer.
 */
export function isMomentaryRefusal({ reason }: EtcdError): boolean {
  return MOMENTARY.has(reason);
}

/** Whether the member refused the call, without processing it, because too many Raft proposals wait. */
export function isOverloadRefusal({ reason }: EtcdError): boolean {
  return reason === 'RequestTooManyRequests';
}

/** Reasons of failures that an endpoint causes, in addition to the reasons that etcd reports with Unavailable. */
const CAUSED_BY_ENDPOINT: ReadonlySet<Reason> = new Set([
  'ConnectionLost',
  'NotEtcd',
  'NotSupportedForLearner',
  'ProposalDropped',
]);

/**
 * Reasons of failures that no endpoint causes: the client itself has ended the call, or the whole cluster is unhealthy.
 * etcd reports an unhealthy cluster with the status Unavailable, although no single endpoint is the cause.
 */
const NOT_CAUSED_BY_ENDPOINT: ReadonlySet<Reason> = new Set<Reason>([...ENDED_BY_CLIENT, 'Unhealthy']);

/**
 * Whether the endpoint caused the failure, rather than the request. If so, another endpoint may succeed. Checks the
 * reason as well as the status, because etcd's lock and election services forward every error with the status Unknown.
 */
export function isEndpointFailure({ code, reason }: Pick<EtcdError, 'code' | 'reason'>): boolean {
  if (NOT_CAUSED_BY_ENDPOINT.has(reason)) return false;
  return code === 'Unavailable' || statusOfReason(reason) === 'Unavailable' || CAUSED_BY_ENDPOINT.has(reason);
}

/**
 * Whether the endpoint refused the call because it is a learner, or because it is not etcd. If the call has no other
 * endpoint, the channel usually ends the call at once instead of repeating it until its deadline: see `#isFinal` of
 * `Channel`.
 */
export function isUnsuitableEndpoint({ reason }: EtcdError): boolean {
  return reason === 'NotSupportedForLearner' || reason === 'NotEtcd';
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
 * Waits for something that a call needs before the client can send it, such as a token, but no longer than the deadline
 * and the signal of the call allow. The error of a wait that times out names the `failures` so far.
 *
 * @throws EtcdError with outcome `not-sent` if the wait ends early, or the error with which `needed` rejects.
 */
export function beforeSending<T>(
  call: UnaryCall<unknown, unknown>,
  needed: Promise<T>,
  failures?: Failures,
): Promise<T> {
  const { method, signal, deadline } = call;
  const undos: (() => void)[] = [];
  const waiting = new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(canceled(signal as AbortSignal, 'not-sent', method.path));
    const expire = (): void => reject(callTimedOut(call, 'not-sent', failures));
    undos.push(at(deadline, expire));
    if (signal !== undefined) undos.push(onAbort(signal, abort));
    if (signal?.aborted) abort();
    if (deadline <= monotonicMs()) expire();
    needed.then(resolve, reject);
  });
  return waiting.finally(() => {
    for (const undo of undos) undo();
  });
}
