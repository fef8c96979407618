import { onTestFinished } from 'vitest';
import { type Etcd, type StartOptions, startEtcd } from '../../scripts/etcd.js';

/**
 * Starts a server or a cluster for one test. The test may kill the members or compact the history. The server or
 * cluster is stopped when the test ends.
 */
export async function ownEtcd(options: StartOptions = {}): Promise<Etcd> {
  const etcd = await startEtcd(options);
  onTestFinished(() => etcd.stop());
  return etcd;
}
