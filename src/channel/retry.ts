import type { EtcdError, Reason } from '../errors.js';

const ENDED_HERE: ReadonlySet<Reason> = new Set(['InvalidInput', 'ClientClosed', 'Canceled', 'DeadlineExceeded']);

/** The endpoint, not the request, is the trouble: another one may do better. */
export function isEndpointFailure(error: EtcdError): boolean {
  return error.code === 'Unavailable' && !ENDED_HERE.has(error.reason);
}

/**
 * A write is sent again only when it provably was not processed. A method that changes nothing may be sent again
 * whatever became of the first attempt.
 */
export function mayRetry(method: { readonly repeatable: boolean }, error: EtcdError): boolean {
  if (!isEndpointFailure(error)) return false;
  return error.outcome === 'not-sent' || method.repeatable;
}
