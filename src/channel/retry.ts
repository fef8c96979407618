import type { EtcdError, Reason } from '../errors/etcd-error.js';

const ENDED_HERE: ReadonlySet<Reason> = new Set(['InvalidInput', 'ClientClosed', 'Canceled', 'DeadlineExceeded']);

/**
 * A member that is well says so for a moment: its cluster has just changed the leader, or it is behind with its work.
 * Another member may know less: while the old leader is paused, a follower that has heard of the new one answers sooner.
 */
const PASSING: ReadonlySet<Reason> = new Set(['LeaderChanged', 'ProposalDropped', 'TimeoutWaitAppliedIndex']);

/** The same member had better be asked again. */
export function isPassing({ reason }: EtcdError): boolean {
  return PASSING.has(reason);
}

/** The endpoint, not the request, is the trouble: another one may do better. */
export function isEndpointFailure({ code, reason }: EtcdError): boolean {
  if (reason === 'NotSupportedForLearner' || reason === 'ConnectionLost' || reason === 'ProposalDropped') return true;
  return code === 'Unavailable' && !ENDED_HERE.has(reason);
}

/** A response was longer than this side takes: the same in smaller pieces may do. */
export function isTooLarge({ reason }: EtcdError): boolean {
  return reason === 'ResponseTooLarge';
}

/**
 * A write is sent again only when it provably was not processed: never sent, or refused by a member that serves no
 * such calls. A method that changes nothing may be sent again whatever became of the first attempt.
 */
export function mayRetry(method: { readonly repeatable: boolean }, error: EtcdError): boolean {
  if (!isEndpointFailure(error)) return false;
  return error.outcome !== 'unknown' || method.repeatable;
}
