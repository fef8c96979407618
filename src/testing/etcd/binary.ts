import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after } from '../../base/index.js';
import { fillFolder } from './cache.js';
import { fileNameOf, onPath, run } from './programs.js';
import { ARCHIVE_SHA256, archiveOf } from './versions.js';

// This file inspects an etcd program on this machine, and gets etcd in one of three ways: from a release archive, by a
// build with Go, or from Debian's packages. Each of these ways puts the programs into a folder of the cache. The name
// of the folder is the version.

/** An etcd program on this machine. */
export interface EtcdBinary {
  readonly kind: 'binary';
  /** The path of etcd. */
  readonly etcd: string;
  /** The path of etcdctl, which is next to etcd or on the PATH. */
  readonly etcdctl: string | undefined;
  /** The version as "major.minor.patch". */
  readonly version: string;
  /** Where the program comes from, for messages. */
  readonly from: string;
}

/**
 * Runs the program to learn its version, and looks for etcdctl. @throws Error if the file is not an etcd that runs on
 * this machine.
 */
export async function inspect(etcd: string, from: string): Promise<EtcdBinary> {
  const version = /etcd Version: (\d+\.\d+\.\d+)/.exec(await run(etcd, ['--version']))?.[1];
  if (version === undefined) throw new Error(`${etcd} --version does not print a version of etcd`);
  const beside = join(dirname(etcd), fileNameOf('etcdctl'));
  return { kind: 'binary', etcd, etcdctl: existsSync(beside) ? beside : onPath('etcdctl'), version, from };
}

/** Returns the path of etcd in a folder that contains the programs of a release. */
export function etcdIn(folder: string): string {
  return join(folder, fileNameOf('etcd'));
}

const RELEASES_URL = 'https://github.com/etcd-io/etcd/releases/download';

/** Maximum wait in milliseconds for the first bytes of a download, and then for each further piece. */
const STALL_TIMEOUT_MS = 10_000;

interface ArchiveOptions {
  /** URL of a mirror with the layout of etcd's releases. Default: ETCD_MIRROR, or else the releases on GitHub. */
  readonly mirror?: string;
  /** SHA-256 of each archive by its file name. Default: the table of this package. */
  readonly checksums?: Readonly<Record<string, string>>;
}

/**
 * Downloads the archive of a release for this machine, verifies its SHA-256, and unpacks it into `cache`.
 *
 * @throws Error if `checksums` does not contain the archive, if the download fails, if the archive does not have the
 * expected SHA-256, or if the archive does not contain an etcd that runs on this machine.
 */
export async function fetchArchive(
  release: string,
  cache: string,
  { mirror = process.env.ETCD_MIRROR || RELEASES_URL, checksums = ARCHIVE_SHA256 }: ArchiveOptions = {},
): Promise<EtcdBinary> {
  const { file, folder } = archiveOf(release);
  const expected = checksums[file];
  if (expected === undefined) throw new Error(`this package does not know the SHA-256 of ${file}`);
  const url = `${mirror.replace(/(?<!\/)\/+$/, '')}/v${release}/${file}`;
  return intoCache(cache, release, url, async (work) => {
    const bytes = await download(url);
    const actual = createHash('sha256').update(bytes).digest('hex');
    if (actual !== expected) throw new Error(`${url}: SHA-256 is ${actual}, expected ${expected}`);
    writeFileSync(join(work, file), bytes);
    await run(tar(), ['-xf', file], work);
    return join(work, folder);
  });
}

/**
 * Returns the `tar` to run. The `tar` of Windows unpacks zip files, but a `tar` that comes with Git or Cygwin does not,
 * and may be the first on the PATH.
 */
function tar(): string {
  const { SystemRoot } = process.env;
  return process.platform === 'win32' && SystemRoot ? join(SystemRoot, 'System32', 'tar.exe') : 'tar';
}

async function download(url: string): Promise<Uint8Array> {
  const stalled = new AbortController();
  const stop = (): void => stalled.abort(new Error(`no data for ${STALL_TIMEOUT_MS} ms`));
  let stopTimer = after(STALL_TIMEOUT_MS, stop);
  try {
    const response = await fetch(url, { signal: stalled.signal });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const chunks: Uint8Array[] = [];
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      stopTimer();
      stopTimer = after(STALL_TIMEOUT_MS, stop);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    const { message, cause } = error as Error;
    throw new Error(`${url}: ${cause instanceof Error ? cause.message : message}`);
  } finally {
    stopTimer();
  }
}

const GO_MODULE = 'module etcd\n\ngo 1.24\n';
const ETCD_MAIN = `package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
`;
const ETCDCTL_MAIN = `package main

import "go.etcd.io/etcd/etcdctl/v3/ctlv3"

func main() { ctlv3.MustStart() }
`;

/**
 * Builds a release from etcd's Go modules. This function writes the main packages itself, because `go install` refuses
 * modules whose go.mod contains `replace` directives, as all of etcd's modules with a main package do.
 */
export async function buildWithGo(release: string, cache: string): Promise<EtcdBinary> {
  if (onPath('go') === undefined) throw new Error('go is not on the PATH');
  return intoCache(cache, release, 'built from its Go modules', async (work) => {
    for (const [folder, text] of [
      ['etcd', ETCD_MAIN],
      ['etcdctl', ETCDCTL_MAIN],
    ] as const) {
      mkdirSync(join(work, folder));
      writeFileSync(join(work, folder, 'main.go'), text);
    }
    writeFileSync(join(work, 'go.mod'), GO_MODULE);
    await run('go', ['get', `go.etcd.io/etcd/server/v3@v${release}`, `go.etcd.io/etcd/etcdctl/v3@v${release}`], work);
    await run('go', ['mod', 'tidy'], work);
    await run('go', ['build', '-trimpath', '-o', 'bin/', './etcd', './etcdctl'], work);
    return join(work, 'bin');
  });
}

/**
 * Unpacks etcd from the Debian or Ubuntu packages into the cache. The packages are not installed, because an
 * installation would start a service on port 2379.
 */
export async function fromDebian(cache: string): Promise<EtcdBinary> {
  if (onPath('apt-get') === undefined) throw new Error('apt-get is not on the PATH');
  if (process.getuid?.() !== 0) throw new Error('apt-get update needs root');
  await run('apt-get', ['update', '-qq']);
  const policy = await run('apt-cache', ['policy', 'etcd-server']);
  const version = /Candidate: (?:\d+:)?(\d+\.\d+\.\d+)/.exec(policy)?.[1];
  if (version === undefined) throw new Error('the system has no package etcd-server');
  return intoCache(cache, version, 'the Debian package etcd-server', async (work) => {
    await run('apt-get', ['download', '-qq', 'etcd-server', 'etcd-client'], work);
    for (const file of readdirSync(work)) await run('dpkg-deb', ['-x', file, 'root'], work);
    const programs = join(work, 'root/usr/bin');
    if (!existsSync(join(programs, 'etcd'))) throw new Error('the package etcd-server has no usr/bin/etcd');
    return programs;
  });
}

/** Fills the folder of a version in `cache` (see `fillFolder`), and resolves with the program in that folder. */
async function intoCache(
  cache: string,
  version: string,
  from: string,
  make: (work: string) => Promise<string>,
): Promise<EtcdBinary> {
  const folder = join(cache, version);
  await fillFolder(
    folder,
    () => existsSync(etcdIn(folder)),
    async (work) => {
      const made = await make(work);
      await inspect(etcdIn(made), from);
      return made;
    },
  );
  return inspect(etcdIn(folder), from);
}
