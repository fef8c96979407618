import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  checkBoolean,
  checkCan,
  checkFields,
  checkFunction,
  checkList,
  checkMs,
  checkName,
  checkOptions,
  checkPositiveCount,
  checkText,
  EtcdError,
  monotonicMs,
  pause,
} from '../../base/index.js';
import type { Member } from '../../client/index.js';
import { Client } from '../../extras/full/index.js';
import { FaultProxy } from '../faults/fault-proxy.js';
import { EtcdMember } from './etcd-member.js';
import { freePorts } from './free-ports.js';
import { Guard } from './guard.js';

/** Options of an etcd cluster. */
export interface EtcdClusterOptions {
  /** Path of the etcd executable. Default: `etcd` on the PATH. */
  readonly etcd?: string | undefined;
  /** Number of members. Default 1. */
  readonly members?: number | undefined;
  /** Additional arguments for each member. */
  readonly args?: readonly string[] | undefined;
  /** Whether the members reach each other through proxies. `partition` requires these proxies. Default false. */
  readonly peerProxies?: boolean | undefined;
  /** Certificates that the members use to accept clients over TLS. Default: no TLS. */
  readonly tls?: EtcdClusterTls | undefined;
}

/** Paths of the PEM files that the members of a cluster use to accept clients over TLS. */
export interface EtcdClusterTls {
  /** Certificate of the members. */
  readonly certFile: string;
  /** Private key of the members. */
  readonly keyFile: string;
  /**
   * Certificates of the authorities that sign client certificates. If set, members refuse clients without a
   * certificate, except at the port of 127.0.0.1 that the cluster itself uses, which has no TLS.
   */
  readonly clientCaFile?: string | undefined;
}

/** The options that `startEtcd` has, too. */
export const SHARED_CLUSTER_OPTIONS = {
  members: checkPositiveCount,
  args: checkTexts,
  peerProxies: checkBoolean,
  tls: checkClusterTls,
} as const;
const CLUSTER_OPTIONS = { etcd: checkName, ...SHARED_CLUSTER_OPTIONS } as const;
const CLUSTER_TLS = { certFile: checkName, keyFile: checkName, clientCaFile: checkName } as const;

/**
 * A function that adds a member to the cluster by its peer URL. Resolves with all members of the cluster, including the
 * new member.
 */
export type AddMember = (peerUrl: string) => Promise<readonly Pick<Member, 'name' | 'peerUrls'>[]>;

/** Options for a member that joins a running cluster. */
export interface JoinOptions {
  /** Whether to add the member as a learner, which does not vote. Default false. */
  readonly learner?: boolean | undefined;
  /**
   * The function that adds the member. Default: a function that calls `memberAdd`. The default works only without TLS
   * and authentication.
   */
  readonly add?: AddMember | undefined;
}

const JOIN_OPTIONS = { learner: checkBoolean, add: checkFunction } as const;
const LEADER_OPTIONS = { timeoutMs: checkMs } as const;

function checkMember(member: EtcdMember): void {
  checkCan(member, 'kill', 'member', 'a member of this cluster');
}

function checkTexts(texts: readonly string[], argument: string): void {
  checkList(texts, argument).forEach((text, index) => void checkText(text, `${argument}[${index}]`));
}

function checkClusterTls(tls: EtcdClusterTls, argument: string): void {
  checkFields(tls, CLUSTER_TLS, argument);
  for (const name of ['certFile', 'keyFile'] as const) checkName(tls[name], `${argument}.${name}`);
}

/** The name and the URLs of a member, and the proxy through which the other members reach it. */
interface Site {
  readonly name: string;
  /** URL for clients. */
  readonly endpoint: string;
  /** URL for the calls of the test kit itself. It never uses TLS. */
  readonly ownUrl: string;
  /** URL on which the member listens for the other members. */
  readonly listenPeerUrl: string;
  /** URL that the member advertises to the other members: the proxy's URL, or `listenPeerUrl` without a proxy. */
  readonly peerUrl: string;
  readonly proxy: FaultProxy | undefined;
}

const POLL_MS = 20;
const LEADER_TIMEOUT_MS = 30_000;
const HEALTHY_TIMEOUT_MS = 30_000;
const STATUS_TIMEOUT_MS = 2_000;

/**
 * An etcd cluster on free ports of 127.0.0.1, with its data in a temporary folder. Tests can kill, suspend, partition,
 * add and remove its members. Runs on Node.js only.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { EtcdCluster } from 'etcdwire/testing';
 *
 * await using cluster = await EtcdCluster.start({ members: 3, peerProxies: true });
 * await using etcd = new Client({ endpoints: cluster.endpoints });
 * await cluster.partition(await cluster.leader());
 * await etcd.get('k', { timeoutMs: 20_000 });
 * await cluster.heal();
 */
export class EtcdCluster implements AsyncDisposable {
  readonly #options: EtcdClusterOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'etcdwire-data-'));
  readonly #guard = new Guard(this.#folder);
  readonly #members: EtcdMember[] = [];
  readonly #peerProxies = new Map<EtcdMember, FaultProxy>();
  readonly #ids = new Map<EtcdMember, bigint>();
  /** Number of member names used so far. Names are never reused. */
  #named = 0;

  private constructor(options: EtcdClusterOptions) {
    this.#options = options;
  }

  /**
   * Starts a cluster. Resolves when all members are healthy.
   *
   * @throws EtcdError with reason `InvalidInput` if an option is invalid; Error if a member does not start.
   */
  static async start(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
    checkOptions(options, CLUSTER_OPTIONS, 'EtcdCluster.start');
    const { members = 1 } = options;
    const cluster = new EtcdCluster(options);
    try {
      const sites = await cluster.#newSites(members);
      const all = sites.map(({ name, peerUrl }) => `${name}=${peerUrl}`);
      await Promise.all(sites.map((site) => cluster.#start(site, all, 'new')));
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** The members of the cluster, including members that are not running. */
  get members(): readonly EtcdMember[] {
    return this.#members;
  }

  /** The URLs of all members, for clients. */
  get endpoints(): string[] {
    return this.#members.map(({ endpoint }) => endpoint);
  }

  /**
   * Starts all members that are not running. Resolves when all members are healthy.
   *
   * @throws Error if a member does not start.
   */
  async start(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.start()));
  }

  /**
   * Adds a member to the cluster, and starts the member. Resolves when the member is healthy.
   *
   * @throws EtcdError if the member cannot be added; Error if the member does not start.
   */
  async join(options: JoinOptions = {}): Promise<EtcdMember> {
    checkOptions(options, JOIN_OPTIONS, 'EtcdCluster.join');
    const { learner, add = (peerUrl) => this.#add(peerUrl, learner) } = options;
    const [site] = (await this.#newSites(1)) as [Site];
    const { name, peerUrl } = site;
    const known = await add(peerUrl).catch(async (error: unknown) => {
      await site.proxy?.close();
      throw error;
    });
    const all = known.flatMap((member) =>
      member.peerUrls.map((url) => `${url === peerUrl ? name : member.name}=${url}`),
    );
    return this.#start(site, all, 'existing');
  }

  /**
   * Removes a member from the cluster, and kills the member. Does not work with authentication.
   *
   * @throws EtcdError if the member cannot be removed; Error if the ID of the member is unknown, because the member has
   * not answered a status request.
   */
  async remove(member: EtcdMember): Promise<void> {
    checkMember(member);
    const others = this.#members.filter((each) => each !== member);
    await using client = new Client({ endpoints: others.map(({ ownUrl }) => ownUrl) });
    const id = await this.#idOf(member);
    await onceHealthy(() => client.cluster.memberRemove(id));
    await member.kill();
    this.#members.splice(this.#members.indexOf(member), 1);
    await this.#peerProxies.get(member)?.close();
    this.#peerProxies.delete(member);
  }

  /**
   * Resolves with the leader as soon as the cluster has one.
   *
   * @param options `timeoutMs`: maximum wait in milliseconds. Default 30,000.
   * @throws Error if no member becomes the leader in time.
   */
  async leader(options: { readonly timeoutMs?: number | undefined } = {}): Promise<EtcdMember> {
    checkOptions(options, LEADER_OPTIONS, 'EtcdCluster.leader');
    const { timeoutMs = LEADER_TIMEOUT_MS } = options;
    const deadline = monotonicMs() + timeoutMs;
    while (monotonicMs() < deadline) {
      for (const member of this.#members.filter(({ running }) => running)) {
        const status = await statusOf(member.ownUrl);
        if (status !== undefined && status.leader !== 0n && status.leader === status.memberId) return member;
      }
      await pause(POLL_MS);
    }
    throw new Error(`no member became the leader within ${timeoutMs} ms`);
  }

  /**
   * Cuts the connections between a member and all other members. Clients can still reach every member.
   *
   * @throws TypeError if the cluster was started without `peerProxies`.
   */
  async partition(member: EtcdMember): Promise<void> {
    checkMember(member);
    if (this.#peerProxies.size === 0) throw new TypeError('partition: the cluster was started without peerProxies');
    const sender = (await this.#idOf(member)).toString(16);
    for (const [each, proxy] of this.#peerProxies) {
      if (each === member) proxy.blackhole();
      else proxy.cutOff(sender);
    }
  }

  /**
   * Ends all partitions, resumes suspended members, and starts the members that are not running. Resolves when all
   * members are healthy.
   *
   * @throws Error if a member does not start.
   */
  async heal(): Promise<void> {
    for (const proxy of this.#peerProxies.values()) proxy.heal();
    for (const member of this.#members) member.resume();
    await Promise.all(this.#members.map((member) => member.start()));
  }

  /** Kills the members and deletes their data. */
  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.kill()));
    await Promise.all([...this.#peerProxies.values()].map((proxy) => proxy.close()));
    // Windows keeps the files of a process locked for a moment after the process has ended.
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    this.#guard.close();
  }

  /** Calls `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #start(site: Site, cluster: readonly string[], state: 'new' | 'existing'): Promise<EtcdMember> {
    const { etcd = 'etcd', args = [], tls } = this.#options;
    const { name, endpoint, ownUrl, listenPeerUrl, peerUrl, proxy } = site;
    const member = new EtcdMember({
      cluster: () => ({
        running: this.#members.filter(({ running }) => running).length,
        members: this.#members.length,
      }),
      changed: () => this.#guard.watch(this.#members.filter(({ running }) => running).map(({ pid }) => pid)),
      name,
      endpoint,
      ownUrl,
      peerUrl,
      etcd,
      args: [
        `--name=${name}`,
        `--data-dir=${join(this.#folder, name)}`,
        `--listen-client-urls=${[...new Set([endpoint, ownUrl])].join(',')}`,
        `--advertise-client-urls=${endpoint}`,
        `--listen-peer-urls=${listenPeerUrl}`,
        `--initial-advertise-peer-urls=${peerUrl}`,
        '--log-level=warn',
        ...(tls === undefined ? [] : tlsArgs(tls)),
        `--initial-cluster=${cluster.join(',')}`,
        `--initial-cluster-state=${state}`,
        ...args,
      ],
      logFile: join(this.#folder, `${name}.log`),
    });
    this.#members.push(member);
    if (proxy !== undefined) this.#peerProxies.set(member, proxy);
    await member.start();
    // `partition` needs the member's ID. A member that is suspended or dead could not tell it, so ask for it now.
    if (proxy !== undefined) await this.#idOf(member);
    return member;
  }

  async #newSites(count: number): Promise<Site[]> {
    const { tls, peerProxies } = this.#options;
    const ports = await freePorts(count * 3);
    const url = (index: number, scheme = 'http'): string => `${scheme}://127.0.0.1:${ports[index]}`;
    return Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const listenPeerUrl = url(3 * index);
        const proxy = peerProxies ? await FaultProxy.start(listenPeerUrl, { senderOf }) : undefined;
        const endpoint = url(3 * index + 1, tls === undefined ? 'http' : 'https');
        const ownUrl = tls === undefined ? endpoint : url(3 * index + 2);
        const peerUrl = proxy?.endpoint ?? listenPeerUrl;
        return { name: `m${this.#named++}`, endpoint, ownUrl, listenPeerUrl, peerUrl, proxy };
      }),
    );
  }

  async #add(peerUrl: string, learner: boolean | undefined): Promise<readonly Member[]> {
    await using client = new Client({ endpoints: this.#members.map(({ ownUrl }) => ownUrl) });
    return (await onceHealthy(() => client.cluster.memberAdd([peerUrl], { learner }))).members;
  }

  async #idOf(member: EtcdMember): Promise<bigint> {
    const id = this.#ids.get(member) ?? (await statusOf(member.ownUrl))?.memberId;
    if (id === undefined) throw new Error(`${member.name} does not answer a status request, so its ID is unknown`);
    this.#ids.set(member, id);
    return id;
  }
}

function tlsArgs({ certFile, keyFile, clientCaFile }: EtcdClusterTls): string[] {
  return [
    `--cert-file=${certFile}`,
    `--key-file=${keyFile}`,
    ...(clientCaFile === undefined ? [] : ['--client-cert-auth', `--trusted-ca-file=${clientCaFile}`]),
  ];
}

/** Returns the status of the member at the endpoint, or undefined if it does not answer. The call needs no quorum. */
async function statusOf(endpoint: string): Promise<{ memberId: bigint; leader: bigint } | undefined> {
  await using client = new Client({ endpoints: [endpoint] });
  try {
    const { header, leader } = await client.raw.maintenance.status({}, { timeoutMs: STATUS_TIMEOUT_MS });
    return { memberId: header?.memberId ?? 0n, leader };
  } catch (error) {
    if (error instanceof EtcdError) return undefined;
    throw error;
  }
}

/**
 * Makes a membership change. If etcd refuses the change because the cluster is unhealthy, repeats the change for up to
 * `HEALTHY_TIMEOUT_MS`. etcd refuses to add a member until all members have been connected to each other for five
 * seconds. etcd refuses to remove a connected member unless a quorum of the remaining members has been connected for
 * five seconds.
 */
async function onceHealthy<T>(change: () => Promise<T>): Promise<T> {
  const deadline = monotonicMs() + HEALTHY_TIMEOUT_MS;
  for (;;) {
    try {
      return await change();
    } catch (error) {
      const isEarly = error instanceof EtcdError && error.reason === 'Unhealthy';
      if (!isEarly || monotonicMs() > deadline) throw error;
      await pause(POLL_MS);
    }
  }
}

/**
 * Returns the hexadecimal ID of the sending member, from the header that etcd's `rafthttp` adds to each request to a
 * peer. Returns undefined if the bytes do not contain this header.
 */
function senderOf(bytes: Uint8Array): string | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  return /^x-server-from: ([0-9a-f]+)\r$/im.exec(text)?.[1];
}
