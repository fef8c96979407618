import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startChild } from '../support/child.js';
import { cli } from '../support/cli.js';
import { openClient, unique } from '../support/client.js';
import { ownEtcd } from '../support/own-etcd.js';
import { PROGRAMS, recorded, runAt } from '../support/recordings.js';

const execute = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const NO_DIFFERENCES = /steps: \d+, steps whose answers differ: 0\n$/;

test.for(Object.entries(PROGRAMS))(
  'a recording of %s replays in memory and at another etcd without a difference',
  async ([, program], { skip }) => {
    const file = await recorded(async (url) => {
      const missing = await program(url);
      if (missing !== undefined) skip(missing);
    });
    const inMemory = await cli(['replay', file]);
    expect(inMemory).toMatchObject({ code: 0, stderr: expect.stringMatching(NO_DIFFERENCES) });
    expect(inMemory.stdout).not.toContain('differs');
    const { endpoints } = await ownEtcd();
    const atServer = await cli(['replay', file, '--against-server', '--endpoints', endpoints.join(), '--quiet']);
    expect(atServer).toMatchObject({ code: 0, stdout: '', stderr: expect.stringMatching(NO_DIFFERENCES) });
  },
);

/** How the server is changed, and the programs whose tests must fail because of that. */
const CHANGES = {
  '': [],
  'a put answers the next revision': ['etcdctl', 'etcd3', 'etcdwire'],
  'every comparison holds': ['etcd3'],
  'watches lose deletions': ['Go', 'etcd3', 'etcdwire'],
} as const;

test('tests from recordings pass, and fail when the behavior of the server is changed', {
  timeout: 180_000,
}, async () => {
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, '.cache/replay-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const programs: string[] = [];
  for (const [name, program] of Object.entries(PROGRAMS)) {
    let missing: string | undefined;
    const file = await recorded(async (url) => {
      missing = await program(url);
    });
    if (missing !== undefined) continue;
    programs.push(name);
    const { code } = await cli(['replay', file, '--test', join(folder, `${name}.test.ts`)]);
    expect(code).toBe(0);
  }
  writeFileSync(
    join(folder, 'vitest.config.ts'),
    `export default { test: { alias: { 'etcdwire/testing': '${join(ROOT, 'test/support/changed-etcd.ts')}' } } };`,
  );
  for (const [change, failing] of Object.entries(CHANGES)) {
    const failed = (await failedTests(folder, change)).filter((name) => programs.includes(name));
    const expected = failing.filter((name) => programs.includes(name));
    if (change === '') expect(failed).toEqual([]);
    else expect(failed, change).toEqual(expect.arrayContaining(expected));
  }
});

/** Runs the tests in a folder with a changed server. Resolves with the names of the files whose tests fail. */
async function failedTests(folder: string, change: string): Promise<string[]> {
  const args = [join(ROOT, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder, '--reporter=json'];
  const env = { ...process.env, ETCDWIRE_CHANGE: change };
  const { stdout } = await execute(process.execPath, args, { env, cwd: folder }).catch((error) => error);
  const { testResults } = JSON.parse(stdout) as { testResults: readonly { name: string; status: string }[] };
  expect(testResults.length).toBeGreaterThan(0);
  return testResults
    .filter(({ status }) => status === 'failed')
    .map(({ name }) => /(\w+)\.test\.ts$/.exec(name)?.[1] ?? '');
}

test('a lease expires in the replay when it has expired in the recording', async () => {
  const file = await recorded(async (url) => {
    const name = unique();
    const script = join(import.meta.dirname, '../support/etcd3-holder.ts');
    const holder = startChild(process.execPath, ['--import', 'tsx', script, url, name, '2']);
    expect(await holder.line()).toBe('held');
    const client = openClient({ endpoints: [url] });
    const watch = client.watch(name);
    await watch.created();
    holder.process.kill('SIGKILL');
    for await (const event of watch) if (event.type === 'delete') break;
    await client.put(`${name}/after`, '1');
    await client.close();
  });
  const { code, stdout } = await cli(['replay', file]);
  expect(stdout).toMatch(/\* lease [0-9a-f]+ expires\n.* < k-\w+ was deleted /);
  expect(code).toBe(0);
});

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
