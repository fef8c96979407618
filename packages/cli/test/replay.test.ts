import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test } from 'vitest';
import { prefix } from '../../../src/index.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { openClient } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { PROGRAMS, recorded, runAt } from '../../../test/support/recordings.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { PcapngWriter, type TcpAddress } from '../src/inspect/pcapng-writer.js';

const execute = promisify(execFile);
const ROOT = join(import.meta.dirname, '../../..');
const NO_DIFFERENCES = /steps: \d+, steps whose answers differ: 0\n$/;

test.for(Object.entries(PROGRAMS))(
  'a recording of %s replays in memory and at another etcd without a difference',
  async ([, program], { skip }) => {
    const file = await recorded(async (url, proxy) => {
      const missing = await program(url, proxy);
      if (missing !== undefined) skip(missing);
    });
    const inMemory = await cli(['replay', file]);
    expect(inMemory).toMatchObject({ code: 0, stderr: expect.stringMatching(NO_DIFFERENCES) });
    expect(inMemory.stdout).not.toContain('differs');
    const { endpoints } = await ownEtcd();
    const atServer = await cli([
      'replay',
      file,
      '--against-server',
      '--endpoints',
      endpoints.join(),
      '--quiet',
      '--speed',
      '50',
    ]);
    expect(atServer).toMatchObject({ code: 0, stdout: '', stderr: expect.stringMatching(NO_DIFFERENCES) });
  },
);

test('etcdwire replay prints the fields that differ, ends at a revision, and waits for Enter', async () => {
  const { endpoints } = await ownEtcd();
  await openClient({ endpoints }).put('a key that the recording does not show', '1');
  const file = await recorded(
    async (url) => {
      const client = openClient({ endpoints: [url] });
      await client.put('a', '1');
      await client.range(prefix(''), { countOnly: true });
      await client.put('b', '1');
      await client.close();
    },
    { ETCDCTL_ENDPOINTS: endpoints.join() },
  );
  const whole = await cli(['replay', file]);
  expect(whole.code).toBe(1);
  expect(whole.stdout).toContain('differs: count: recorded "2", now "1"');
  expect(whole.stderr).toContain('steps: 3, steps whose answers differ: 1');
  expect((await cli(['replay', file, '--quiet'])).stdout.trim().split('\n')).toHaveLength(2);
  expect((await cli(['replay', file, '--to-revision', '3'])).stderr).toContain('steps: 2,');
  const lines = (await cli(['replay', file, '-w', 'json'])).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines[1]).toMatchObject({
    step: 1,
    call: 'KV/Range',
    differences: [{ field: 'count', recorded: '2', replayed: '1' }],
  });
  const stepped = new RunningCli(['replay', file, '--step']);
  await stepped.stdoutMatches(/put a = 1/);
  stepped.process.stdin.write('\n');
  await stepped.stdoutMatches(/count/);
  stepped.process.stdin.end('\n');
  expect((await stepped.done).stdout).toBe(whole.stdout);
});

test.each([
  [['--endpoints', '127.0.0.1:1'], 64, '--against-server'],
  [['--speed', '1'], 64, '--against-server'],
  [['--speed', 'fast', '--against-server'], 64, 'a number above 0'],
  [['--test', 'x', '--step'], 64, '--test'],
  [[], 65, 'pcapng'],
] as const)('etcdwire replay %j exits with exit code %i and says why', async (flags, code, words) => {
  const result = await cli(['replay', import.meta.filename, ...flags]);
  expect(result).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(words) });
});

test('etcdwire replay says why a recording contains no calls', async () => {
  const write = (...bytes: Uint8Array[]): string => {
    const file = join(temporaryFolder(), 'traffic.pcapng');
    const parts: Uint8Array[] = [];
    const writer = new PcapngWriter((each) => void parts.push(each), 'a test');
    const [client, server] = [1, 2].map((port) => ({ host: '127.0.0.1', port })) as [TcpAddress, TcpAddress];
    const connection = writer.open(client, server, '', 0);
    for (const each of bytes) connection.bytes('sent', each, 1);
    connection.close(2);
    writeFileSync(file, Buffer.concat(parts));
    return file;
  };
  const tls = await cli(['replay', write(Buffer.from('1603010200', 'hex'))]);
  expect(tls).toMatchObject({
    code: 65,
    stderr: expect.stringContaining('its connections use TLS; etcdwire proxy --record'),
  });
  const empty = await cli(['replay', write()]);
  expect(empty).toMatchObject({ code: 65, stderr: expect.stringContaining('record a program while it calls etcd') });
  const shown = await cli(['show', write(Buffer.from('1603010200', 'hex'))]);
  expect(shown.stderr).toContain('connections left out because they use TLS: 1');
});

test('a call that is no RPC of etcd is left out of the replay', async () => {
  const { endpoints } = await ownEtcd();
  const file = await recorded(
    async (url) => {
      const session = connect(url);
      const request = session.request({
        ':method': 'POST',
        ':path': '/app.Orders/List',
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      request.end(Buffer.alloc(5));
      await once(request.resume(), 'close');
      session.close();
      const client = openClient({ endpoints: [url] });
      await client.put('a', '1');
      await client.close();
    },
    { ETCDCTL_ENDPOINTS: endpoints.join() },
  );
  const { code, stderr } = await cli(['replay', file]);
  expect(stderr).toContain('left out: 1 calls of /app.Orders/List, which is no RPC of etcd');
  expect(stderr).toMatch(NO_DIFFERENCES);
  expect(code).toBe(0);
});

/** How the server is changed, and the programs whose tests must fail because of that. */
const CHANGES = [
  ['', []],
  ['a put answers the next revision', ['etcdctl', 'etcd3', 'etcdwire']],
  ['every comparison holds', ['etcd3']],
  ['watches lose deletions', ['Go', 'etcd3', 'etcdwire']],
] as const;

test('tests from recordings pass, and fail when the behavior of the server is changed', async () => {
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  // In the project, so that the tests find the package vitest.
  const folder = mkdtempSync(join(ROOT, '.cache/replay-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const programs: string[] = [];
  for (const [name, program] of Object.entries(PROGRAMS)) {
    let missing: string | undefined;
    const file = await recorded(async (url, proxy) => {
      missing = await program(url, proxy);
    });
    if (missing !== undefined) continue;
    programs.push(name);
    expect((await cli(['replay', file, '--test', join(folder, `${name}.test.ts`)])).code).toBe(0);
  }
  const failed = await failedTests(folder, programs);
  expect(failed[0]).toEqual([]);
  for (const [index, [change, failing]] of CHANGES.entries())
    expect(failed[index], change).toEqual(
      expect.arrayContaining(programs.filter((name) => failing.some((each) => each === name))),
    );
});

/** Runs the tests of programs, once with each change of the server. Resolves with the programs whose tests fail. */
async function failedTests(folder: string, programs: readonly string[]): Promise<readonly string[][]> {
  const alias = { 'etcdwire/testing': join(ROOT, 'test/support/changed-etcd.ts') };
  const projects = CHANGES.map(([change], index) => {
    const root = join(folder, `${index}`);
    mkdirSync(root);
    for (const name of programs) copyFileSync(join(folder, `${name}.test.ts`), join(root, `${name}.test.ts`));
    return {
      resolve: { alias },
      // The tests of one change share a process, so that it loads the modules of `src` only once.
      test: { name: `${index}`, root, env: { ETCDWIRE_CHANGE: change }, testTimeout: 60_000, isolate: false },
    };
  });
  writeFileSync(
    join(folder, 'vitest.config.mjs'),
    `export default ${JSON.stringify({ test: { projects, maxWorkers: 2 } })};`,
  );
  const args = [join(ROOT, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder, '--reporter=json'];
  const { stdout } = await execute(process.execPath, args, { cwd: folder }).catch((error) => error);
  const { testResults } = JSON.parse(stdout) as { testResults: readonly { name: string; status: string }[] };
  expect(testResults).toHaveLength(CHANGES.length * programs.length);
  const failed = testResults.filter(({ status }) => status === 'failed').map(({ name }) => name);
  return CHANGES.map((_, index) =>
    programs.filter((name) => failed.includes(join(folder, `${index}`, `${name}.test.ts`))),
  );
}

test('the replay ends where the recording was cut off', async ({ skip }) => {
  const file = await recorded(async (url) => {
    const missing = await PROGRAMS.etcdctl(url);
    if (missing !== undefined) skip(missing);
  });
  truncateSync(file, Math.floor(statSync(file).size / 2) + 1);
  const { code, stderr } = await cli(['replay', file]);
  expect(stderr).toContain('the recording ends in the middle of a packet');
  expect(stderr).toMatch(NO_DIFFERENCES);
  expect(code).toBe(0);
});

test.for([
  ['drop-answer', 'applied'],
  ['cut', 'lost'],
] as const)(
  'a put whose answer the fault %s has hidden is %s in the replay, too',
  async ([fault, outcome], { skip }) => {
    const etcdctl = inject('etcdctl') as string | undefined;
    if (etcdctl === undefined) return skip('etcdctl is missing on this machine');
    const { endpoints } = await ownEtcd();
    const file = await recorded(
      async (url) => {
        await runAt(url, etcdctl, 'put', 'a', '1');
        await runAt(url, etcdctl, 'put', 'b', '2', '--command-timeout=1s').catch(() => {});
        await runAt(url, etcdctl, 'put', 'c', '3');
      },
      { ETCDCTL_ENDPOINTS: endpoints.join() },
      ['--fault', `${fault} rpc=Put prefix=b`],
    );
    const { code, stdout } = await cli(['replay', file]);
    expect(code).toBe(0);
    expect(stdout.includes('put b = 2')).toBe(outcome === 'applied');
  },
);
