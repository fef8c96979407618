import { EtcdError } from '../../../src/base/etcd-error.js';

/** Ignores an error that a fault can cause. @throws every other error. */
export function expected(error: unknown): void {
  if (!(error instanceof EtcdError) || error.reason === 'InvalidInput') throw error;
}
