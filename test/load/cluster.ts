import { startEtcd } from '../../scripts/etcd.js';
import { type EtcdCluster, type EtcdMember, FaultProxy, type StartEtcdOptions } from '../../src/testing/index.js';

/** The addresses of a cluster, as plain data that can be sent to other processes. */
export interface Target {
  readonly etcdctl: string;
  /** The etcd version of the members, as "major.minor.patch". */
  readonly version: string;
  /** The endpoints of the members themselves. */
  readonly endpoints: readonly string[];
  /** The endpoints of the proxies in front of the members, in the same order. */
  readonly proxied: readonly string[];
}

/** Returns the endpoints of the proxies, starting with the proxy of the member with this index. */
export function proxiedFrom({ proxied }: Target, index: number): string[] {
  const first = index % proxied.length;
  return [...proxied.slice(first), ...proxied.slice(0, first)];
}

/**
 * A cluster that a test starts, with three members by default. In front of each member is a proxy that can inject
 * faults.
 */
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

  /**
   * Starts the cluster and its proxies. Resolves with undefined if the members cannot be started as processes, or if
   * etcdctl is missing.
   */
  static async start(options: StartEtcdOptions = {}): Promise<FaultyCluster | undefined> {
    const { cluster, etcdctl, version, endpoints, close } = await startEtcd({ members: 3, ...options });
    if (cluster === undefined || etcdctl === undefined || version === undefined) return void (await close());
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

  /** Returns the endpoints of the proxies, starting with the proxy of this member. */
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
