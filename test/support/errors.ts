import { EtcdError } from '../../src/index.js';

/**
 * Resolves with the EtcdError that the action rejects with or throws. Rejects if the action succeeds or fails with
 * another error.
 */
export async function errorOf(action: Promise<unknown> | (() => unknown)): Promise<EtcdError> {
  try {
    await (typeof action === 'function' ? action() : action);
  } catch (error) {
    if (error instanceof EtcdError) return error;
    throw error;
  }
  throw new Error('expected an EtcdError, but the action succeeded');
}
