import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../src/index.js';

const LOOK_MS = 50;

/**
 * Waits until the members have the storage version of their own release. A new etcd 3.6 or newer starts with an older
 * storage version. It usually raises this version at once, but sometimes only after 5 s.
 */
export async function storageVersionRaised(endpoints: readonly string[]): Promise<void> {
  for (const endpoint of endpoints) {
    await using etcd = new Client({ endpoints: [endpoint] });
    while (await isOld(etcd, endpoint)) await pause(LOOK_MS);
  }
}

async function isOld(etcd: Client, endpoint: string): Promise<boolean> {
  const { version, storageVersion } = await etcd.maintenance.status(endpoint);
  const [major, minor] = version.split('.').map(Number) as [number, number];
  return minor >= 6 && storageVersion !== `${major}.${minor}.0`;
}
