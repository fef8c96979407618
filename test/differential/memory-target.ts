import { parseEndpoint } from '../../src/host/endpoint.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import type { MemoryVersion } from '../../src/testing/memory/settings.js';
import { memory } from '../../src/testing/memory/transport.js';
import { CONNECTION_OPTIONS, serverOf, type Target } from './target.js';

/** Returns a target that plays each sequence at a new `MemoryEtcd`. */
export function memoryTarget(version: MemoryVersion): Target {
  return {
    name: `MemoryEtcd ${version}`,
    version,
    next: () => {
      const server = new MemoryEtcd({ version });
      const endpoint = parseEndpoint(server.endpoint, 'endpoint');
      return serverOf(memory(server)(endpoint, CONNECTION_OPTIONS));
    },
    close: async () => {},
  };
}
