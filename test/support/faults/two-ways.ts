import type { Client } from '../../../src/index.js';
import type { FaultProxy } from '../../../src/testing/index.js';
import { openClient } from '../client.js';
import type { FaultyCluster } from './cluster.js';

/** One client past the proxy of a single member, and one through it; closed when the test ends. */
export function twoWays({ endpoints, proxies }: FaultyCluster): {
  readonly direct: Client;
  readonly behind: Client;
  readonly proxy: FaultProxy;
} {
  const [proxy] = proxies as [FaultProxy];
  return { direct: openClient({ endpoints }), behind: openClient({ endpoints: [proxy.endpoint] }), proxy };
}
