import { inject, onTestFinished } from 'vitest';
import { startEtcd } from '../../scripts/etcd.js';
import type { RunningEtcd, StartEtcdOptions } from '../../src/testing/index.js';
import { startMemoryEtcd } from './memory-server.js';

/**
 * Starts a server or a cluster for one test. The test may kill the members or compact the history. The server or
 * cluster is stopped when the test ends.
 */
export async function ownEtcd(options: StartEtcdOptions = {}): Promise<RunningEtcd> {
  const etcd = await (inject('server') === 'memory' ? startMemoryEtcd : startEtcd)(options);
  onTestFinished(() => etcd.close());
  return etcd;
}
