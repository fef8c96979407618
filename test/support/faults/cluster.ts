import { type Etcd, type StartOptions, startEtcd } from '../../../scripts/etcd.js';
import { type EtcdCluster, type EtcdMember, FaultProxy } from '../../../src/testing/index.js';
import { proxiedFrom, type Target } from './target.js';

/** Members of our own, three by default, each behind a proxy of its own. */
export class FaultyCluster implements Target, AsyncDisposable {
  readonly cluster: EtcdCluster;
  readonly etcdctl: string;
  readonly version: string;
  readonly proxies: readonly FaultProxy[];

  private constructor(cluster: EtcdCluster, etcdctl: string, version: string, proxies: readonly FaultProxy[]) {
    this.cluster = cluster;
    this.etcdctl = etcdctl;
    this.version = version;
    this.proxies = proxies;
  }

  /** Undefined where the servers are not processes of ours, or etcdctl is missing. */
  static async start(options: StartOptions = {}): Promise<FaultyCluster | undefined> {
    const { cluster, etcdctl, version, endpoints, stop } = await startEtcd({ members: 3, ...options });
    if (cluster === undefined || etcdctl === undefined || version === undefined) return void (await stop());
    const proxies = await Promise.all(endpoints.map((endpoint) => FaultProxy.start(endpoint)));
    return new FaultyCluster(cluster, etcdctl, version, proxies);
  }

  get members(): readonly EtcdMember[] {
    return this.cluster.members;
  }

  get endpoints(): string[] {
    return this.cluster.endpoints;
  }

  get proxied(): string[] {
    return this.proxies.map(({ endpoint }) => endpoint);
  }

  /** Of the proxies, beginning with that of this member. */
  endpointsFromMember(member: EtcdMember): string[] {
    return proxiedFrom(this, this.members.indexOf(member));
  }

  proxyOf(member: EtcdMember): FaultProxy {
    return this.proxies[this.members.indexOf(member)] as FaultProxy;
  }

  /** Ends every fault. */
  async heal(): Promise<void> {
    for (const proxy of this.proxies) proxy.heal();
    await this.cluster.heal();
  }

  async close(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    await this.cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Whether this etcd is exact itself: it lost or repeated watch events before 3.4.42, 3.5.28 and 3.6.9. */
export function watchesExactly({ version }: Pick<Etcd, 'version'>): boolean {
  const [, minor = 0, patch = 0] = (version ?? '').split('.').map(Number);
  return minor > 6 || patch >= ({ 4: 42, 5: 28, 6: 9 }[minor] ?? Number.POSITIVE_INFINITY);
}
