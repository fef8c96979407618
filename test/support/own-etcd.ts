import { onTestFinished } from 'vitest';
import { type Etcd, type StartOptions, startEtcd } from '../../scripts/etcd.js';

/** A server or cluster for one test alone, which may kill it or compact its history; stopped when the test ends. */
export async function ownEtcd(options: StartOptions = {}): Promise<Etcd> {
  const etcd = await startEtcd(options);
  onTestFinished(() => etcd.stop());
  return etcd;
}
