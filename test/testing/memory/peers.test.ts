import { dirname, join } from 'node:path';
import { Etcd3 } from 'etcd3';
import { describe, expect, inject, test, vi } from 'vitest';
import { findEtcd, startEtcd } from '../../../scripts/etcd.js';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import type { MemoryVersion } from '../../../src/testing/memory/settings.js';
import { pythonPackages, pythonTests, runPeer, rustTests } from '../../support/peer-packages.js';
import { testedVersions } from '../../support/thorough.js';

// These tests run clients of other projects, and the tests that some of these projects publish, on a `MemoryEtcd` and
// on a real etcd of the same version. `npm run test:all` downloads the clients. `npm test` skips these tests. Other
// tests use Go's clientv3 with its packages `concurrency` and `recipes` (test/interop in the project `memory`), and
// etcdctl (etcdctl-output.test.ts).

const FOLDER = join(import.meta.dirname, 'peers');
/** The time limit includes the download and the build of the packages. */
const TIMEOUT_MS = 600_000;
const PURE_PYTHON = { PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION: 'python' };
/**
 * A filter of pytest. It leaves out most tests of etcd3 that need several members, and the tests that start etcdctl
 * for each of many random inputs.
 */
const CHOSEN = [
  'quorum',
  'Alarms',
  'lock_',
  'get_key',
  'get_random',
  'cluster_revision',
  'put_key',
  'prev_kv',
  'put_if',
]
  .map((name) => `not ${name}`)
  .join(' and ');

const available = process.env.ETCD_ENDPOINTS ? [] : await testedVersions();
const version = available.find((each): each is MemoryVersion => each !== '3.4');

let problem: string | undefined;
if (!inject('thorough')) problem = 'only `npm run test:all` downloads clients of other projects';
else if (version === undefined) problem = 'the tests cannot start servers of their own';

/**
 * Runs the same program with a new `MemoryEtcd` and with a new real etcd. Both outputs must be equal. Resolves with the
 * output. `run` gets the host and the port of a server.
 */
async function expectEqual(run: (address: string) => Promise<string>): Promise<string> {
  await using real = await startEtcd({ version });
  await using memory = await listen(new MemoryEtcd({ version }));
  const endpoints = [memory.endpoint, real.endpoints[0] as string];
  const [actual, expected] = await Promise.all(endpoints.map((endpoint) => run(new URL(endpoint).host)));
  expect(actual).toBe(expected);
  return actual as string;
}

describe('a MemoryEtcd', { timeout: TIMEOUT_MS }, () => {
  test.concurrent.for([
    ['etcd3-py', ['etcd3-py==0.1.6'], 'etcd3_py.py'],
    ['etcd3', ['etcd3==0.12.0', 'protobuf==3.20.3'], 'etcd3_grpc.py'],
    ['aetcd', ['aetcd==1.0.0'], 'aetcd_client.py'],
  ] as const)('gives the Python client %s the answers of a real etcd', async ([name, packages, file], context) => {
    if (problem !== undefined) return context.skip(problem);
    const installed = await pythonPackages(`${name}-client`, packages);
    if ('missing' in installed) return context.skip(installed.missing);
    const environment = { PYTHONPATH: installed.folder, ...PURE_PYTHON };
    const output = await expectEqual((address) => runPeer('python3', [join(FOLDER, file), address], { environment }));
    expect(output).toMatch(/\ndeleted 2\n$/);
  });

  test.concurrent('passes the same tests of the Python client etcd3 as a real etcd', async (context) => {
    if (problem !== undefined) return context.skip(problem);
    const etcdctl = await etcdctlFolder();
    if (etcdctl === undefined) return context.skip('the tests of etcd3 need etcdctl');
    const installed = await pythonTests();
    if ('missing' in installed) return context.skip(installed.missing);
    const results = await expectEqual((address) =>
      pytest(join(installed.folder, 'source'), {
        ...PURE_PYTHON,
        PYTHONPATH: installed.folder,
        PYTHON_ETCD_HTTP_URL: `http://${address}`,
        TEST_ETCD_VERSION: 'v3.6.0',
        PATH: `${etcdctl}:${process.env.PATH}`,
      }),
    );
    expect(results.match(/^PASSED /gm)?.length).toBeGreaterThan(40);
  });

  test.concurrent('passes the tests of the Rust client etcd-client', async (context) => {
    if (problem !== undefined) return context.skip(problem);
    const programs = await rustTests();
    if ('missing' in programs) return context.skip(programs.missing);
    await using own = await listen(new MemoryEtcd({ version }));
    const environment = { ETCD_TEST_ENDPOINT: new URL(own.endpoint).host };
    for (const [name, least] of [
      ['client', 20],
      ['namespace', 1],
    ] as const) {
      const printed = await runPeer(join(programs.folder, name), ['--test-threads=1'], { environment });
      const [, passed, failed] = /(\d+) passed; (\d+) failed/.exec(printed) ?? [];
      expect([Number(passed) >= least, failed]).toEqual([true, '0']);
    }
  });

  // The npm package etcd3 contains no tests, so this test calls its public functions.
  test.concurrent('gives the npm client etcd3 the answers of a real etcd', async (context) => {
    if (problem !== undefined) return context.skip(problem);
    const output = await expectEqual(async (address) => {
      const client = new Etcd3({ hosts: `http://${address}` });
      try {
        return JSON.stringify(await useEtcd3(client), undefined, 1);
      } finally {
        client.close();
      }
    });
    expect(JSON.parse(output)).toContainEqual([
      ['w/1', 'a', 'undefined'],
      ['w/1', 'b', 'a'],
      ['w/1', 'b'],
    ]);
  });
});

/** Resolves with the folder of etcdctl, or with undefined if there is none. */
async function etcdctlFolder(): Promise<string | undefined> {
  const found = await findEtcd({ version, download: false });
  const etcdctl = found.kind === 'binary' ? found.etcdctl : undefined;
  return etcdctl === undefined ? undefined : dirname(etcdctl);
}

/** Runs the tests of etcd3. Resolves with one line for each test: its result and its name. */
async function pytest(folder: string, environment: Readonly<Record<string, string>>): Promise<string> {
  const args = ['-m', 'pytest', '-p', 'no:cacheprovider', '-o', 'addopts=', '-q', '-rA', '--tb=no', '-k', CHOSEN];
  // The exit status is 1, because some of the tests fail with every etcd, for example those that expect three members.
  const printed = await runPeer('python3', [...args, 'tests/test_etcd3.py'], { cwd: folder, environment }).catch(
    (error: Error & { readonly stdout?: string }) => error.stdout ?? error.message,
  );
  const results = printed.split('\n').filter((line) => /^(?:PASSED|FAILED|ERROR) /.test(line));
  return results
    .map((line) => line.replace(/ - .*/, ''))
    .sort()
    .join('\n');
}

/** Calls most functions of the npm client etcd3. Resolves with what they return, without IDs and revisions. */
async function useEtcd3(client: Etcd3): Promise<unknown[]> {
  const name = 'npm/';
  const etcd = client.namespace(name);
  const results: unknown[] = [];
  const failure = (error: Error): string => `${error.name}: ${error.message.replaceAll(name, '')}`;
  const events: unknown[] = [];
  const watcher = await etcd.watch().prefix('w/').withPreviousKV().create();
  watcher.on('put', ({ key, value }, previous) => events.push([String(key), String(value), String(previous?.value)]));
  watcher.on('delete', ({ key }, previous) => events.push([String(key), String(previous?.value)]));
  await etcd.put('w/1').value('a');
  await etcd.put('w/1').value('b');
  await etcd.delete().key('w/1');
  // `expect.poll` belongs to one test, but this function does not know which of the concurrent tests has called it.
  await vi.waitUntil(() => events.length === 3, { timeout: 30_000 });
  await watcher.cancel();
  await etcd.put('a').value('1');
  results.push(events, await etcd.get('none'));
  await etcd.put('b').value('2');
  results.push(await etcd.getAll().sort('Key', 'Descend').strings(), await etcd.getAll().count());
  const branch = etcd.if('a', 'Value', '==', '1').then(etcd.put('a').value('3')).else(etcd.get('b'));
  results.push((await branch.commit()).succeeded, (await branch.commit()).responses.length, await etcd.get('a'));
  await etcd.stm().transact(async (tx) => tx.put('sum').value(`${await tx.get('a')}${await tx.get('b')}`));
  const lease = etcd.lease(30);
  await lease.put('leased').value('x');
  const { TTL } = await lease.keepaliveOnce();
  await lease.revoke();
  results.push(await etcd.get('sum'), TTL, await etcd.get('leased'));
  const lock = etcd.lock('lock');
  await lock.acquire();
  results.push(
    await etcd
      .lock('lock')
      .acquire()
      .then(() => 'both', failure),
  );
  await lock.release();
  const campaign = etcd.election('election', 10).campaign('leader');
  await new Promise((resolve) => campaign.once('elected', () => resolve(undefined)));
  results.push(await etcd.election('election').leader());
  await campaign.resign();
  results.push(await client.role('none').permissions().catch(failure));
  results.push(await client.user('none').roles().catch(failure));
  await client.role(name).create();
  await client.role(name).grant({ permission: 'Readwrite', range: client.range({ prefix: name }) });
  results.push((await client.role(name).permissions()).map(({ permission }) => permission));
  await client.role(name).delete();
  results.push((await client.maintenance.status()).version, (await client.cluster.memberList({})).members.length);
  results.push((await etcd.delete().all()).deleted);
  return results;
}
