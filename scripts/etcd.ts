import { pathToFileURL } from 'node:url';
import { startContainers } from './etcd/docker.js';
import { type EtcdSource, type FindOptions, findEtcd } from './etcd/find.js';
import { type EtcdProcess, type Join, startProcesses } from './etcd/process.js';

// The one place that finds an etcd server, and starts and stops members. Run it to have one until Ctrl-C:
//   npx tsx scripts/etcd.ts [--members 3]

export interface StartOptions extends Partial<FindOptions> {
  /** Default 1. */
  readonly members?: 1 | 3 | undefined;
  /** Further arguments of etcd. */
  readonly args?: readonly string[] | undefined;
}

/** A server, or a cluster of three. */
export interface Etcd {
  readonly endpoints: readonly string[];
  /** "major.minor.patch"; undefined for servers that ETCD_ENDPOINTS names. */
  readonly version: string | undefined;
  readonly etcdctl: string | undefined;
  /** The members as processes, to be killed and paused; none where they are not ours. */
  readonly processes: readonly EtcdProcess[];
  /** Starts one more member; undefined where the members are not processes of ours. */
  readonly join: Join | undefined;
  readonly stop: () => Promise<void>;
}

/** Where no etcd is found this throws an error that lists what was tried. Servers that ran before are left running. */
export async function startEtcd(options: StartOptions = {}): Promise<Etcd> {
  const { members = 1, args = [], prefer = 'exact', version } = options;
  const source = await findEtcd({ prefer, version });
  switch (source.kind) {
    case 'endpoints':
      return {
        endpoints: source.endpoints,
        version: undefined,
        etcdctl: undefined,
        processes: [],
        join: undefined,
        stop: async () => {},
      };
    case 'binary': {
      const { members: processes, join, stop } = await startProcesses(source, members, args);
      const endpoints = processes.map(({ endpoint }) => endpoint);
      return { endpoints, version: source.version, etcdctl: source.etcdctl, processes, join, stop };
    }
    case 'docker': {
      const containers = await startContainers(source, members, args);
      const stop = async (): Promise<void> => {
        for (const container of containers) await container.stop();
      };
      const endpoints = containers.map(({ endpoint }) => endpoint);
      return { endpoints, version: source.version, etcdctl: undefined, processes: [], join: undefined, stop };
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
