import { onTestFinished } from 'vitest';
import { FaultProxy, type FaultProxyOptions } from '../../src/testing/index.js';

/** Starts a proxy in front of `target` and closes it when the test ends. */
export async function faultProxy(target: string, options?: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = await FaultProxy.start(target, options);
  onTestFinished(() => proxy.close());
  return proxy;
}
