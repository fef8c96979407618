import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { type EtcdBinary, intoCache } from './binary.js';
import { run } from './run.js';
import { ARCHIVE_SHA256 } from './versions.js';

const RELEASES_URL = 'https://github.com/etcd-io/etcd/releases/download';
const CONNECT_TIMEOUT_MS = 10_000;

/** `release` fetched from the project's releases, or from a mirror of the same layout, and checked before unpacking. */
export async function fetchArchive(
  release: string,
  { mirror = process.env.ETCD_MIRROR || RELEASES_URL, checksums = ARCHIVE_SHA256 } = {},
): Promise<EtcdBinary> {
  const machine = arch() === 'x64' ? 'amd64' : arch();
  const stem = `etcd-v${release}-${platform()}-${machine}`;
  const file = `${stem}.${platform() === 'linux' ? 'tar.gz' : 'zip'}`;
  const expected = checksums[file];
  if (expected === undefined) throw new Error(`no SHA-256 on record for ${file}`);
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
    () => connecting.abort(new Error(`no answer within ${CONNECT_TIMEOUT_MS} ms`)),
    CONNECT_TIMEOUT_MS,
  );
  const response = await fetch(url, { signal: connecting.signal }).catch((error: Error) => {
    throw new Error(`${url}: ${error.cause instanceof Error ? error.cause.message : error.message}`);
  });
  clearTimeout(timer);
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}
