import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { arch, platform, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { fetchArchive } from '../../scripts/etcd/binary.js';
import { findEtcd } from '../../scripts/etcd/find.js';
import { suits } from '../../scripts/etcd/versions.js';
import { startEtcd } from '../../scripts/etcd.js';

const RELEASE = '9.9.9';
const STEM = `etcd-v${RELEASE}-${platform()}-${arch() === 'x64' ? 'amd64' : arch()}`;
const FILE = `${STEM}.${platform() === 'linux' ? 'tar.gz' : 'zip'}`;

let cache: string;

beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'etcdwire-test-'));
  vi.stubEnv('XDG_CACHE_HOME', cache);
  for (const name of ['ETCD_ENDPOINTS', 'ETCD_BIN', 'ETCD_VERSION']) vi.stubEnv(name, '');
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(cache, { recursive: true, force: true });
});

describe('`fetchArchive`', () => {
  test('downloads, verifies and unpacks the archive of a release into the cache', async () => {
    const { mirror, sha256 } = await releaseServer();
    const found = await fetchArchive(RELEASE, { mirror, checksums: { [FILE]: sha256 } });
    expect(found).toMatchObject({
      kind: 'binary',
      version: RELEASE,
      etcd: join(cache, 'etcdwire/etcd', RELEASE, 'etcd'),
    });
    expect(existsSync(found.etcd)).toBe(true);
  });

  test('rejects an archive with an unexpected SHA-256, and leaves nothing in the cache', async () => {
    const { mirror, sha256 } = await releaseServer();
    const wrong = { [FILE]: sha256.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) };
    await expect(fetchArchive(RELEASE, { mirror, checksums: wrong })).rejects.toThrow(/SHA-256 is \w+, expected/);
    expect(existsSync(join(cache, 'etcdwire/etcd', RELEASE))).toBe(false);
  });

  test('downloads nothing when the SHA-256 of the archive is not known', async () => {
    await expect(fetchArchive(RELEASE, { mirror: 'http://127.0.0.1:1', checksums: {} })).rejects.toThrow(
      /the SHA-256 of .* is not known/,
    );
  });

  test('rejects with the HTTP status when the archive does not exist, and with the address when the server is unreachable', async () => {
    const { mirror } = await releaseServer();
    const checksums = { [FILE.replace(RELEASE, '9.9.8')]: '0' };
    await expect(fetchArchive('9.9.8', { mirror, checksums })).rejects.toThrow(/HTTP 404/);
    await expect(fetchArchive('9.9.8', { mirror: 'http://127.0.0.1:1', checksums })).rejects.toThrow(/127\.0\.0\.1:1/);
  });
});

describe('`findEtcd`', () => {
  test('uses the running servers in ETCD_ENDPOINTS', async () => {
    vi.stubEnv('ETCD_ENDPOINTS', 'http://a:1,http://b:2');
    expect(await findEtcd({ prefer: 'exact' })).toEqual({ kind: 'endpoints', endpoints: ['http://a:1', 'http://b:2'] });
  });

  test('uses the program that ETCD_BIN names, or otherwise the cached version that ETCD_VERSION names', async () => {
    const program = fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    fakeEtcd(join(cache, 'etcdwire/etcd/3.5.33'), '3.5.33');
    vi.stubEnv('PATH', '/usr/bin:/bin');
    expect(await findEtcd({ prefer: 'exact' })).toMatchObject({ version: '3.6.14', from: 'the cache' });
    vi.stubEnv('ETCD_VERSION', '3.5');
    expect(await findEtcd({ prefer: 'exact' })).toMatchObject({ version: '3.5.33' });
    vi.stubEnv('ETCD_VERSION', '3.6');
    vi.stubEnv('ETCD_BIN', program);
    expect(await findEtcd({ prefer: 'exact' })).toMatchObject({ version: '3.6.14', from: 'ETCD_BIN' });
  });

  test('when it finds no etcd, rejects with an error that lists the places it tried, why each one failed, and which programs to install', async () => {
    vi.stubEnv('PATH', join(cache, 'nothing'));
    vi.stubEnv('ETCD_MIRROR', 'http://127.0.0.1:1');
    vi.stubEnv('DOCKER_HOST', 'tcp://127.0.0.1:1');
    const error = await findEtcd({ prefer: 'exact' }).catch((reason: Error) => reason.message);
    for (const line of [
      'ETCD_BIN or etcd on the PATH: none',
      'the cache: none',
      'Docker: ',
      'the release archive: ',
      'a build with Go: go is not on the PATH',
      'the Debian packages: apt-get is not on the PATH',
      'Install etcd, Docker, or Go 1.25 or newer. Or set ETCD_BIN to an etcd program, or ETCD_ENDPOINTS to running servers.',
    ]) {
      expect(error).toContain(line);
    }
  });

  test('rejects an unsupported ETCD_VERSION with an error that lists the supported versions', async () => {
    vi.stubEnv('ETCD_VERSION', '2.0');
    await expect(findEtcd({ prefer: 'exact' })).rejects.toThrow('ETCD_VERSION: got "2.0"; allowed: 3.4, 3.5, 3.6, 3.7');
  });

  test('when the caller wants exact watches, accepts a release that loses watch events only if the caller names its minor version', () => {
    const exact = { minor: undefined, exact: true };
    expect(['3.4.41', '3.5.27', '3.6.8'].some((version) => suits(version, exact))).toBe(false);
    expect(['3.4.42', '3.5.28', '3.6.9', '3.7.0'].every((version) => suits(version, exact))).toBe(true);
    expect(suits('3.4.23', { minor: '3.4', exact: true })).toBe(true);
  });
});

test('`startEtcd` starts three members on different ports, and `stop` ends all their processes', async () => {
  vi.unstubAllEnvs();
  const etcd = await startEtcd({ members: 3 });
  const pids = etcd.processes.map(({ pid }) => pid as number);
  expect(new Set(etcd.endpoints).size).toBe(etcd.endpoints.length);
  await etcd.stop();
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
});

/** Writes a shell script that prints an etcd version and does nothing else. Returns the path of the script. */
function fakeEtcd(folder: string, version: string): string {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, 'etcd');
  writeFileSync(program, `#!/bin/sh\necho "etcd Version: ${version}"\n`);
  chmodSync(program, 0o755);
  return program;
}

/** Starts an HTTP server that serves an archive with the layout of an etcd release. */
async function releaseServer(): Promise<{ mirror: string; sha256: string }> {
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-release-'));
  fakeEtcd(join(work, STEM), RELEASE);
  if (FILE.endsWith('.zip')) execFileSync('zip', ['-qr', FILE, STEM], { cwd: work });
  else execFileSync('tar', ['-czf', FILE, STEM], { cwd: work });
  const bytes = readFileSync(join(work, FILE));
  rmSync(work, { recursive: true });
  const server = createServer((request, response) => {
    if (request.url === `/v${RELEASE}/${FILE}`) response.end(bytes);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  return { mirror: `http://127.0.0.1:${port}`, sha256: createHash('sha256').update(bytes).digest('hex') };
}
