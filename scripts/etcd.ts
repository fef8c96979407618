import { pathToFileURL } from 'node:url';
import { EtcdCluster, type EtcdClusterOptions, type EtcdMember } from '../src/testing/index.js';
import { startContainers } from './etcd/docker.js';
import { type EtcdSource, type FindOptions, findEtcd } from './etcd/find.js';
import { withProgress } from './etcd/progress.js';

// The one place that finds an etcd server, and starts and stops members. Run it to have one until Ctrl-C:
//   npx tsx scripts/etcd.ts [--members 3]

export interface StartOptions
  extends Partial<FindOptions>,
    Pick<EtcdClusterOptions, 'members' | 'args' | 'peerProxies' | 'tls'> {}

/** A server, or a cluster of three. */
export interface Etcd {
  readonly endpoints: readonly string[];
  /** "major.minor.patch"; undefined for servers that ETCD_ENDPOINTS names. */
  readonly version: string | undefined;
  readonly etcdctl: string | undefined;
  /** The members as processes, to be killed and paused; none where they are not ours. */
  readonly processes: readonly EtcdMember[];
  /** What they are part of. */
  readonly cluster: EtcdCluster | undefined;
  readonly stop: () => Promise<void>;
}

/** Where no etcd is found this throws an error that lists what was tried. Servers that ran before are left running. */
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
      const cluster = await withProgress('starting', EtcdCluster.start({ ...clusterOptions, etcd }));
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

/** For people: what is used and where it comes from. */
export function describeSource(source: EtcdSource): string {
  if (source.kind === 'endpoints') return `etcd at ${source.endpoints.join(', ')}`;
  if (source.kind === 'docker') return `etcd ${source.version} in Docker`;
  return `etcd ${source.version} from ${source.from}`;
}

async function main(): Promise<void> {
  const members = process.argv.includes('--members') && process.argv.at(-1) === '3' ? 3 : 1;
  const etcd = await startEtcd({ members, prefer: 'quick' });
  process.stdout.write(`${etcd.endpoints.join(',')}\n`);
  process.once('SIGINT', () => void etcd.stop().then(() => process.exit(0)));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) await main();
