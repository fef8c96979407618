import { checkBoolean, checkName, checkOptions, oneOf } from '../../base/index.js';
import type { EtcdBinary } from './binary.js';
import { EtcdCluster, type EtcdClusterOptions, SHARED_CLUSTER_OPTIONS } from './etcd-cluster.js';
import type { EtcdMember } from './etcd-member.js';
import { type FindEtcdOptions, findEtcd } from './find.js';
import { withProgress } from './programs.js';
import { MINORS, versionIn } from './versions.js';

/** Options of `startEtcd`. */
export interface StartEtcdOptions
  extends FindEtcdOptions,
    Pick<EtcdClusterOptions, 'members' | 'args' | 'peerProxies' | 'tls'> {}

const START_OPTIONS = {
  version: versionIn(MINORS),
  prefer: oneOf({ quick: true, exact: true }),
  download: checkBoolean,
  cacheFolder: checkName,
  progress: checkBoolean,
  ...SHARED_CLUSTER_OPTIONS,
} as const;

/**
 * A real etcd that `startEtcd` has started. `startEtcd` sets all properties, except that `etcdctl` may be undefined.
 */
export interface RunningEtcd extends AsyncDisposable {
  /** The URLs of the members, for clients. */
  readonly endpoints: readonly string[];
  /** The version as "major.minor.patch". */
  readonly version: string | undefined;
  /** The path of etcdctl. Undefined if etcdctl is missing on this machine. */
  readonly etcdctl: string | undefined;
  /** The members, which a test can kill and suspend. */
  readonly members: readonly EtcdMember[];
  /** The cluster that the members form. */
  readonly cluster: EtcdCluster | undefined;
  /** Kills the members and deletes their data. */
  readonly close: () => Promise<void>;
}

/**
 * Starts a real etcd: one member, or a cluster. Finds the program on this machine, or else downloads or builds it and
 * keeps it for the next call. Resolves when all members are healthy. Runs on Node.js only. On Unix, the members do not
 * outlive this process, even if a signal ends it.
 *
 * `startEtcd` looks for the wanted version in these places, in this order: the program in ETCD_BIN; `etcd` on the PATH;
 * the cache; the release archive from GitHub or from the mirror in ETCD_MIRROR, if this package knows the archive's
 * SHA-256; Debian's package, if the process is root; a build with Go. The option `prefer: 'exact'` swaps the last two
 * places. ETCD_VERSION names the minor version to use.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { startEtcd } from 'etcdwire/testing';
 *
 * await using etcd = await startEtcd({ members: 3 });
 * await using client = new Client({ endpoints: etcd.endpoints });
 * await client.put('k', 'v');
 * await etcd.members[0]?.kill();
 * console.log(await client.get('k').then((kv) => kv?.text())); // v
 *
 * @throws EtcdNotFoundError if no etcd can be found, downloaded or built; EtcdError with reason `InvalidInput` if an
 * option is invalid; Error if ETCD_BIN or ETCD_VERSION is invalid, or if a member does not start.
 */
export async function startEtcd(options: StartEtcdOptions = {}): Promise<RunningEtcd> {
  checkOptions(options, START_OPTIONS, 'startEtcd');
  return startFound(await findEtcd<never>(options), options);
}

/** Starts members with the program that `findEtcd` has found. */
export async function startFound(
  found: EtcdBinary,
  { members, args, peerProxies, tls, progress = process.stderr.isTTY }: StartEtcdOptions,
): Promise<RunningEtcd> {
  const { etcd, version, etcdctl } = found;
  const starting = EtcdCluster.start({ etcd, members, args, peerProxies, tls });
  const cluster = await withProgress('etcd: starting', starting, progress);
  return runningEtcd(cluster.endpoints, () => cluster.close(), {
    version,
    etcdctl,
    members: cluster.members,
    cluster,
  });
}

/**
 * Returns the `RunningEtcd` for the servers at these endpoints. `known` contains the other properties, as far as they
 * are known.
 */
export function runningEtcd(
  endpoints: readonly string[],
  close: () => Promise<void>,
  known: Partial<Pick<RunningEtcd, 'version' | 'etcdctl' | 'members' | 'cluster'>> = {},
): RunningEtcd {
  const { version, etcdctl, members = [], cluster } = known;
  return { endpoints, version, etcdctl, members, cluster, close, [Symbol.asyncDispose]: close };
}
