import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { arch, platform, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cacheFolder, moveIntoCache, onPath, run } from '../programs.js';
import { ARCHIVE_SHA256 } from './versions.js';

// Inspects an etcd program on this machine, and gets such a program in one of three ways: from a release archive, by a
// build with Go, or from Debian's packages.

export interface EtcdBinary {
  readonly kind: 'binary';
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
  const beside = join(dirname(etcd), 'etcdctl');
  return { kind: 'binary', etcd, etcdctl: existsSync(beside) ? beside : onPath('etcdctl'), version, from };
}

const RELEASES_URL = 'https://github.com/etcd-io/etcd/releases/download';
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Downloads a release archive of etcd, or takes it from a mirror with the same layout. Verifies the SHA-256 of the
 * archive and unpacks it into the cache.
 */
export async function fetchArchive(
  release: string,
  { mirror = process.env.ETCD_MIRROR || RELEASES_URL, checksums = ARCHIVE_SHA256 } = {},
): Promise<EtcdBinary> {
  const machine = arch() === 'x64' ? 'amd64' : arch();
  const stem = `etcd-v${release}-${platform()}-${machine}`;
  const file = `${stem}.${platform() === 'linux' ? 'tar.gz' : 'zip'}`;
  const expected = checksums[file];
  if (expected === undefined) throw new Error(`the SHA-256 of ${file} is not known`);
  const url = `${mirror}/v${release}/${file}`;
  return intoCache(release, url, async (work) => {
    const bytes = await download(url);
    const actual = createHash('sha256').update(bytes).digest('hex');
    if (actual !== expected) throw new Error(`${url}: SHA-256 is ${actual}, expected ${expected}`);
    writeFileSync(join(work, file), bytes);
    await run('tar', ['-xf', file], work);
    return join(work, stem);
  });
}

async function download(url: string): Promise<Uint8Array> {
  const connecting = new AbortController();
  const timer = setTimeout(
    () => connecting.abort(new Error(`no response within ${CONNECT_TIMEOUT_MS} ms`)),
    CONNECT_TIMEOUT_MS,
  );
  const response = await fetch(url, { signal: connecting.signal }).catch((error: Error) => {
    throw new Error(`${url}: ${error.cause instanceof Error ? error.cause.message : error.message}`);
  });
  clearTimeout(timer);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
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
export async function buildWithGo(release: string): Promise<EtcdBinary> {
  if (onPath('go') === undefined) throw new Error('go is not on the PATH');
  return intoCache(release, 'built from its Go modules', async (work) => {
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
export async function fromDebian(): Promise<EtcdBinary> {
  if (onPath('apt-get') === undefined) throw new Error('apt-get is not on the PATH');
  if (process.getuid?.() !== 0) throw new Error('apt-get update needs root');
  await run('apt-get', ['update', '-qq']);
  const policy = await run('apt-cache', ['policy', 'etcd-server']);
  const version = /Candidate: (?:\d+:)?(\d+\.\d+\.\d+)/.exec(policy)?.[1];
  if (version === undefined) throw new Error('the system has no package etcd-server');
  return intoCache(version, 'the Debian package etcd-server', async (work) => {
    await run('apt-get', ['download', '-qq', 'etcd-server', 'etcd-client'], work);
    for (const file of readdirSync(work)) await run('dpkg-deb', ['-x', file, 'root'], work);
    const programs = join(work, 'root/usr/bin');
    if (!existsSync(join(programs, 'etcd'))) throw new Error('the package etcd-server has no usr/bin/etcd');
    return programs;
  });
}

/**
 * Fills the cache folder of a version and resolves with the program in that folder. `make` creates the programs in the
 * temporary folder `work` and returns the folder that contains them. Two processes may fill the same folder at once.
 * The folder of the process that finishes first is used.
 */
async function intoCache(version: string, from: string, make: (work: string) => Promise<string>): Promise<EtcdBinary> {
  const folder = cacheFolder('etcd', version);
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-etcd-'));
  try {
    const made = await make(work);
    await inspect(join(made, 'etcd'), from);
    await moveIntoCache(made, folder, () => existsSync(join(folder, 'etcd')));
  } finally {
    await run('chmod', ['-R', 'u+w', work]);
    rmSync(work, { recursive: true, force: true });
  }
  return inspect(join(folder, 'etcd'), from);
}
