/** The release of each minor version that this project downloads or builds. 3.4 comes from Debian only. */
const RELEASES = { '3.5': '3.5.33', '3.6': '3.6.14', '3.7': '3.7.1' } as const;

/** The minor version that is downloaded or built by default. */
const DEFAULT_MINOR = '3.6';

/**
 * For each minor version, the first patch release that neither loses nor repeats watch events. All releases of newer
 * minor versions than these neither lose nor repeat events. Tests that compare every event need such a server.
 */
const EXACT_SINCE: Readonly<Record<string, number>> = { '3.4': 42, '3.5': 28, '3.6': 9, '3.7': 0 };

/** SHA-256 of the release archives, from the SHA256SUMS of each release. */
export const ARCHIVE_SHA256: Readonly<Record<string, string>> = {
  'etcd-v3.6.14-linux-amd64.tar.gz': 'ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5',
  'etcd-v3.6.14-linux-arm64.tar.gz': 'fa1b80565ee6fc2df1ae6f57a508b221f3ecc7d591c317c581cd8281b0842b3e',
  'etcd-v3.6.14-darwin-amd64.zip': '17b8639cf303fee6c35958278d557263215a9a8f8c15fd89022b5aa67091b228',
  'etcd-v3.6.14-darwin-arm64.zip': 'fd154573a1f4c098c214d8233507d2766c43a164f7e339c0385aae71d9a1afaf',
  'etcd-v3.7.1-linux-amd64.tar.gz': 'e8cd3fa8064c98137c5dbd78b76f969417ace84efb83c481041d7a52ffdd8fb9',
};

export type Minor = '3.4' | keyof typeof RELEASES;

/** The supported minor versions, oldest first. */
export const MINORS: readonly Minor[] = ['3.4', ...(Object.keys(RELEASES) as (keyof typeof RELEASES)[])];

export interface Wanted {
  /** The minor version that the caller names, or else the version in ETCD_VERSION. Undefined allows any version. */
  readonly minor: Minor | undefined;
  /** Whether to prefer a server that neither loses nor repeats watch events. */
  readonly exact: boolean;
}

/** Returns which version to find. @throws Error if ETCD_VERSION is not a supported minor version. */
export function wantedVersion(exact: boolean, minor?: Minor): Wanted {
  const asked = minor ?? process.env.ETCD_VERSION;
  if (asked === undefined || asked === '') return { minor: undefined, exact };
  const known: readonly string[] = MINORS;
  if (!known.includes(asked)) throw new Error(`ETCD_VERSION: got "${asked}"; allowed: ${known.join(', ')}`);
  return { minor: asked as Minor, exact };
}

/** Returns the release to download or build, or undefined for 3.4, for which no archive is known. */
export function releaseFor({ minor }: Wanted): string | undefined {
  return minor === '3.4' ? undefined : RELEASES[minor ?? DEFAULT_MINOR];
}

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
