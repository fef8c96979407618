import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildWithGo, type EtcdBinary, etcdIn, fetchArchive, fromDebian, inspect } from './binary.js';
import { cacheFolder } from './cache.js';
import { EtcdNotFoundError } from './not-found.js';
import { onPath, withProgress } from './programs.js';
import { archivedRelease, type EtcdMinor, MINORS, releaseFor, suits, type Wanted, wantedVersion } from './versions.js';

/** Options that say which etcd to find, and where. */
export interface FindEtcdOptions {
  /** The minor version. Default: the version in ETCD_VERSION, or else any. */
  readonly version?: EtcdMinor | undefined;
  /**
   * Which version to choose if any version is allowed. `quick`, the default, accepts the first version that it finds.
   * `exact` looks for a version that neither loses nor repeats watch events, even if it takes minutes to get one, and
   * accepts another version if it finds none. A release of 3.4 before 3.4.42, of 3.5 before 3.5.28 or of 3.6 before
   * 3.6.9 may lose or repeat events.
   */
  readonly prefer?: 'quick' | 'exact' | undefined;
  /** Whether to get an etcd from the network if this machine has no suitable etcd. Default true. */
  readonly download?: boolean | undefined;
  /**
   * The folder that keeps the downloaded and built programs. Default: the folder `etcdwire` in the folder that
   * XDG_CACHE_HOME names, or else in `~/.cache`.
   */
  readonly cacheFolder?: string | undefined;
  /** Whether to report on stderr each step that takes longer than 2 s. Default: whether stderr is a terminal. */
  readonly progress?: boolean | undefined;
}

/** A place where an etcd may be. */
export interface Place<Found> {
  /** The name of the place, for messages. */
  readonly name: string;
  /**
   * Looks for etcd in this place. Resolves with undefined if the place contains no etcd. Rejects with the reason if the
   * place cannot provide an etcd.
   */
  readonly look: (wanted: Wanted, cache: string) => Promise<Found | undefined>;
}

const PATH: Place<EtcdBinary> = { name: 'the PATH', look: fromPath };
const CACHE: Place<EtcdBinary> = { name: 'the cache', look: fromCache };
const ARCHIVE: Place<EtcdBinary> = {
  name: 'the release archive',
  look: async (wanted, cache) => fetchArchive(required(archivedRelease(wanted), wanted), cache),
};
const GO: Place<EtcdBinary> = {
  name: 'a build with Go',
  look: async (wanted, cache) => buildWithGo(required(releaseFor(wanted), wanted), cache),
};
const DEBIAN: Place<EtcdBinary> = { name: 'the Debian packages', look: (_wanted, cache) => fromDebian(cache) };

/**
 * The places on the network, in the order in which to look. `quick` tries a Debian package before a build, because a
 * build takes minutes and a package takes seconds.
 */
const NETWORK = { exact: [ARCHIVE, GO, DEBIAN], quick: [ARCHIVE, DEBIAN, GO] } as const;

/**
 * Finds an etcd: a program on this machine, or a program that `findEtcd` downloads or builds. If the option `version`
 * or ETCD_VERSION names a minor version, uses only that version.
 *
 * @param more Further places. `findEtcd` looks there after it has looked on this machine, unless the option `download`
 * is false.
 * @throws EtcdNotFoundError if no place has a suitable etcd; Error if ETCD_BIN does not name an etcd program, or if
 *   ETCD_VERSION is not a supported version.
 */
export async function findEtcd<Found extends { readonly version: string } = never>(
  options: FindEtcdOptions = {},
  more: readonly Place<Found>[] = [],
): Promise<EtcdBinary | Found> {
  const { prefer = 'quick', version, download = true, progress = process.stderr.isTTY } = options;
  const cache = join(options.cacheFolder ?? cacheFolder(), 'etcd');
  const wanted = wantedVersion(prefer === 'exact', version);
  const tried: string[] = [];
  let secondBest: EtcdBinary | Found | undefined;
  const accepts = (found: EtcdBinary | Found, name: string): boolean => {
    if (suits(found.version, wanted)) return true;
    tried.push(`${name}: ${found.version}, which is not the wanted version`);
    if (wanted.minor === undefined) secondBest ??= found;
    return false;
  };

  const configured = await configuredBinary();
  if (configured === undefined) tried.push('ETCD_BIN: not set');
  else if (accepts(configured, 'ETCD_BIN')) return configured;

  const places: readonly Place<EtcdBinary | Found>[] = [
    PATH,
    CACHE,
    ...(download ? [...more, ...NETWORK[prefer]] : []),
  ];
  for (const { name, look } of places) {
    try {
      const found = await withProgress(`etcd: getting a server from ${name}`, look(wanted, cache), progress);
      if (found === undefined) tried.push(`${name}: none`);
      else if (accepts(found, name)) return found;
    } catch (error) {
      tried.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  if (!download) tried.push('the network: not tried, because of the option `download`');
  if (secondBest === undefined) throw new EtcdNotFoundError(wanted.minor, tried);
  if (progress)
    process.stderr.write(
      `etcd: only ${secondBest.version} is available, which may itself lose or repeat watch events\n`,
    );
  return secondBest;
}

/**
 * Resolves with the minor versions that are available without a download or a build, oldest first. If ETCD_VERSION is
 * set, looks only for that version.
 */
export async function localVersions(): Promise<EtcdMinor[]> {
  const { minor: asked } = wantedVersion(false);
  const candidates = asked === undefined ? MINORS : [asked];
  const own = await Promise.all([configuredBinary(), fromPath()].map((look) => look.catch(() => undefined)));
  const found = await Promise.all(
    candidates.map(async (minor) => {
      const wanted = { minor, exact: false };
      if (own.some((binary) => binary !== undefined && suits(binary.version, wanted))) return true;
      return (await fromCache(wanted, cacheFolder('etcd')).catch(() => undefined)) !== undefined;
    }),
  );
  return candidates.filter((_, index) => found[index]);
}

function required(release: string | undefined, { minor }: Wanted): string {
  if (release === undefined) throw new Error(`no release of ${minor} is known`);
  return release;
}

/**
 * Resolves with the program that ETCD_BIN names. Rejects if this program is not an etcd, because the user has chosen
 * it.
 */
async function configuredBinary(): Promise<EtcdBinary | undefined> {
  const configured = process.env.ETCD_BIN;
  if (!configured) return undefined;
  return inspect(configured, 'ETCD_BIN').catch(({ message }: Error) => {
    throw new Error(`ETCD_BIN: ${message}; set ETCD_BIN to the path of an etcd program, or unset it`);
  });
}

async function fromPath(): Promise<EtcdBinary | undefined> {
  const found = onPath('etcd');
  return found === undefined ? undefined : inspect(found, 'the PATH');
}

/** Resolves with the preferred release from the cache, or else with the newest release there that `wanted` allows. */
async function fromCache(wanted: Wanted, cache: string): Promise<EtcdBinary | undefined> {
  if (!existsSync(cache)) return undefined;
  const versions = readdirSync(cache).filter((name) => /^\d+\.\d+\.\d+$/.test(name));
  const preferred = releaseFor(wanted);
  const candidates = versions
    .filter((version) => suits(version, wanted))
    .sort((a, b) => (a === preferred ? -1 : b === preferred ? 1 : b.localeCompare(a, 'en', { numeric: true })));
  const [best] = candidates;
  return best === undefined ? undefined : inspect(etcdIn(join(cache, best)), 'the cache');
}
