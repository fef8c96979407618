import { AsyncLocalStorage } from 'node:async_hooks';
import type { Interceptor } from '../../src/index.js';

/** The RPCs that the call under test sends, without those that sessions send at the same time. */
export const underTest = new AsyncLocalStorage<string[]>();

/** Notes each RPC in the list of the call under test. */
export const rpcsUnderTest: Interceptor = {
  unary: (call, next) => {
    underTest.getStore()?.push(call.method.path);
    return next(call);
  },
  stream: (call, handler, next) => {
    underTest.getStore()?.push(call.method.path);
    return next(call, handler);
  },
};
