import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { startEtcd } from '../../../scripts/etcd.js';
import { localVersions } from '../../../src/testing/etcd/find.js';
import { type Listener, listen, MemoryEtcd, type RunningEtcd } from '../../../src/testing/index.js';
import type { MemoryVersion } from '../../../src/testing/memory/settings.js';
import { openClient } from '../../support/client.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { testedVersions } from '../../support/thorough.js';
import { lines, type Site, type Step, startEtcdctl, transcript, withoutIds } from '../../support/transcripts.js';

// Programs that share no code with this project use a `MemoryEtcd` at a port. What etcdctl prints must be what it
// prints with a real etcd of the same version.

const available = process.env.ETCD_ENDPOINTS ? [] : await (inject('thorough') ? localVersions() : testedVersions());
const versions = available.filter((version): version is MemoryVersion => version !== '3.4');

/** The name of the member that `startEtcd` starts. */
const NAME = 'm0';

const READS: readonly Step[] = [
  ['put', 'a/1', 'one'],
  ['put', 'a/3', 'three'],
  ['put', 'a/2', 'two'],
  ['put', 'a/1', 'uno'],
  ['get', 'a/1'],
  ['get', 'missing'],
  ['get', 'a/', '--prefix'],
  ['get', 'a/', '--prefix', '--keys-only'],
  ['get', 'a/', '--prefix', '--count-only', '-w', 'fields'],
  ['get', 'a/', '--prefix', '--print-value-only', '--order=descend', '--sort-by=create'],
  ['get', 'a/', '--prefix', '--order=ascend', '--sort-by=version', '--limit=2'],
  ['get', 'a/1', 'a/3'],
  ['get', 'a/2', '--from-key', '--keys-only'],
  ['get', 'a/1', '--rev=2', '-w', 'json'],
  ['get', 'a/1', '--consistency=s', '-w', 'fields'],
  ['get', 'a/1', '--hex'],
  ['get', 'a/1', '--rev=99'],
  ['get', ''],
];

const WRITES: readonly Step[] = [
  ['put', 'w/1', 'a'],
  ['put', 'w/1', 'b', '--prev-kv'],
  { args: ['put', 'w/2'], input: 'from stdin' },
  ['put', 'w/1', '--ignore-value'],
  ['put', 'w/none', '--ignore-value'],
  ['put', 'w/1', 'c', '--lease=7b'],
  ['put', 'w/1', 'c', '--ignore-lease'],
  ['put', '', 'x'],
  ['get', 'w/', '--prefix', '-w', 'json'],
  ['del', 'w/1', '--prev-kv'],
  ['del', 'w/1'],
  ['put', 'w/3', ''],
  ['del', 'w/', '--prefix', '-w', 'fields'],
  ['put', 'w/4', 'v'],
  ['del', 'w/4', '--from-key', '--prev-kv', '-w', 'json'],
];

const TXNS: readonly Step[] = [
  ['put', 't/1', 'one'],
  {
    args: ['txn'],
    input: 'mod("t/1") > "0"\nvalue("t/1") = "one"\n\nput t/1 two\nget t/1\ndel t/2\n\nput t/1 three\n\n',
  },
  {
    args: ['txn', '--interactive'],
    input:
      'value("t/1") = "one"\nver("t/1") = "2"\ncreate("t/2") = "0"\n\nget t/1\n\nget t/ --prefix\nput t/2 "x y"\n\n',
  },
  { args: ['txn', '-w', 'json'], input: 'c("t/2") != "0"\n\nget t/ t0\ndel t/2 --prev-kv\n\n\n' },
  { args: ['txn'], input: '\nput t/1 a\nput t/1 b\n\n\n' },
  { args: ['txn'], input: 'wrong("t/1") = "0"\n\n\n\n' },
  { args: ['txn'], input: '\nget t/1 --rev=1000\n\n\n' },
  ['get', 't/', '--prefix', '-w', 'json'],
];

const LEASES: readonly Step[] = [
  ['lease', 'grant', '600'],
  ['lease', 'timetolive', '<1>'],
  ['put', 'l/1', 'v', '--lease=<1>'],
  // etcd lists the keys of a lease in no particular order, so the lease has only one key here.
  ['lease', 'timetolive', '<1>', '--keys'],
  ['put', 'l/2', 'v', '--lease=<1>'],
  ['put', 'l/2', '--ignore-lease', 'w'],
  ['lease', 'keep-alive', '--once', '<1>'],
  ['lease', 'list'],
  ['get', 'l/', '--prefix', '-w', 'json'],
  ['lease', 'revoke', '<1>'],
  ['lease', 'revoke', '<1>'],
  ['lease', 'timetolive', '<1>'],
  ['lease', 'keep-alive', '--once', '<1>'],
  ['lease', 'keep-alive', '<1>'],
  ['lease', 'list'],
  ['lease', 'grant', '9000000001'],
  ['get', 'l/', '--prefix'],
];

const MAINTENANCE: readonly Step[] = [
  ['member', 'list'],
  ['member', 'list', '-w', 'fields'],
  ['endpoint', 'health'],
  ['endpoint', 'hashkv'],
  ['put', 'm/1', 'a'],
  ['put', 'm/1', 'b'],
  ['del', 'm/1'],
  ['endpoint', 'hashkv', '--cluster'],
  ['endpoint', 'hashkv', '--rev=2'],
  ['compaction', '3'],
  ['compaction', '3'],
  ['compaction', '1000'],
  ['get', 'm/1', '--rev=2'],
  ['watch', 'm/1', '--rev=2'],
  ['compaction', '4', '--physical'],
  ['defrag'],
  ['alarm', 'list'],
  ['alarm', 'disarm'],
  ['move-leader', '1234567890abcdef'],
  ['member', 'remove', '1234567890abcdef'],
  ['member', 'promote', '1234567890abcdef'],
  ['member', 'update', '1234567890abcdef', '--peer-urls=http://127.0.0.1:1'],
  ['auth', 'status'],
  ['endpoint', 'status', '-w', 'fields'],
  ['snapshot', 'save', 'backup.db'],
];

const SHOW_LOCK = 'echo "$ETCD_LOCK_KEY" at "$ETCD_LOCK_REV"; exit 7';
const LOCKS: readonly Step[] = [
  ['lock', 'lock/1', 'sh', '-c', SHOW_LOCK],
  ['lock', 'lock/1', '--ttl=20', 'sh', '-c', SHOW_LOCK],
  ['lock', 'lock/1', 'no-such-program'],
  ['get', 'lock/', '--prefix'],
  ['lease', 'list'],
];

const ROOT = '--user=root:secret';
const APP = '--user=app:pass';
const USERS: readonly Step[] = [
  ['user', 'add', 'root:secret'],
  ['user', 'add', 'app:wrong'],
  ['user', 'add', 'app:other'],
  { args: ['user', 'passwd', 'app', '--interactive=false'], input: 'pass\n' },
  ['user', 'add', 'guest', '--no-password'],
  ['role', 'add', 'root'],
  ['role', 'add', 'reader'],
  ['role', 'add', 'reader'],
  ['role', 'grant-permission', 'reader', 'read', 'u/', '--prefix'],
  ['role', 'grant-permission', 'reader', 'readwrite', 'v/1', 'v/5'],
  ['role', 'grant-permission', 'reader', 'write', 'w/', '--from-key'],
  ['role', 'get', 'reader'],
  ['role', 'list'],
  ['user', 'grant-role', 'root', 'root'],
  ['user', 'grant-role', 'app', 'reader'],
  ['user', 'grant-role', 'app', 'none'],
  ['user', 'get', 'app'],
  ['user', 'get', 'app', '--detail'],
  ['user', 'get', 'nobody'],
  ['user', 'list'],
  ['auth', 'enable'],
  ['auth', 'status'],
  ['get', 'u/1'],
  ['get', 'u/1', '--user=app:bad'],
  ['get', 'u/1', '--user=nobody:bad'],
  ['get', 'u/1', '--user=guest:'],
  ['put', 'u/1', 'v', ROOT],
  ['get', 'u/1', APP],
  ['put', 'u/1', 'v', APP],
  ['put', 'v/1', 'v', APP, '--prev-kv'],
  ['get', '', '--prefix', APP],
  ['get', 'u/', '--prefix', APP],
  { args: ['txn', APP], input: '\nget u/1\nput v/1 x\n\n\n' },
  { args: ['txn', APP], input: '\nget u/1\nput u/1 x\n\n\n' },
  ['user', 'add', 'more:pass', APP],
  ['member', 'list', APP],
  ['compaction', '2', APP],
  ['lease', 'grant', '60', APP],
  ['auth', 'status', ROOT],
  ['role', 'revoke-permission', 'reader', 'v/1', 'v/5', ROOT],
  ['put', 'v/1', 'v', APP],
  ['user', 'revoke-role', 'app', 'reader', ROOT],
  ['get', 'u/1', APP],
  ['user', 'delete', 'app', ROOT],
  ['get', 'u/1', APP],
  ['role', 'delete', 'reader', ROOT],
  ['role', 'delete', 'reader', ROOT],
  ['auth', 'disable', ROOT],
  ['auth', 'disable'],
  ['user', 'delete', 'root'],
  ['user', 'list'],
];

if (versions.length === 0) {
  test('etcdctl prints the same with a MemoryEtcd as with a real etcd', (context) =>
    context.skip('the tests cannot start servers of their own'));
}

describe.each(versions)('etcdctl %s', (version) => {
  let real: RunningEtcd;
  let listener: Listener;
  let sites: readonly Site[];
  beforeAll(async () => {
    real = await startEtcd({ version, args: ['--bcrypt-cost=4'] });
    listener = await listen(new MemoryEtcd({ version, name: NAME }));
    const { etcdctl = 'etcdctl' } = real;
    sites = [listener.endpoint, ...real.endpoints].map((endpoint) => ({ etcdctl, endpoint }));
  });
  afterAll(async () => {
    await Promise.all([real?.close(), listener?.close()]);
  });

  async function expectEqual(print: (site: Site) => Promise<string[]>): Promise<void> {
    const [actual, expected] = await Promise.all(sites.map(print));
    expect(actual).toEqual(expected);
  }

  test.each([
    ['maintains the member', MAINTENANCE],
    ['reads keys', READS],
    ['writes and deletes keys', WRITES],
    ['runs transactions', TXNS],
    ['manages leases', LEASES],
    ['runs commands under a lock', LOCKS],
    ['manages users and is denied access', USERS],
  ])('%s as with a real etcd', async (_, steps) => {
    // The two servers get folders of their own, because both write the same file names at the same time.
    await expectEqual((site) => transcript({ ...site, folder: temporaryFolder() }, steps));
  });

  test('watches keys as with a real etcd', async () => {
    await expectEqual(async (site) => {
      const etcd = openClient({ endpoints: [site.endpoint] });
      const { revision } = (await etcd.put('x/1', 'a')).header;
      await etcd.put('x/2', 'b');
      await etcd.put('x/1', 'c');
      await etcd.delete('x/2');
      const history = startEtcdctl(site, 'watch', 'x/', '--prefix', `--rev=${revision}`, '--prev-kv');
      const printed = await lines(history, 16);

      const interactive = startEtcdctl(site, 'watch', '--interactive');
      interactive.process.stdin?.write('watch x/ --prefix --prev-kv\nprogress\n');
      printed.push(await interactive.line());
      const command =
        'echo "$ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY $ETCD_WATCH_VALUE $ETCD_WATCH_REVISION"; kill $PPID';
      const untilPut = startEtcdctl(site, 'watch', 'x/1', `--rev=${revision + 4n}`, '--', 'sh', '-c', command);
      printed.push(...(await transcript(site, [['put', 'x/1', 'd']])));
      printed.push(...(await lines(interactive, 5)), ...(await untilPut.rest()));
      return printed;
    });
  });

  test('keeps a lease alive as with a real etcd', async () => {
    await expectEqual(async (site) => {
      const lease = await openClient({ endpoints: [site.endpoint] }).lease.grant({ ttl: 3 });
      const child = startEtcdctl(site, 'lease', 'keep-alive', lease.id.toString(16));
      return (await lines(child, 2)).map(withoutIds);
    });
  });
});
