import { inject } from 'vitest';
import { localVersions } from '../../src/testing/etcd/find.js';
import { type EtcdMinor, MINORS } from '../../src/testing/etcd/versions.js';

// `npm run test:all` tests everything. To save time, `npm test` uses fewer generated inputs and only one version of
// etcd.

/** Returns the number of generated inputs for this run, given the number for a complete run. */
export function iterations(complete: number): number {
  return inject('thorough') ? complete : Math.ceil(complete / 4);
}

/**
 * Resolves with the minor versions of etcd to test: the oldest and the newest local version, or only the version of the
 * member that all tests share.
 */
export async function testedVersions(): Promise<EtcdMinor[]> {
  const versions = await localVersions();
  const shared = MINORS.find((minor) => inject('etcdVersion')?.startsWith(`${minor}.`));
  const chosen = inject('thorough') || shared === undefined ? [versions.at(-1), versions[0]] : [shared];
  return [...new Set(chosen)].filter((version) => version !== undefined);
}
