import { EtcdError } from '../../src/index.js';

/** The EtcdError that something rejects with or throws; fails where there is none. */
export async function errorOf(action: Promise<unknown> | (() => unknown)): Promise<EtcdError> {
  try {
    await (typeof action === 'function' ? action() : action);
  } catch (error) {
    if (error instanceof EtcdError) return error;
    throw error;
  }
  throw new Error('expected an EtcdError, but nothing was thrown');
}
