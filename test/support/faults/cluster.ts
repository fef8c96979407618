import type { Etcd } from '../../../scripts/etcd.js';
import type { FaultProxy } from '../../../src/testing/index.js';
import { faultProxy } from '../fault-proxy.js';
import { ownEtcd } from '../own-etcd.js';

/** Three members, each behind a proxy of its own, for one test alone. */
export interface FaultyCluster {
  readonly etcd: Etcd & { readonly etcdctl: string };
  readonly proxies: readonly FaultProxy[];
  /** Of the proxies, beginning with that of the member with this index. */
  endpointsFrom(index: number): string[];
}

/** Undefined where the servers are not processes of ours, or etcdctl is missing. */
export async function faultyCluster(): Promise<FaultyCluster | undefined> {
  const etcd = await ownEtcd({ members: 3 });
  const { etcdctl, processes } = etcd;
  if (processes.length === 0 || etcdctl === undefined) return undefined;
  const proxies = await Promise.all(etcd.endpoints.map((endpoint) => faultProxy(endpoint)));
  const endpoints = proxies.map(({ endpoint }) => endpoint);
  return {
    etcd: { ...etcd, etcdctl },
    proxies,
    endpointsFrom: (index) => [...endpoints.slice(index % 3), ...endpoints.slice(0, index % 3)],
  };
}

/**
 * Whether this etcd is exact itself: it lost or repeated watch events before 3.4.42, 3.5.28 and 3.6.9.
 */
export function watchesExactly({ version }: Etcd): boolean {
  const [, minor = 0, patch = 0] = (version ?? '').split('.').map(Number);
  return minor > 6 || patch >= ({ 4: 42, 5: 28, 6: 9 }[minor] ?? Number.POSITIVE_INFINITY);
}
