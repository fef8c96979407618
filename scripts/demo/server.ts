import { EtcdNotFoundError, listen, MemoryEtcd } from '../../src/testing/index.js';
import { startEtcd } from '../etcd.js';

/** The server of the demo. */
export interface DemoServer {
  readonly endpoints: readonly string[];
  /** The name and the version of the server, for the first lines of the demo. */
  readonly description: string;
  readonly isReal: boolean;
  readonly close: () => Promise<void>;
}

/**
 * Starts a real etcd, or an etcd in memory if `inMemory` is true. If no real etcd can be started, calls `onFallback`
 * with the reason, and starts an etcd in memory.
 */
export async function startServer(inMemory: boolean, onFallback: (reason: string) => void): Promise<DemoServer> {
  if (inMemory) return serveFromMemory();
  try {
    const { endpoints, version, close } = await startEtcd({ prefer: 'quick' });
    return { endpoints, description: `etcd ${version ?? ''}`.trim(), isReal: true, close };
  } catch (error) {
    if (!(error instanceof EtcdNotFoundError)) throw error;
    onFallback(error.message);
    return serveFromMemory();
  }
}

async function serveFromMemory(): Promise<DemoServer> {
  const listener = await listen(new MemoryEtcd());
  return {
    endpoints: [listener.endpoint],
    description: 'MemoryEtcd',
    isReal: false,
    close: () => listener.close(),
  };
}
