import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '../client.js';
import { EtcdError } from '../errors/etcd-error.js';
import { checkCount, checkFields, checkOptions } from '../runtime/arguments.js';
import { pause } from '../runtime/timers.js';
import type { Member } from '../services/cluster.js';
import { EtcdMember } from './etcd-member.js';
import { FaultProxy } from './fault-proxy.js';
import { freePorts } from './free-ports.js';

/** How many members, and of what kind. */
export interface EtcdClusterOptions {
  /** Path of the program etcd. Default: `etcd` on the PATH. */
  readonly etcd?: string | undefined;
  /** How many members. Default 1. */
  readonly members?: number | undefined;
  /** Further arguments of each member. */
  readonly args?: readonly string[] | undefined;
  /** Let the members reach each other through proxies, for `partition`. Default false. */
  readonly peerProxies?: boolean | undefined;
  /** PEM files; clients then speak TLS to the members. */
  readonly tls?: EtcdClusterTls | undefined;
}

/** The certificate of the members, as files. */
export interface EtcdClusterTls {
  readonly certFile: string;
  readonly keyFile: string;
  /** Ask clients for certificates of these authorities. */
  readonly clientCaFile?: string | undefined;
}

const CLUSTER_OPTIONS = { etcd: true, members: true, args: true, peerProxies: true, tls: true } as const;
const CLUSTER_TLS = { certFile: true, keyFile: true, clientCaFile: true } as const;

/** Makes a member known to the cluster by its peer URL, and gives all members as they are then. */
export type AddMember = (peerUrl: string) => Promise<readonly Pick<Member, 'name' | 'peerUrls'>[]>;

/** How a member joins. */
export interface JoinOptions {
  /** Add it as one that does not vote. Default false. */
  readonly learner?: boolean | undefined;
  /** What makes it known. Default: `memberAdd`, which takes a cluster without TLS and authentication. */
  readonly add?: AddMember | undefined;
}

const JOIN_OPTIONS = { learner: true, add: true } as const;
const LEADER_OPTIONS = { timeoutMs: true } as const;

/** Where a member listens, and where it advertises that the others reach it. */
interface Place {
  readonly name: string;
  readonly client: string;
  readonly health: string;
  readonly peer: string;
  readonly advertisedPeer: string;
}

const POLL_MS = 20;
const LEADER_TIMEOUT_MS = 30_000;
const HEALTHY_TIMEOUT_MS = 30_000;

/**
 * Real etcd members on free ports of the loopback, with their data in a temporary folder: to be killed, paused, cut off
 * from each other, added and removed. Only on Node.
 */
export class EtcdCluster implements AsyncDisposable {
  readonly #options: EtcdClusterOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcdwire-data-'));
  readonly #members: EtcdMember[] = [];
  readonly #peerProxies = new Map<EtcdMember, FaultProxy>();
  readonly #ids = new Map<EtcdMember, bigint>();
  #named = 0;

  private constructor(options: EtcdClusterOptions) {
    this.#options = options;
  }

  /** Resolves once all members serve. @throws Error with the end of a member's log; EtcdError on bad input. */
  static async start(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
    checkOptions(options, CLUSTER_OPTIONS, 'EtcdCluster.start');
    if (options.tls !== undefined) checkFields(options.tls, CLUSTER_TLS, 'tls');
    const members = checkCount(options.members ?? 1, 'members', 1);
    const cluster = new EtcdCluster(options);
    try {
      const places = await cluster.#places(members);
      const all = places.map(({ place }) => `${place.name}=${place.advertisedPeer}`);
      await Promise.all(places.map((place) => cluster.#start(place, all, 'new')));
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** Those that belong to the cluster, whether they run or not. */
  get members(): readonly EtcdMember[] {
    return this.#members;
  }

  /** Of the members, as clients reach them. */
  get endpoints(): string[] {
    return this.#members.map(({ endpoint }) => endpoint);
  }

  /** Starts one more member, once the cluster takes it. By default it votes. */
  async join(options: JoinOptions = {}): Promise<EtcdMember> {
    checkOptions(options, JOIN_OPTIONS, 'EtcdCluster.join');
    const { learner, add = (peerUrl) => this.#add(peerUrl, learner) } = options;
    const [place] = (await this.#places(1)) as [Placed];
    const { name, advertisedPeer } = place.place;
    const known = await add(advertisedPeer).catch(async (error: unknown) => {
      await place.proxy?.close();
      throw error;
    });
    const all = known.flatMap((member) =>
      member.peerUrls.map((url) => `${url === advertisedPeer ? name : member.name}=${url}`),
    );
    return this.#start(place, all, 'existing');
  }

  /** Takes a member out of the cluster, for good, and ends it. Not for clusters with TLS or authentication. */
  async remove(member: EtcdMember): Promise<void> {
    const others = this.#members.filter((each) => each !== member);
    await using client = new Client({ endpoints: others.map(({ endpoint }) => endpoint) });
    const id = await this.#idOf(member);
    await onceHealthy(() => client.cluster.memberRemove(id));
    await member.kill();
    this.#members.splice(this.#members.indexOf(member), 1);
    await this.#peerProxies.get(member)?.close();
    this.#peerProxies.delete(member);
  }

  /** The member that leads, once one does, within 30 s by default. Not for clusters with TLS. @throws Error */
  async leader(options: { readonly timeoutMs?: number | undefined } = {}): Promise<EtcdMember> {
    checkOptions(options, LEADER_OPTIONS, 'EtcdCluster.leader');
    const { timeoutMs = LEADER_TIMEOUT_MS } = options;
    const deadline = performance.now() + timeoutMs;
    while (performance.now() < deadline) {
      for (const member of this.#members.filter(({ running }) => running)) {
        const status = await statusOf(member.endpoint);
        if (status !== undefined && status.leader !== 0n && status.leader === status.memberId) return member;
      }
      await pause(POLL_MS);
    }
    throw new Error(`no member leads within ${timeoutMs} ms`);
  }

  /**
   * Cuts a member off from all others; clients still reach it. Needs `peerProxies`.
   */
  async partition(member: EtcdMember): Promise<void> {
    if (this.#peerProxies.size === 0) throw new TypeError('partition: the cluster was started without peerProxies');
    const sender = (await this.#idOf(member)).toString(16);
    for (const [each, proxy] of this.#peerProxies) {
      if (each === member) proxy.blackhole();
      else proxy.cutOff(sender);
    }
  }

  /** Ends all partitions, starts the members that do not run, and lets those go on that are paused. */
  async heal(): Promise<void> {
    for (const proxy of this.#peerProxies.values()) proxy.heal();
    for (const member of this.#members) member.resume();
    await Promise.all(this.#members.map((member) => member.start()));
  }

  /** Ends the members and removes their data. */
  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.kill()));
    await Promise.all([...this.#peerProxies.values()].map((proxy) => proxy.close()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #start({ place, proxy }: Placed, cluster: readonly string[], state: 'new' | 'existing'): Promise<EtcdMember> {
    const { etcd = 'etcd', args = [] } = this.#options;
    const initial = [`--initial-cluster=${cluster.join(',')}`, `--initial-cluster-state=${state}`];
    const member = new EtcdMember({
      name: place.name,
      endpoint: place.client,
      healthUrl: place.health,
      peerUrl: place.advertisedPeer,
      etcd,
      args: [...this.#argsOf(place), ...initial, ...args],
      logFile: join(this.#folder, `${place.name}.log`),
    });
    this.#members.push(member);
    if (proxy !== undefined) this.#peerProxies.set(member, proxy);
    await member.start();
    // One that is cut off may be paused, or dead, and does not tell then.
    if (proxy !== undefined) await this.#idOf(member);
    return member;
  }

  async #places(count: number): Promise<Placed[]> {
    const { tls, peerProxies } = this.#options;
    const ports = await freePorts(count * 3);
    const url = (index: number, scheme = 'http'): string => `${scheme}://127.0.0.1:${ports[index]}`;
    return Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const peer = url(3 * index);
        const proxy = peerProxies ? await FaultProxy.start(peer, { senderOf }) : undefined;
        const client = url(3 * index + 1, tls === undefined ? 'http' : 'https');
        const health = tls === undefined ? client : url(3 * index + 2);
        const advertisedPeer = proxy?.endpoint ?? peer;
        return { place: { name: `m${this.#named++}`, client, health, peer, advertisedPeer }, proxy };
      }),
    );
  }

  #argsOf({ name, client, health, peer, advertisedPeer }: Place): string[] {
    return [
      `--name=${name}`,
      `--data-dir=${join(this.#folder, name)}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${advertisedPeer}`,
      '--log-level=warn',
      ...(this.#options.tls === undefined ? [] : tlsArgs(this.#options.tls, health)),
    ];
  }

  async #add(peerUrl: string, learner: boolean | undefined): Promise<readonly Member[]> {
    await using client = new Client({ endpoints: this.endpoints });
    return (await onceHealthy(() => client.cluster.memberAdd([peerUrl], { learner }))).members;
  }

  async #idOf(member: EtcdMember): Promise<bigint> {
    const id = this.#ids.get(member) ?? (await statusOf(member.endpoint))?.memberId;
    if (id === undefined) throw new Error(`${member.name} does not tell its id`);
    this.#ids.set(member, id);
    return id;
  }
}

interface Placed {
  readonly place: Place;
  readonly proxy: FaultProxy | undefined;
}

function tlsArgs({ certFile, keyFile, clientCaFile }: EtcdClusterTls, health: string): string[] {
  return [
    `--cert-file=${certFile}`,
    `--key-file=${keyFile}`,
    ...(clientCaFile === undefined ? [] : ['--client-cert-auth', `--trusted-ca-file=${clientCaFile}`]),
    `--listen-metrics-urls=${health}`,
  ];
}

/** What a member says of itself, which takes no quorum; undefined where it does not answer. */
async function statusOf(endpoint: string): Promise<{ memberId: bigint; leader: bigint } | undefined> {
  await using client = new Client({ endpoints: [endpoint] });
  try {
    const { header, leader } = await client.raw.maintenance.status({}, { timeoutMs: 2_000 });
    return { memberId: header?.memberId ?? 0n, leader };
  } catch (error) {
    if (error instanceof EtcdError) return undefined;
    throw error;
  }
}

/** etcd lets no member come or go before the others were connected for five seconds. */
async function onceHealthy<T>(change: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + HEALTHY_TIMEOUT_MS;
  for (;;) {
    try {
      return await change();
    } catch (error) {
      const isEarly = error instanceof EtcdError && error.reason === 'Unhealthy';
      if (!isEarly || performance.now() > deadline) throw error;
      await pause(POLL_MS);
    }
  }
}

/** Members name themselves, in hexadecimal, in each request to another (etcd's `rafthttp`). */
function senderOf(bytes: Uint8Array): string | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  return /^x-server-from: ([0-9a-f]+)\r$/im.exec(text)?.[1];
}
