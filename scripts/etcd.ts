import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import type { EtcdBinary } from '../src/testing/etcd/binary.js';
import { type FindEtcdOptions, findEtcd as find } from '../src/testing/etcd/find.js';
import { type RunningEtcd, runningEtcd, type StartEtcdOptions, startFound } from '../src/testing/etcd/start-etcd.js';
import { MINORS } from '../src/testing/etcd/versions.js';
import { DOCKER, type EtcdImage, startContainers } from './etcd-docker.js';

// Starts an etcd for the scripts and tests of this project, with `startEtcd` of etcdwire/testing. Also looks for etcd
// in Docker, and uses the servers in ETCD_ENDPOINTS if that variable is set. `startEtcd` itself ignores this variable,
// because users may have set it for their production servers. As a program, this file starts a server or a cluster and
// keeps it running until Ctrl-C.

/** Servers that are already running. */
interface EtcdEndpoints {
  readonly kind: 'endpoints';
  readonly endpoints: readonly string[];
}

/**
 * Finds an etcd, also in Docker. Prefers by default a version that neither loses nor repeats watch events, because the
 * tests compare every event.
 */
export async function findEtcd(options: FindEtcdOptions = {}): Promise<EtcdEndpoints | EtcdBinary | EtcdImage> {
  const endpoints = process.env.ETCD_ENDPOINTS;
  if (endpoints) return { kind: 'endpoints', endpoints: endpoints.split(',').map((endpoint) => endpoint.trim()) };
  return find({ prefer: 'exact', progress: true, ...options }, [DOCKER]);
}

/**
 * Starts one member or a cluster, or uses the servers in ETCD_ENDPOINTS, which `close` leaves running.
 *
 * @throws EtcdNotFoundError that lists the places that were tried if no etcd is found.
 */
export async function startEtcd(options: StartEtcdOptions = {}): Promise<RunningEtcd> {
  const found = await findEtcd(options);
  if (found.kind === 'endpoints') return runningEtcd(found.endpoints, async () => {});
  if (found.kind === 'binary') return startFound(found, { progress: true, ...options });
  const containers = await startContainers(found, options.members ?? 1, options.args ?? []);
  const close = async (): Promise<void> => {
    for (const container of containers) await container.stop();
  };
  const endpoints = containers.map(({ endpoint }) => endpoint);
  return runningEtcd(endpoints, close, { version: found.version });
}

/** Returns one line that says which etcd is used and where it comes from. */
export function describeSource(source: EtcdEndpoints | EtcdBinary | EtcdImage): string {
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
  process.once('SIGINT', () => void etcd.close().then(() => process.exit(0)));
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main().catch((error: Error) => {
    process.stderr.write(`${error.message}\n${USAGE}`);
    process.exitCode = 2;
  });
}
