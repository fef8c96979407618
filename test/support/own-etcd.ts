import { onTestFinished } from 'vitest';
import { type Etcd, type StartOptions, startEtcd } from '../../scripts/etcd.js';

/** Starts a server or cluster for one test, which may kill its members or compact its history. Stops it when the test ends. */
export async function ownEtcd(options: StartOptions = {}): Promise<Etcd> {
  const etcd = await startEtcd(options);
  onTestFinished(() => etcd.stop());
  return etcd;
}
