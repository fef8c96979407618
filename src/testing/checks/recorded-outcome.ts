import { EtcdError } from '../../errors/etcd-error.js';

/** Returns the outcome of a recorded call that has thrown this. */
export function outcomeOf(thrown: unknown): 'fail' | 'unknown' {
  return thrown instanceof EtcdError && (thrown.outcome === 'rejected' || thrown.outcome === 'not-sent')
    ? 'fail'
    : 'unknown';
}
