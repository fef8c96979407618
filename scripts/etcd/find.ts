import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, onPath, withProgress } from '../programs.js';
import { buildWithGo, type EtcdBinary, fetchArchive, fromDebian, inspect } from './binary.js';
import { dockerImage, type EtcdImage } from './docker.js';
import { MINORS, type Minor, releaseFor, suits, type Wanted, wantedVersion } from './versions.js';

/** Servers that are already running. */
interface EtcdEndpoints {
  readonly kind: 'endpoints';
  readonly endpoints: readonly string[];
}

export type EtcdSource = EtcdEndpoints | EtcdBinary | EtcdImage;

export interface FindOptions {
  /**
   * `exact` prefers a version that neither loses nor repeats watch events, even if getting that version takes minutes.
   * `quick` chooses the version that is available soonest.
   */
  readonly prefer: 'exact' | 'quick';
  /** The minor version to find. Default: the version in ETCD_VERSION. Running servers may have any version. */
  readonly version?: Minor | undefined;
}

interface Place {
  readonly name: string;
  /**
   * Looks for etcd in this place. Resolves with undefined if the place contains no etcd. Rejects with the reason if the
   * place cannot provide an etcd.
   */
  readonly look: (wanted: Wanted) => Promise<EtcdBinary | EtcdImage | undefined>;
}

const ENVIRONMENT: Place = { name: 'ETCD_BIN or etcd on the PATH', look: fromEnvironment };
const CACHE: Place = { name: 'the cache', look: fromCache };
const DOCKER: Place = { name: 'Docker', look: async (wanted) => dockerImage(required(wanted)) };
const ARCHIVE: Place = { name: 'the release archive', look: async (wanted) => fetchArchive(required(wanted)) };
const GO: Place = { name: 'a build with Go', look: async (wanted) => buildWithGo(required(wanted)) };
const DEBIAN: Place = { name: 'the Debian packages', look: () => fromDebian() };

/**
 * The places in the order in which to look. `quick` tries a Debian package before a build, because a build takes
 * minutes and a package takes seconds.
 */
const PLACES = {
  exact: [ENVIRONMENT, CACHE, DOCKER, ARCHIVE, GO, DEBIAN],
  quick: [ENVIRONMENT, CACHE, DOCKER, ARCHIVE, DEBIAN, GO],
} as const;

/**
 * Finds an etcd: the servers in ETCD_ENDPOINTS, a program on this machine, or a program that it downloads or builds. If
 * ETCD_VERSION names a minor version, only that version is used.
 *
 * @throws Error that lists the places that were tried and the programs to install.
 */
export async function findEtcd({ prefer, version }: FindOptions): Promise<EtcdSource> {
  const endpoints = process.env.ETCD_ENDPOINTS;
  if (endpoints) return { kind: 'endpoints', endpoints: endpoints.split(',') };
  const wanted = wantedVersion(prefer === 'exact', version);
  const tried: string[] = [];
  let secondBest: EtcdBinary | EtcdImage | undefined;
  for (const { name, look } of PLACES[prefer]) {
    try {
      const found = await withProgress(`etcd: getting a server from ${name}`, look(wanted));
      if (found === undefined) tried.push(`${name}: none`);
      else if (suits(found.version, wanted)) return found;
      else {
        tried.push(`${name}: ${found.version}, which is not the wanted version`);
        if (wanted.minor === undefined) secondBest ??= found;
      }
    } catch (error) {
      tried.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (secondBest !== undefined) {
    process.stderr.write(
      `etcd: only ${secondBest.version} is available, which may itself lose or repeat watch events\n`,
    );
    return secondBest;
  }
  throw new Error(
    `found no etcd${wanted.minor === undefined ? '' : ` ${wanted.minor}`}. Tried:\n${tried.map((line) => `  - ${line}`).join('\n')}\n` +
      'Install etcd, Docker, or Go 1.25 or newer. Or set ETCD_BIN to an etcd program, or ETCD_ENDPOINTS to running servers.',
  );
}

/**
 * Resolves with the minor versions that are available without a download or a build, oldest first. If ETCD_VERSION is
 * set, looks only for that version.
 */
export async function localVersions(): Promise<Minor[]> {
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
  if (release === undefined) throw new Error(`no release of ${wanted.minor} is known`);
  return release;
}

async function fromEnvironment(): Promise<EtcdBinary | undefined> {
  const configured = process.env.ETCD_BIN;
  if (configured) return inspect(configured, 'ETCD_BIN');
  const found = onPath('etcd');
  return found === undefined ? undefined : inspect(found, 'the PATH');
}

/** Resolves with the preferred release from the cache, or else with the newest release there that `wanted` allows. */
async function fromCache(wanted: Wanted): Promise<EtcdBinary | undefined> {
  const folder = cacheFolder('etcd');
  if (!existsSync(folder)) return undefined;
  const versions = readdirSync(folder).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
  const preferred = releaseFor(wanted);
  const candidates = versions
    .filter((version) => suits(version, wanted))
    .sort((a, b) => (a === preferred ? -1 : b === preferred ? 1 : a < b ? 1 : -1));
  const [best] = candidates;
  return best === undefined ? undefined : inspect(join(folder, best, 'etcd'), 'the cache');
}
