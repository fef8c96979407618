import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { freePorts } from '../../../src/testing/etcd/free-ports.js';
import { cli, cliJson, PROGRAM, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { runEtcdctl } from '../../../test/support/etcdctl.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

interface Kvs {
  readonly kvs: readonly { readonly key: string; readonly value: string; readonly mod_revision: string }[];
  readonly count: string;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('etcdwire', () => {
  it('`get`, `put` and `del` print responses as JSON with keys and values in base64 when standard output is not a terminal', async () => {
    const key = unique();
    await cliJson(['put', key, 'one']);
    const { kvs, count } = await cliJson<Kvs>(['get', key]);
    expect(kvs).toMatchObject([{ key: base64(key), value: base64('one'), version: '1' }]);
    expect(count).toBe('1');
    expect(await cliJson(['del', key])).toMatchObject({ deleted: '1' });
  });

  it('`put` reads the value byte for byte from standard input when the arguments contain no value', async () => {
    const key = unique();
    const value = Uint8Array.of(0, 0xff, 10, 13, 0x80);
    await cli(['put', key], { stdin: value });
    expect((await openClient().get(key))?.value).toEqual(value);
  });

  it('`get` escapes control characters in tables', async () => {
    const key = unique();
    await openClient().put(`${key}/a`, 'red\u001b[2Jgreen');
    await openClient().put(`${key}/b`, Uint8Array.of(0xff, 1));
    const { stdout } = await cli(['-w', 'table', 'get', '--prefix', key]);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(lines.map(([first, second]) => [first, second])).toEqual([
      ['KEY', 'VALUE'],
      [`${key}/a`, 'red\\u001b[2Jgreen'],
      [`${key}/b`, '0xff01'],
    ]);
  });

  it('`get`, `put`, `del` and `lease list` print the same text as etcdctl in the simple output format', async (context) => {
    const etcdctl = inject('etcdctl');
    if (etcdctl === undefined) return context.skip('there is no etcdctl for the server under test');
    const { endpoints } = await ownEtcd();
    const etcd = openClient({ endpoints });
    const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
    const key = unique();
    for (const name of ['a', 'b', 'c']) await etcd.put(`${key}/${name}`, name.toUpperCase());
    await etcd.lease.grant({ ttl: 1_000, id: 0xabcn });
    for (const args of [
      ['get', '--prefix', key],
      ['get', '--prefix', '--keys-only', key],
      ['get', '--prefix', '--print-value-only', key],
      ['get', '--prefix', '--order', 'DESCEND', '--sort-by', 'VALUE', '--limit', '2', key],
      ['get', `${key}/a`, `${key}/c`],
      ['put', `${key}/a`, 'AA', '--prev-kv'],
      ['del', `${key}/a`, '--prev-kv'],
      ['lease', 'list'],
    ]) {
      const theirs = await runEtcdctl(etcdctl, endpoints, ...args);
      if (args[0] === 'del' || args[0] === 'put') await etcd.put(`${key}/a`, args[0] === 'del' ? 'AA' : 'A');
      const { stdout } = await cli(['-w', 'simple', ...args], { environment });
      expect.soft(blankless(stdout), args.join(' ')).toBe(blankless(theirs));
    }
  });

  it('`get --rev` reads a key at an earlier revision', async () => {
    const key = unique();
    const { header } = await openClient().put(key, 'old');
    await openClient().put(key, 'new');
    const { stdout } = await cli(['get', key, '--rev', String(header.revision), '--print-value-only']);
    expect(stdout).toBe('old\n');
  });
});

it('etcdwire txn runs a transaction from a JSON file where keys and values are text', async () => {
  const key = unique();
  const folder = temporaryFolder();
  const file = join(folder, 'txn.json');
  const put = (value: string): object => ({ request_put: { key, value } });
  writeFileSync(
    file,
    JSON.stringify({
      compare: [{ key, target: 'VERSION', result: 'EQUAL', version: 0 }],
      success: [put('made')],
      failure: [{ request_range: { key } }],
    }),
  );
  expect(await cliJson(['txn', file])).toMatchObject({ succeeded: true });
  const again = await cliJson<{ responses: object[] }>(['txn', file]);
  expect(again).not.toHaveProperty('succeeded');
  expect(again.responses).toMatchObject([{ response_range: { kvs: [{ key, value: 'made' }] } }]);
});

it('etcdwire txn refuses a read with a revision beside a write, and sends nothing', async () => {
  const key = unique();
  const file = join(temporaryFolder(), 'txn.json');
  const [put, read] = [{ request_put: { key } }, { request_range: { key, revision: 1 } }];
  writeFileSync(file, JSON.stringify({ success: [put], failure: [read] }));
  const { code, stderr } = await cli(['txn', file]);
  expect(code).not.toBe(0);
  expect(stderr).toContain('txn: got a read with revision = 1 beside a write; allowed: reads without revision');
  expect(await openClient().get(key)).toBeUndefined();
});

it('etcdwire watch logs an unavailable endpoint and prints events from another endpoint', async () => {
  const [key, [gone = 0]] = [unique(), await freePorts(1)];
  const { header } = await openClient().put(key, 'there');
  const endpoints = [`http://127.0.0.1:${gone}`, ...inject('endpoints')].join();
  const watch = new RunningCli(['watch', key, '--rev', String(header.revision), '--endpoints', endpoints]);
  await watch.lines(1);
  watch.process.kill('SIGINT');
  const cause = `cannot connect to http://127.0.0.1:${gone}: connect ECONNREFUSED 127.0.0.1:${gone}`;
  const stderr = `etcdwire: endpoint unavailable: ${cause}; it is tried again\n`;
  expect(await watch.done).toMatchObject({ code: 130, stderr });
});

it('etcdwire ignores empty environment variables and empty endpoints', async () => {
  const environment = { ETCDCTL_CACERT: '', ETCDCTL_USER: '', ETCDCTL_DIAL_TIMEOUT: '' };
  const endpoints = `${inject('endpoints').join()},`;
  expect(await cli(['get', unique(), '--endpoints', endpoints], { environment })).toMatchObject({ code: 0 });
});

it('etcdwire watch prints one event per line until SIGINT arrives', async () => {
  const key = unique();
  const etcd = openClient();
  const { header } = await etcd.put(key, 'one');
  const watch = new RunningCli(['watch', key, '--rev', String(header.revision), '--prev-kv']);
  await watch.lines(1);
  await etcd.put(key, 'two');
  await etcd.delete(key);
  const events = (await watch.lines(3)).map((line) => JSON.parse(line));
  expect(events).toMatchObject([
    { type: 'PUT', kv: { key: base64(key), value: base64('one') } },
    { type: 'PUT', kv: { value: base64('two') }, prev_kv: { value: base64('one') } },
    { type: 'DELETE', kv: { key: base64(key) }, prev_kv: { value: base64('two') } },
  ]);
  watch.process.kill('SIGINT');
  expect(await watch.done).toMatchObject({ code: 130, stderr: '' });
});

it('etcdwire lease grants, renews, shows and revokes a lease', async () => {
  const { ID } = await cliJson<{ ID: string }>(['lease', 'grant', '60']);
  const id = BigInt(ID).toString(16).padStart(16, '0');
  expect(await cliJson(['lease', 'keep-alive', '--once', id])).toMatchObject({ ID, TTL: '60' });
  const key = unique();
  await cliJson(['put', key, 'x', '--lease', id]);
  expect(await cliJson(['lease', 'timetolive', id, '--keys'])).toMatchObject({ keys: [base64(key)] });
  expect((await cli(['-w', 'simple', 'lease', 'revoke', id])).stdout).toBe(`lease ${id} revoked\n`);
  expect((await cli(['-w', 'simple', 'lease', 'timetolive', id])).stdout).toBe(`lease ${id} already expired\n`);
  expect(await cli(['lease', 'keep-alive', '--once', id])).toMatchObject({ code: 1 });
});

it('etcdwire put exits when SIGINT arrives while etcdwire reads the value from standard input', async () => {
  const put = new RunningCli(['put', unique()]);
  // The value is longer than the buffer of a pipe, so the write completes only after etcdwire has begun to read.
  await new Promise<void>((resolve) => put.process.stdin.write('x'.repeat(2_000_000), () => resolve()));
  put.process.kill('SIGINT');
  expect(await put.done).toMatchObject({ code: 130 });
});

it('etcdwire exits with exit code 73 and prints one line on standard error when etcdwire cannot write to standard output', async () => {
  const script = '"$0" "$1" status >/dev/full';
  const child = spawnSync('sh', ['-c', script, process.execPath, PROGRAM], {
    encoding: 'utf8',
    env: { ...process.env, ETCDCTL_ENDPOINTS: inject('endpoints').join(',') },
  });
  expect(child.stderr).toMatch(/^etcdwire: cannot write to standard output: ENOSPC[^\n]*\n$/);
  expect(child.status).toBe(73);
});

it.each(['--prefix', '--from-key'])('etcdwire get %s reads all keys when the given key is empty', async (flag) => {
  const environment = { ETCDCTL_ENDPOINTS: (await ownEtcd()).endpoints.join() };
  await cli(['put', 'a', '1'], { environment });
  await cli(['put', 'b', '2'], { environment });
  const { stdout } = await cli(['get', '', flag, '--print-value-only'], { environment });
  expect(stdout).toBe('1\n2\n');
});

it('the help text of each command refers to the help text of etcdwire, which lists the connection flags once', async () => {
  const { stdout } = await cli(['get', '--help']);
  expect(stdout).not.toContain('--endpoints <urls>');
  expect(stdout).toContain('For the connection and output options, see etcdwire --help.');
  expect((await cli(['--help'])).stdout).toContain('--endpoints <urls>');
});

it('etcdwire --version prints the version of package.json', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'));
  expect(await cli(['--version'])).toMatchObject({ code: 0, stdout: `${version}\n` });
});

it('etcdwire status and etcdwire member list each print every member', async () => {
  const [endpoint = ''] = inject('endpoints');
  const [status] = await cliJson<{ endpoint: string; status: { version: string } }[]>(['status']);
  expect(status).toMatchObject({ endpoint, status: { version: inject('etcdVersion') } });
  const { members } = await cliJson<{ members: { clientURLs: string[] }[] }>(['member', 'list']);
  expect(members[0]?.clientURLs).toEqual([endpoint]);
});

it('etcdwire status prints the status or the error of every member, and exits with the exit code of the first failure', async () => {
  const endpoints = [...inject('endpoints'), 'http://127.0.0.1:1'].join(',');
  const { code, stdout } = await cli(['status', '--endpoints', endpoints, '--command-timeout', '1s']);
  expect(code).toBe(69);
  expect(JSON.parse(stdout)).toMatchObject([{ status: {} }, { error: expect.stringContaining('ECONNREFUSED') }]);
});

it('etcdwire snapshot save writes a file that ends with the 32-byte checksum of the snapshot', async () => {
  const file = join(temporaryFolder(), 'snapshot.db');
  const environment = { ETCDCTL_ENDPOINTS: (await ownEtcd()).endpoints.join() };
  const saved = await cliJson<{ bytes: number }>(['snapshot', 'save', file], { environment });
  expect(saved.bytes % 512).toBe(32);
});

function blankless(text: string): string {
  return text.replaceAll(/\n+/g, '\n');
}

it('`get` leaves out keys by their create revision and by the revision of their last change', async () => {
  const name = unique();
  const etcd = openClient();
  const { header: first } = await etcd.put(`${name}/a`, '1');
  const { header: second } = await etcd.put(`${name}/b`, '1');
  const { header: third } = await etcd.put(`${name}/a`, '2');
  const keys = async (...flags: readonly string[]): Promise<readonly string[]> => {
    const { stdout } = await cli(['get', '--prefix', `${name}/`, '--keys-only', '-w', 'simple', ...flags]);
    return stdout.split('\n').filter((line) => line !== '');
  };
  expect(await keys('--min-create-rev', `${second.revision}`)).toEqual([`${name}/b`]);
  expect(await keys('--max-create-rev', `${first.revision}`)).toEqual([`${name}/a`]);
  expect(await keys('--min-mod-rev', `${third.revision}`)).toEqual([`${name}/a`]);
  expect(await keys('--max-mod-rev', `${second.revision}`)).toEqual([`${name}/b`]);
});

it('--hex prints keys and values in hexadecimal, as etcdctl does', async () => {
  const key = unique();
  await openClient().put(key, Uint8Array.of(0, 255));
  const { stdout } = await cli(['get', key, '-w', 'simple', '--hex']);
  const escaped = [...Buffer.from(key)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
  expect(stdout).toBe(`${escaped}\n\\x00\\xff\n`);
});

it('`watch KEY -- COMMAND` runs the command for each event in order, and exits with the exit code of the first command that fails', async () => {
  const key = unique();
  const script =
    'echo "$ETCDWIRE_WATCH_TYPE $ETCDWIRE_WATCH_VALUE $ETCD_WATCH_KEY"; [ "$ETCDWIRE_WATCH_TYPE" = PUT ] || exit 7';
  const { header } = await openClient().put(key, 'one');
  const args = ['watch', key, '--rev', String(header.revision), '-w', 'simple', '--', 'sh', '-c', script];
  const running = new RunningCli(args);
  await openClient().put(key, 'two');
  await openClient().delete(key);
  const { code, stdout } = await running.done;
  expect(code).toBe(7);
  const lines = stdout.split('\n').filter((line) => line.includes(`"${key}"`));
  expect(lines).toEqual([`PUT one "${key}"`, `PUT two "${key}"`, `DELETE  "${key}"`]);
});

it('`watch` refuses a command without --', async () => {
  expect(await cli(['watch', 'a', 'b', 'true'])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining('got "true" without -- before it'),
  });
});

it('`watch KEY -- COMMAND` leaves out the variables of a value that is too long, and runs the next commands', async () => {
  const key = unique();
  const { header } = await openClient().put(key, 'x'.repeat(200_000));
  // JSON escapes each of these characters with six characters, so only the quoted variable is too long.
  await openClient().put(key, '\u0001'.repeat(50_000));
  await openClient().put(key, 'short');
  const script =
    'echo "[$ETCDWIRE_WATCH_OMITTED] $(printenv ETCDWIRE_WATCH_VALUE | wc -m) $(printenv ETCD_WATCH_VALUE || echo none)"; ' +
    '[ "$ETCDWIRE_WATCH_VALUE" != short ] || exit 3';
  const args = ['watch', key, '--rev', String(header.revision), '-w', 'simple', '--', 'sh', '-c', script];
  const outer = { ETCDWIRE_WATCH_VALUE: 'outer', ETCD_WATCH_VALUE: 'outer', ETCDWIRE_WATCH_OMITTED: 'outer' };
  const { code, stdout, stderr } = await cli(args, { environment: outer });
  expect(code).toBe(3);
  expect(stdout.split('\n').filter((line) => line.includes('['))).toEqual([
    '[ETCDWIRE_WATCH_VALUE ETCD_WATCH_VALUE] 0 none',
    '[ETCD_WATCH_VALUE] 50001 none',
    '[] 6 "short"',
  ]);
  expect(stderr).toMatch(
    /the command gets no ETCDWIRE_WATCH_VALUE, ETCD_WATCH_VALUE for the event at revision \d+, because .* 100000 bytes; read/,
  );
});

it('`watch KEY -- COMMAND` passes bytes that are not text in base64', async () => {
  const key = unique();
  const { header } = await openClient().put(key, Uint8Array.of(0, 255));
  const command = ['sh', '-c', 'echo "$ETCDWIRE_WATCH_VALUE $ETCD_WATCH_EVENT_TYPE"; exit 3'];
  const args = ['watch', key, '--rev', String(header.revision), '-w', 'simple', '--', ...command];
  const { code, stdout } = await cli(args);
  expect(code).toBe(3);
  expect(stdout).toContain('base64:AP8= "PUT"\n');
});

it.each([[['watch', 'a', '--']], [['watch', '--', 'a', 'true']]])(
  'etcdwire %j exits with exit code 64 because no key is before `--`',
  async (args) => {
    expect(await cli(args)).toMatchObject({ code: 64, stderr: expect.stringContaining('give a key before --') });
  },
);
