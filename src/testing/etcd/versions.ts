import { invalidInput, show } from '../../base/index.js';

/**
 * For each minor version, the release that this project downloads or builds. A `MemoryEtcd` of that minor version
 * behaves like this release. Version 3.4 is missing, because it comes from Debian only.
 */
export const RELEASES = { '3.5': '3.5.33', '3.6': '3.6.14', '3.7': '3.7.1' } as const;

/** The minor version that is downloaded or built by default. */
const DEFAULT_MINOR = '3.6';

/**
 * For each minor version, the first patch release that neither loses nor repeats watch events. All releases of newer
 * minor versions than these neither lose nor repeat events. Tests that compare every event need a server that neither
 * loses nor repeats events.
 */
const EXACT_SINCE: Readonly<Record<string, number>> = { '3.4': 42, '3.5': 28, '3.6': 9, '3.7': 0 };

/**
 * SHA-256 of the release archives. An archive that is missing here is never downloaded, because nothing could verify
 * it. The values of 3.6.14 come from the file SHA256SUMS of the release. The values of 3.5.33 and 3.7.1 come from
 * projects that pin the same archives, such as winget for Windows; at least two projects name each value. The table in
 * docs/testing.md lists what this table contains.
 */
export const ARCHIVE_SHA256: Readonly<Record<string, string>> = {
  'etcd-v3.5.33-linux-amd64.tar.gz': '5025b5b24d81a9616b6e284ccd439b9a3df055ef8fdcdc142af3ec8f6a3b3c95',
  'etcd-v3.6.14-linux-amd64.tar.gz': 'ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5',
  'etcd-v3.6.14-linux-arm64.tar.gz': 'fa1b80565ee6fc2df1ae6f57a508b221f3ecc7d591c317c581cd8281b0842b3e',
  'etcd-v3.6.14-darwin-amd64.zip': '17b8639cf303fee6c35958278d557263215a9a8f8c15fd89022b5aa67091b228',
  'etcd-v3.6.14-darwin-arm64.zip': 'fd154573a1f4c098c214d8233507d2766c43a164f7e339c0385aae71d9a1afaf',
  'etcd-v3.7.1-linux-amd64.tar.gz': 'e8cd3fa8064c98137c5dbd78b76f969417ace84efb83c481041d7a52ffdd8fb9',
  'etcd-v3.7.1-linux-arm64.tar.gz': 'd7e25e08f694b6ed7792fc7b7a891fe2c3f3d3dccfe2f3bfdb1547b0eb75b6da',
  'etcd-v3.7.1-darwin-arm64.zip': 'a3e839d9128e170c299b1592bed92d8327f258eb94923aea24a0ccf923cf27e9',
  'etcd-v3.7.1-windows-amd64.zip': '228d600d103e0f48715687c768de8dcaeacb19eef2006261160a9a677e36cc59',
};

/** A minor version of etcd that this package supports. */
export type EtcdMinor = '3.4' | '3.5' | '3.6' | '3.7';

/** The supported minor versions, oldest first. */
export const MINORS: readonly EtcdMinor[] = ['3.4', '3.5', '3.6', '3.7'];

/** Returns a check that an option is one of the versions. */
export function versionIn<T extends string>(versions: readonly T[]): (version: T, argument: string) => void {
  return (version, argument) => {
    if (versions.includes(version)) return;
    throw invalidInput(argument, typeof version === 'string' ? `"${version}"` : show(version), versions.join(', '));
  };
}

/** The versions that a caller of `findEtcd` accepts. */
export interface Wanted {
  /** The minor version that the caller names, or else the version in ETCD_VERSION. Undefined allows any version. */
  readonly minor: EtcdMinor | undefined;
  /** Whether to prefer a server that neither loses nor repeats watch events. */
  readonly exact: boolean;
}

/** Returns which version to find. @throws Error if ETCD_VERSION is not a supported minor version. */
export function wantedVersion(exact: boolean, minor?: EtcdMinor): Wanted {
  const asked = minor ?? process.env.ETCD_VERSION;
  if (asked === undefined || asked === '') return { minor: undefined, exact };
  const known: readonly string[] = MINORS;
  if (!known.includes(asked))
    throw new Error(
      `${minor === undefined ? 'ETCD_VERSION' : 'version'}: got "${asked}"; allowed: ${known.join(', ')}`,
    );
  return { minor: asked as EtcdMinor, exact };
}

/** Returns the release to run or build, or undefined for 3.4, for which no release is known. */
export function releaseFor({ minor }: Wanted): string | undefined {
  return minor === '3.4' ? undefined : RELEASES[minor ?? DEFAULT_MINOR];
}

/**
 * Returns the release whose archive to download. This is the release of `releaseFor`. If any version is allowed, and
 * the table of checksums lacks the archive of that release for this machine, returns the newest release whose archive
 * for this machine is in the table, if there is one.
 */
export function archivedRelease(wanted: Wanted, checksums = ARCHIVE_SHA256): string | undefined {
  const release = releaseFor(wanted);
  if (wanted.minor !== undefined || release === undefined) return release;
  const newestFirst = Object.values(RELEASES).toReversed();
  return [release, ...newestFirst].find((each) => archiveOf(each).file in checksums) ?? release;
}

/** Returns the name of the release archive for this machine, and the name of the folder in the archive. */
export function archiveOf(release: string): { readonly file: string; readonly folder: string } {
  const { platform } = process;
  const system = platform === 'win32' ? 'windows' : platform;
  const folder = `etcd-v${release}-${system}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  return { folder, file: `${folder}.${platform === 'linux' ? 'tar.gz' : 'zip'}` };
}

/** Whether the version of a program is one of the wanted versions. */
export function suits(version: string, { minor, exact }: Wanted): boolean {
  if (minor !== undefined) return version.startsWith(`${minor}.`);
  return !exact || isExact(version);
}

/** Whether this version of etcd neither loses nor repeats watch events. */
export function isExact(version: string): boolean {
  const [major = '', minor = '', patch = ''] = version.split('.');
  const since = EXACT_SINCE[`${major}.${minor}`] ?? (Number(minor) > 7 ? 0 : undefined);
  return since !== undefined && Number.parseInt(patch, 10) >= since;
}
