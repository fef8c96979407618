import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { findEtcd as findEtcdOrDocker, startEtcd as startForScripts } from '../../scripts/etcd.js';
import { type EtcdBinary, fetchArchive } from '../../src/testing/etcd/binary.js';
import { findEtcd } from '../../src/testing/etcd/find.js';
import {
  ARCHIVE_SHA256,
  archivedRelease,
  archiveOf,
  type EtcdMinor,
  MINORS,
  suits,
} from '../../src/testing/etcd/versions.js';
import { EtcdNotFoundError, startEtcd } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';

const RELEASE = '9.9.9';
const { file: FILE, folder: STEM } = archiveOf(RELEASE);

let cache: string;

beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'etcdwire-test-'));
  vi.stubEnv('XDG_CACHE_HOME', cache);
  for (const name of ['ETCD_ENDPOINTS', 'ETCD_BIN', 'ETCD_VERSION', 'ETCD_MIRROR']) vi.stubEnv(name, '');
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(cache, { recursive: true, force: true });
});

describe('`fetchArchive`', () => {
  test('downloads, verifies and unpacks the archive of a release into the cache', async () => {
    const { mirror, sha256 } = await releaseServer();
    const found = await fetchArchive(RELEASE, cache, { mirror: `${mirror}/`, checksums: { [FILE]: sha256 } });
    expect(found).toMatchObject({ kind: 'binary', version: RELEASE, etcd: join(cache, RELEASE, 'etcd') });
    expect(existsSync(found.etcd)).toBe(true);
    expect(readdirSync(cache)).toEqual([RELEASE]);
  });

  test('downloads the archive once for several concurrent callers', async () => {
    const { mirror, sha256, requests } = await releaseServer();
    const fetched = Array.from({ length: 4 }, () =>
      fetchArchive(RELEASE, cache, { mirror, checksums: { [FILE]: sha256 } }),
    );
    expect(new Set((await Promise.all(fetched)).map(({ etcd }) => etcd)).size).toBe(1);
    expect(requests()).toBe(1);
  });

  test('waits for another process that fills the same folder of the cache, and then downloads nothing', async () => {
    const { mirror, sha256, requests } = await releaseServer();
    const other = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] });
    onTestFinished(() => void other.kill());
    const lock = join(cache, `${RELEASE}.lock`);
    writeFileSync(lock, String(other.pid));
    const fetched = fetchArchive(RELEASE, cache, { mirror, checksums: { [FILE]: sha256 } });
    fakeEtcd(join(cache, RELEASE), RELEASE);
    rmSync(lock);
    expect(await fetched).toMatchObject({ version: RELEASE });
    expect(requests()).toBe(0);
  });

  test('ignores the lock of a process that exited before it removed the lock', async () => {
    const { mirror, sha256, requests } = await releaseServer();
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    writeFileSync(join(cache, `${RELEASE}.lock`), String(pid));
    await fetchArchive(RELEASE, cache, { mirror, checksums: { [FILE]: sha256 } });
    expect(requests()).toBe(1);
    expect(readdirSync(cache)).toEqual([RELEASE]);
  });

  test('rejects an archive with an unexpected SHA-256, and leaves nothing in the cache', async () => {
    const { mirror, sha256 } = await releaseServer();
    const wrong = { [FILE]: sha256.replace(/^./, (digit) => (digit === '0' ? '1' : '0')) };
    await expect(fetchArchive(RELEASE, cache, { mirror, checksums: wrong })).rejects.toThrow(
      /SHA-256 is \w+, expected/,
    );
    expect(readdirSync(cache)).toEqual([]);
  });

  test('downloads nothing when the SHA-256 of the archive is not known', async () => {
    const { mirror, requests } = await releaseServer();
    await expect(fetchArchive(RELEASE, cache, { mirror, checksums: {} })).rejects.toThrow(
      `this package does not know the SHA-256 of ${FILE}`,
    );
    expect(requests()).toBe(0);
  });

  test('rejects with the HTTP status when the archive does not exist, and with the address when the server is unreachable', async () => {
    const { mirror } = await releaseServer();
    const checksums = { [FILE.replace(RELEASE, '9.9.8')]: '0' };
    await expect(fetchArchive('9.9.8', cache, { mirror, checksums })).rejects.toThrow(/HTTP 404/);
    await expect(fetchArchive('9.9.8', cache, { mirror: 'http://127.0.0.1:1', checksums })).rejects.toThrow(
      /127\.0\.0\.1:1/,
    );
  });
});

describe('the archive of a release', () => {
  test.each([
    ['linux', 'x64', 'etcd-v3.7.1-linux-amd64.tar.gz'],
    ['linux', 'arm64', 'etcd-v3.7.1-linux-arm64.tar.gz'],
    ['darwin', 'arm64', 'etcd-v3.7.1-darwin-arm64.zip'],
    ['win32', 'x64', 'etcd-v3.7.1-windows-amd64.zip'],
  ])('has the name of etcd’s release page on %s %s', (platform, arch, file) => {
    onMachine(platform, arch);
    expect(archiveOf('3.7.1')).toEqual({ file, folder: file.replace(/\.(tar\.gz|zip)$/, '') });
    expect(ARCHIVE_SHA256[file]).toMatch(/^[0-9a-f]{64}$/);
  });

  test('is that of the default version, or of the newest version if only that one has a known SHA-256', () => {
    const anyVersion = { minor: undefined, exact: false };
    onMachine('linux', 'x64');
    expect(archivedRelease(anyVersion)).toBe('3.6.14');
    onMachine('win32', 'x64');
    expect(archivedRelease(anyVersion)).toBe('3.7.1');
    expect(archivedRelease({ minor: '3.6', exact: false })).toBe('3.6.14');
    expect(archivedRelease({ minor: '3.4', exact: false })).toBeUndefined();
  });

  test('has the SHA-256 that the table in docs/testing.md lists', () => {
    const page = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8');
    const rows = [...page.matchAll(/^\| (\d+\.\d+\.\d+) \|(.*)\|$/gm)];
    const systems = ['linux-amd64', 'linux-arm64', 'darwin-amd64', 'darwin-arm64', 'windows-amd64'];
    const listed = rows.flatMap(([, release = '', cells = '']) =>
      cells.split('|').flatMap((cell, index) => (cell.trim() === 'yes' ? [`etcd-v${release}-${systems[index]}`] : [])),
    );
    expect(listed.sort()).toEqual(
      Object.keys(ARCHIVE_SHA256)
        .map((file) => file.replace(/\.(tar\.gz|zip)$/, ''))
        .sort(),
    );
  });
});

describe('`findEtcd`', () => {
  test('ignores ETCD_ENDPOINTS, which may name production servers, unless a script of this project calls it', async () => {
    vi.stubEnv('ETCD_ENDPOINTS', 'http://a:1, http://b:2');
    fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    expect(await findEtcd()).toMatchObject({ kind: 'binary' });
    expect(await findEtcdOrDocker()).toEqual({ kind: 'endpoints', endpoints: ['http://a:1', 'http://b:2'] });
  });

  test('uses the program that ETCD_BIN names, or otherwise the cached version that ETCD_VERSION names', async () => {
    const program = fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    fakeEtcd(join(cache, 'etcdwire/etcd/3.5.33'), '3.5.33');
    vi.stubEnv('PATH', '/usr/bin:/bin');
    expect(await findEtcd()).toMatchObject({ version: '3.6.14', from: 'the cache' });
    vi.stubEnv('ETCD_VERSION', '3.5');
    expect(await findEtcd()).toMatchObject({ version: '3.5.33' });
    vi.stubEnv('ETCD_VERSION', '3.6');
    vi.stubEnv('ETCD_BIN', program);
    expect(await findEtcd()).toMatchObject({ version: '3.6.14', from: 'ETCD_BIN' });
  });

  test('takes the newest cached version, by the numbers of the version', async () => {
    for (const version of ['3.5.9', '3.5.28', '3.5.3']) fakeEtcd(join(cache, 'etcdwire/etcd', version), version);
    vi.stubEnv('PATH', '/usr/bin:/bin');
    expect(await findEtcd({ version: '3.5', download: false })).toMatchObject({ version: '3.5.28' });
  });

  test('uses the folder in the option `cacheFolder` instead of the default cache', async () => {
    fakeEtcd(join(cache, 'own/etcd/3.5.33'), '3.5.33');
    vi.stubEnv('PATH', '/usr/bin:/bin');
    const { etcd } = (await findEtcd({ cacheFolder: join(cache, 'own'), download: false })) as EtcdBinary;
    expect(etcd).toBe(join(cache, 'own/etcd/3.5.33/etcd'));
  });

  test('rejects when ETCD_BIN does not name an etcd, even if the cache contains one', async () => {
    fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    vi.stubEnv('ETCD_BIN', process.execPath);
    await expect(findEtcd()).rejects.toThrow(
      /^ETCD_BIN: .* does not print a version of etcd; set ETCD_BIN to the path of an etcd program, or unset it$/,
    );
  });

  test('returns a version that loses watch events by default, but not with `prefer: exact` unless the caller names its minor version', async () => {
    fakeEtcd(join(cache, 'bin'), '3.5.1');
    fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    vi.stubEnv('PATH', `${join(cache, 'bin')}:/usr/bin:/bin`);
    expect(await findEtcd()).toMatchObject({ version: '3.5.1', from: 'the PATH' });
    expect(await findEtcd({ prefer: 'exact' })).toMatchObject({ version: '3.6.14', from: 'the cache' });
    expect(await findEtcd({ version: '3.5', prefer: 'exact' })).toMatchObject({ version: '3.5.1' });
  });

  test('uses the places that the caller passes only when it finds no etcd on this machine', async () => {
    vi.stubEnv('PATH', '/usr/bin:/bin');
    const place = { name: 'my place', look: async () => ({ version: '3.6.14' }) };
    expect(await findEtcd({}, [place])).toEqual({ version: '3.6.14' });
    fakeEtcd(join(cache, 'etcdwire/etcd/3.6.14'), '3.6.14');
    expect(await findEtcd({}, [place])).toMatchObject({ from: 'the cache' });
  });

  test('when it finds no etcd, rejects with an error that lists the places it tried, why each one failed, and which programs to install', async () => {
    vi.stubEnv('PATH', join(cache, 'nothing'));
    vi.stubEnv('ETCD_MIRROR', 'http://127.0.0.1:1');
    vi.stubEnv('DOCKER_HOST', 'tcp://127.0.0.1:1');
    const error: unknown = await findEtcdOrDocker().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(EtcdNotFoundError);
    const { message, tried } = error as EtcdNotFoundError;
    expect(tried).toEqual([
      'ETCD_BIN: not set',
      'the PATH: none',
      'the cache: none',
      expect.stringContaining('Docker: '),
      expect.stringContaining('the release archive: http://127.0.0.1:1/v3.6.14/'),
      'a build with Go: go is not on the PATH',
      'the Debian packages: apt-get is not on the PATH',
    ]);
    for (const line of [...tried, 'Install etcd, or Go 1.25 or newer. Or set ETCD_BIN to an etcd program'])
      expect(message).toContain(line);
  });

  test('looks only on this machine when the option `download` is false', async () => {
    const { mirror, requests } = await releaseServer();
    vi.stubEnv('PATH', join(cache, 'nothing'));
    vi.stubEnv('ETCD_MIRROR', mirror);
    const error: unknown = await findEtcd({ download: false }).catch((reason: unknown) => reason);
    expect((error as EtcdNotFoundError).tried).toEqual([
      'ETCD_BIN: not set',
      'the PATH: none',
      'the cache: none',
      'the network: not tried, because of the option `download`',
    ]);
    expect(requests()).toBe(0);
  });

  test('rejects an unsupported ETCD_VERSION with an error that lists the supported versions', async () => {
    vi.stubEnv('ETCD_VERSION', '2.0');
    await expect(findEtcd()).rejects.toThrow('ETCD_VERSION: got "2.0"; allowed: 3.4, 3.5, 3.6, 3.7');
  });

  test('when the caller wants exact watches, accepts a release that loses watch events only if the caller names its minor version', () => {
    const exact = { minor: undefined, exact: true };
    expect(['3.4.41', '3.5.27', '3.6.8'].some((version) => suits(version, exact))).toBe(false);
    expect(['3.4.42', '3.5.28', '3.6.9', '3.7.0'].every((version) => suits(version, exact))).toBe(true);
    expect(suits('3.4.23', { minor: '3.4', exact: true })).toBe(true);
  });
});

describe('`startEtcd`', () => {
  test('starts three members on different ports, and `close` ends all their processes', async (context) => {
    const source = await shared();
    if (source === undefined) return context.skip('needs an etcd binary');
    const etcd = await startEtcd({ members: 3, version: source.minor, download: false });
    const pids = etcd.members.map(({ pid }) => pid as number);
    expect(etcd.version).toBe(source.version);
    expect(new Set(etcd.endpoints).size).toBe(3);
    await etcd.close();
    expect(pids).toHaveLength(3);
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });

  test('of the scripts returns the servers in ETCD_ENDPOINTS, which `close` leaves running', async () => {
    const endpoints = inject('endpoints');
    vi.stubEnv('ETCD_ENDPOINTS', endpoints.join(','));
    const etcd = await startForScripts({ members: 3 });
    expect(etcd).toMatchObject({ endpoints, version: undefined, cluster: undefined, members: [] });
    await etcd.close();
    expect(await openClient().get('no such key')).toBeUndefined();
  });

  test('rejects an unknown option and an unsupported version', async () => {
    expect(await errorOf(startEtcd({ port: 2379 } as object))).toMatchObject({ reason: 'InvalidInput' });
    const error = await errorOf(startEtcd({ version: '3.6.14' as never }));
    expect(error.message).toContain('version: got "3.6.14"; allowed: 3.4, 3.5, 3.6, 3.7');
  });
});

/**
 * Resolves with the version of an etcd binary on this machine. The environment of this file's tests hides the binary.
 */
async function shared(): Promise<{ readonly minor: EtcdMinor; readonly version: string } | undefined> {
  vi.unstubAllEnvs();
  const source = await findEtcdOrDocker();
  if (source.kind !== 'binary') return undefined;
  const minor = MINORS.find((each) => source.version.startsWith(`${each}.`));
  return minor === undefined ? undefined : { minor, version: source.version };
}

/** Pretends for the current test that the tests run on this system. */
function onMachine(platform: string, arch: string): void {
  for (const [name, value] of Object.entries({ platform, arch })) {
    const original = Object.getOwnPropertyDescriptor(process, name) as PropertyDescriptor;
    Object.defineProperty(process, name, { ...original, value });
    onTestFinished(() => void Object.defineProperty(process, name, original));
  }
}

/** Writes a shell script that prints an etcd version and does nothing else. Returns the path of the script. */
function fakeEtcd(folder: string, version: string): string {
  mkdirSync(folder, { recursive: true });
  const program = join(folder, 'etcd');
  writeFileSync(program, `#!/bin/sh\necho "etcd Version: ${version}"\n`);
  chmodSync(program, 0o755);
  return program;
}

/** Starts an HTTP server that serves an archive with the layout of an etcd release, and counts the requests. */
async function releaseServer(): Promise<{ mirror: string; sha256: string; requests: () => number }> {
  const work = mkdtempSync(join(tmpdir(), 'etcdwire-release-'));
  fakeEtcd(join(work, STEM), RELEASE);
  if (FILE.endsWith('.zip')) execFileSync('zip', ['-qr', FILE, STEM], { cwd: work });
  else execFileSync('tar', ['-czf', FILE, STEM], { cwd: work });
  const bytes = readFileSync(join(work, FILE));
  rmSync(work, { recursive: true });
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    if (request.url === `/v${RELEASE}/${FILE}`) response.end(bytes);
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  return {
    mirror: `http://127.0.0.1:${port}`,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    requests: () => requests,
  };
}
