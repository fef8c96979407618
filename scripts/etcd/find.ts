import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from '../cache-folder.js';
import { fetchArchive } from './archive.js';
import { type EtcdBinary, inspect, onPath } from './binary.js';
import { fromDebian } from './debian.js';
import { dockerImage, type EtcdImage } from './docker.js';
import { buildWithGo } from './go-build.js';
import { withProgress } from './progress.js';
import { MINORS, type Minor, releaseFor, suits, type Wanted, wantedVersion } from './versions.js';

/** Servers that run already. */
interface EtcdEndpoints {
  readonly kind: 'endpoints';
  readonly endpoints: readonly string[];
}

export type EtcdSource = EtcdEndpoints | EtcdBinary | EtcdImage;

export interface FindOptions {
  /** `exact`: new enough to judge exactness by, even if that takes minutes. `quick`: whatever is there soonest. */
  readonly prefer: 'exact' | 'quick';
  /** The minor version to find. Default: that of ETCD_VERSION. Running servers are taken as they are. */
  readonly version?: Minor | undefined;
}

interface Place {
  readonly name: string;
  /** The server, undefined where there is none; an error says why it cannot be had. */
  readonly look: (wanted: Wanted) => Promise<EtcdBinary | EtcdImage | undefined>;
}

const ENVIRONMENT: Place = { name: 'ETCD_BIN or etcd on the PATH', look: fromEnvironment };
const CACHE: Place = { name: 'the cache', look: fromCache };
const DOCKER: Place = { name: 'Docker', look: async (wanted) => dockerImage(required(wanted)) };
const ARCHIVE: Place = { name: 'the release archive', look: async (wanted) => fetchArchive(required(wanted)) };
const GO: Place = { name: 'a build with Go', look: async (wanted) => buildWithGo(required(wanted)) };
const DEBIAN: Place = { name: "Debian's packages", look: () => fromDebian() };

/** A build takes minutes, a package seconds. */
const PLACES = {
  exact: [ENVIRONMENT, CACHE, DOCKER, ARCHIVE, GO, DEBIAN],
  quick: [ENVIRONMENT, CACHE, DOCKER, ARCHIVE, DEBIAN, GO],
} as const;

/**
 * An etcd to use: the one ETCD_ENDPOINTS names, one on this machine, or one fetched or built. ETCD_VERSION asks for a
 * minor version; unset, any will do that suits `prefer`.
 *
 * @throws Error that lists what was tried and what to install.
 */
export async function findEtcd({ prefer, version }: FindOptions): Promise<EtcdSource> {
  const endpoints = process.env.ETCD_ENDPOINTS;
  if (endpoints) return { kind: 'endpoints', endpoints: endpoints.split(',') };
  const wanted = wantedVersion(prefer === 'exact', version);
  const tried: string[] = [];
  let secondBest: EtcdBinary | EtcdImage | undefined;
  for (const { name, look } of PLACES[prefer]) {
    try {
      const found = await withProgress(`getting a server from ${name}`, look(wanted));
      if (found === undefined) tried.push(`${name}: none`);
      else if (suits(found.version, wanted)) return found;
      else {
        tried.push(`${name}: ${found.version}, which does not suit`);
        if (wanted.minor === undefined) secondBest ??= found;
      }
    } catch (error) {
      tried.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (secondBest !== undefined) {
    process.stderr.write(
      `etcd: only ${secondBest.version} is to be had, which may itself lose or repeat watch events\n`,
    );
    return secondBest;
  }
  throw new Error(
    `no etcd ${wanted.minor ?? ''} is to be had. Tried:\n${tried.map((line) => `  - ${line}`).join('\n')}\n` +
      'Install etcd, Go 1.25 or newer, or Docker; or set ETCD_BIN to an etcd, or ETCD_ENDPOINTS to running servers.',
  );
}

/** The minor versions that take neither a download nor a build, oldest first; of ETCD_VERSION only that one. */
export async function versionsAtHand(): Promise<Minor[]> {
  const { minor: asked } = wantedVersion(false);
  const candidates = asked === undefined ? MINORS : [asked];
  const own = await fromEnvironment().catch(() => undefined);
  const found = await Promise.all(
    candidates.map(async (minor) => {
      const wanted = { minor, exact: false };
      if (own !== undefined && suits(own.version, wanted)) return true;
      return (await fromCache(wanted).catch(() => undefined)) !== undefined;
    }),
  );
  return candidates.filter((_, index) => found[index]);
}

function required(wanted: Wanted): string {
  const release = releaseFor(wanted);
  if (release === undefined) throw new Error(`no release of ${wanted.minor} on record`);
  return release;
}

async function fromEnvironment(): Promise<EtcdBinary | undefined> {
  const named = process.env.ETCD_BIN;
  if (named) return inspect(named, 'ETCD_BIN');
  const found = onPath('etcd');
  return found === undefined ? undefined : inspect(found, 'the PATH');
}

/** The newest in the cache that suits. */
async function fromCache(wanted: Wanted): Promise<EtcdBinary | undefined> {
  const folder = cacheFolder('etcd');
  if (!existsSync(folder)) return undefined;
  const versions = readdirSync(folder).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
  const preferred = releaseFor(wanted);
  const suiting = versions
    .filter((version) => suits(version, wanted))
    .sort((a, b) => (a === preferred ? -1 : b === preferred ? 1 : a < b ? 1 : -1));
  const [best] = suiting;
  return best === undefined ? undefined : inspect(join(folder, best, 'etcd'), 'the cache');
}
