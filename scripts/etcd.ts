import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { EtcdCluster, type EtcdClusterOptions, type EtcdMember } from '../src/testing/index.js';
import { startContainers } from './etcd/docker.js';
import { type EtcdSource, type FindOptions, findEtcd } from './etcd/find.js';
import { MINORS } from './etcd/versions.js';
import { withProgress } from './programs.js';

// Finds an etcd server and starts and stops members, for all scripts and tests. Run as a program, this file starts a
// server or a cluster and keeps it running until Ctrl-C.

export interface StartOptions
  extends Partial<FindOptions>,
    Pick<EtcdClusterOptions, 'members' | 'args' | 'peerProxies' | 'tls'> {}

/** A running etcd server, or a running cluster. */
export interface Etcd {
  readonly endpoints: readonly string[];
  /** The version as "major.minor.patch". Undefined for the servers in ETCD_ENDPOINTS. */
  readonly version: string | undefined;
  readonly etcdctl: string | undefined;
  /** The members as processes that a test can kill and pause. Empty if this script did not start them as processes. */
  readonly processes: readonly EtcdMember[];
  /** The cluster that the processes form. Undefined if this script did not start the members as processes. */
  readonly cluster: EtcdCluster | undefined;
  readonly stop: () => Promise<void>;
}

/**
 * Starts one member or a cluster, or uses the servers in ETCD_ENDPOINTS, which `stop` leaves running.
 *
 * @throws Error that lists the places that were tried if no etcd is found.
 */
export async function startEtcd(options: StartOptions = {}): Promise<Etcd> {
  const { prefer = 'exact', version, ...clusterOptions } = options;
  const source = await findEtcd({ prefer, version });
  switch (source.kind) {
    case 'endpoints':
      return {
        endpoints: source.endpoints,
        version: undefined,
        etcdctl: undefined,
        processes: [],
        cluster: undefined,
        stop: async () => {},
      };
    case 'binary': {
      const { etcd, version, etcdctl } = source;
      const cluster = await withProgress('etcd: starting', EtcdCluster.start({ ...clusterOptions, etcd }));
      const { endpoints, members: processes } = cluster;
      return { endpoints, version, etcdctl, processes, cluster, stop: () => cluster.close() };
    }
    case 'docker': {
      const containers = await startContainers(source, options.members ?? 1, options.args ?? []);
      const stop = async (): Promise<void> => {
        for (const container of containers) await container.stop();
      };
      const endpoints = containers.map(({ endpoint }) => endpoint);
      return { endpoints, version: source.version, etcdctl: undefined, processes: [], cluster: undefined, stop };
    }
  }
}

/** Returns one line that says which etcd is used and where it comes from. */
export function describeSource(source: EtcdSource): string {
  if (source.kind === 'endpoints') return `etcd at ${source.endpoints.join(', ')}`;
  if (source.kind === 'docker') return `etcd ${source.version} in Docker`;
  return `etcd ${source.version} from ${source.from}`;
}

const USAGE = `npx tsx scripts/etcd.ts [--members 1|3]

Starts one etcd server, or a cluster of three, prints its endpoints and runs until Ctrl-C.
ETCD_VERSION=${MINORS.join('|')} chooses the minor version.
`;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { members: { type: 'string', default: '1' }, help: { type: 'boolean', default: false } },
  });
  if (values.help) return void process.stdout.write(USAGE);
  if (!['1', '3'].includes(values.members)) throw new Error(`--members: got "${values.members}"; allowed: 1, 3`);
  const etcd = await startEtcd({ members: Number(values.members), prefer: 'quick' });
  process.stdout.write(`${etcd.endpoints.join(',')}\n`);
  process.once('SIGINT', () => void etcd.stop().then(() => process.exit(0)));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main().catch((error: Error) => {
    process.stderr.write(`${error.message}\n${USAGE}`);
    process.exitCode = 2;
  });
}
