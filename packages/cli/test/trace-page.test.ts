import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { authEtcd, TOKEN, USER } from '../../../test/support/auth-etcd.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

/** Returns the labels of the page's arrows, which show messages and changes by other contenders. */
function labels(page: string): string[] {
  return [...page.matchAll(/<g class="(?:message|failure|seen|held)">.*?<title>(.*?)<\/title>/gs)].map(
    ([, label]) => label as string,
  );
}

test('the trace page of a contended lock shows the messages and the queue of the lock', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  // The name contains characters that the page must escape.
  const name = unique('lock-<b>"');
  const etcd = openClient();
  const queued = async (count: number): Promise<void> => {
    await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(count);
  };
  const first = await new Mutex(await Session.open(etcd), name).lock();
  const lines = join(temporaryFolder(), 'trace.jsonl');
  const traced = new RunningCli(['trace', '--html', file, '--out', lines, '--', 'lock', name, '--', 'cat']);
  await queued(2);
  // If the lock is released before the watch begins, the client learns of it in another way.
  await expect.poll(() => readFileSync(lines, 'utf8')).toMatch(/"created": ?true/);
  const third = new Mutex(await Session.open(etcd), name).lock();
  await queued(3);
  await first.release();
  traced.process.stdin.end();
  expect(await traced.done).toMatchObject({ code: 0 });
  await (await third).release();

  expect(statSync(file).mode & 0o777).toBe(0o600);
  const page = readFileSync(file, 'utf8');
  expect(page).not.toContain('<b>"');
  expect(page).not.toMatch(/https?:\/\/(?!127)|src=|url\(/);
  // Only the script whose hash the page names may run.
  const [script, ...others] = [...page.matchAll(/<script>(.*?)<\/script>/gs)].map(([, text]) => text as string);
  expect(others).toEqual([]);
  const hash = createHash('sha256')
    .update(script as string)
    .digest('base64');
  expect(page).toContain(`script-src 'sha256-${hash}'; connect-src 'none'`);
  const shown = labels(page);
  const order = [
    'if my queue key does not exist: get the contender ahead and put my queue key',
    'applied: contender 1 is ahead',
    'watch the queue key of contender 1',
    'enters the queue',
    'leaves the queue',
    'the queue key of contender 1 was deleted',
    'get my queue key and get the contender ahead',
    'applied: found your queue key, no contender is ahead',
    'if my queue key still exists: delete my queue key',
    /^revoke lease [0-9a-f]+ and delete its keys$/,
  ];
  let at = -1;
  for (const label of order) {
    at = shown.findIndex(
      (each, index) => index > at && (typeof label === 'string' ? each === label : label.test(each)),
    );
    expect(at, `${label} in ${shown.join('\n')}`).toBeGreaterThanOrEqual(0);
  }
  const bars = [...page.matchAll(/<rect class="([a-z ]+)".*?<title>(.*?) for \d+ ms/g)].map(
    ([, kind, what]) => `${kind}: ${what}`,
  );
  expect(bars).toEqual([
    'holds: contender 1 holds the lock',
    'waits own: this client waits',
    'holds own: this client holds the lock',
    'waits: contender 2 waits',
    ...(bars.length > 4 ? ['holds: contender 2 holds the lock'] : []),
  ]);
  const held = shown.findIndex((label) => /^LOCK HELD, token \d+$/.test(label));
  expect(held).toBeGreaterThan(shown.indexOf('the queue key of contender 1 was deleted'));
  expect(shown.filter((label) => label.startsWith('LOCK HELD'))).toHaveLength(1);
  expect(page).toMatch(/Txn · stream \d+ · revision \d+ · \d+\.\d ms/);
  // The page also explains each byte of a message.
  expect(page).toContain('field 1, length-delimited: compare: etcdserverpb.Compare');
});

test('the trace page of an authenticated command contains no password and no token', async () => {
  const { endpoints } = await authEtcd();
  const file = join(temporaryFolder(), 'trace.html');
  const login = ['--user', `${USER.username}:${USER.password}`, '--plaintext-auth', '--endpoints', endpoints.join()];
  const { code } = await cli(['trace', '--html', file, '--', ...login, 'put', 'app/k', 'v']);
  expect(code).toBe(0);
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('--user user:…');
  expect(page).toContain('put app/k = v');
  const hex = Buffer.from(USER.password).toString('hex');
  for (const secret of [USER.password, hex, hex.replace(/..(?=.)/g, '$& ')]) expect(page).not.toContain(secret);
  expect(page).toContain('AuthenticateResponse');
  expect(page).not.toMatch(TOKEN);
});

test('the trace page does not contain a password in the request of the traced command', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const request = JSON.stringify({ name: unique(), password: 'hunter2secret' });
  await cli(['trace', '--html', file, '--', '--plaintext-auth', 'call', 'Auth/UserAdd', request]);
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('call Auth/UserAdd …');
  expect(page).not.toContain('hunter2secret');
});

test('the trace page shows the traced command with shell quoting, and a later trace with invalid arguments does not overwrite the page', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const command = ['lock', unique(), '--', 'sh', '-c', "echo 'a b'"];
  expect(await cli(['trace', '--html', file, '--', ...command])).toMatchObject({ code: 0 });
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('sh -c &#39;echo &#39;\\&#39;&#39;a b&#39;\\&#39;&#39;&#39;');
  expect(await cli(['trace', '--html', file, '--', 'get', '--bogus'])).toMatchObject({ code: 64 });
  expect(await cli(['trace', '--html', file, '--', 'bogus'])).toMatchObject({ code: 127 });
  expect(readFileSync(file, 'utf8')).toBe(page);
});

/** Traces a command, and returns what it printed and its page. */
async function traced(...args: readonly string[]) {
  const file = join(temporaryFolder(), 'trace.html');
  const result = await cli(['trace', '--html', file, '--', ...args]);
  return { ...result, file, page: readFileSync(file, 'utf8') };
}

test.each([
  [['user', 'add', 'NAME:hunter2secret']],
  [['user', 'add', '--endpoints', 'ENDPOINT', 'NAME:hunter2secret']],
  [['user', '-w', 'simple', 'add', 'NAME/x:hunter2secret']],
  [['user', 'add', 'NAME', '--new-user-password', 'hunter2secret']],
  [['user', 'add', 'NAME', '--new-user-password=hunter2secret']],
])('the trace page of %j contains no password', async (args) => {
  const { endpoints } = await ownEtcd();
  const name = unique();
  const given = args.map((arg) => arg.replace('NAME', name).replace('ENDPOINT', endpoints.join()));
  const { code, page } = await traced(...given, '--plaintext-auth', '--endpoints', endpoints.join());
  expect(code).toBe(0);
  expect(page).toContain(name);
  expect(page.includes('hunter2')).toBe(false);
  expect(page).not.toContain(Buffer.from('hunter2').toString('hex'));
  expect(page).not.toContain(
    Buffer.from('hunter2')
      .toString('hex')
      .replaceAll(/..(?=.)/g, '$& '),
  );
});

test('the trace page contains no part of a refused request with a password', async () => {
  const { code, page } = await traced('call', 'UserAdd', '{"name":"a","password":hunter2}');
  expect(code).toBe(65);
  expect(page).not.toContain('hunter2');
});

test('the trace page shows the refusal of a call, and the program prints the path of the page', async () => {
  const { code, stderr, file, page } = await traced('lease', 'revoke', '1');
  expect(code).toBe(1);
  expect(labels(page)).toContain('refused: etcdserver: requested lease not found');
  expect(page).toMatch(/LeaseRevoke · stream \d+ · \d+\.\d ms/);
  expect(stderr).toContain(`etcdwire: the trace is in ${file}\n`);
});

test('the trace page of an election shows a leadership, and no lock', async () => {
  const { page } = await traced('elect', unique('election'), 'anne', '--', 'true');
  expect(labels(page).filter((label) => /^LEADERSHIP HELD, token \d+$/.test(label))).toHaveLength(1);
  expect(page).not.toMatch(/the lock|LOCK/);
});

test('the trace page of a command without a queue has no column for it, and has words for common calls', async () => {
  const { page } = await traced('lease', 'timetolive', '1');
  expect(labels(page)).toEqual(['ask how long lease 1 lasts', 'the lease does not exist']);
  expect(page).not.toContain('>queue<');
});

test('the trace page of a command that cannot connect says why', async () => {
  const { code, page } = await traced('get', 'a', '--endpoints', 'http://127.0.0.1:1', '--command-timeout', '1s');
  expect(code).toBe(69);
  expect(page).toMatch(/<pre class="problems">etcdwire: .*ECONNREFUSED/);
});

test('the trace page of a large response leaves out the ends of values, and thousands of frames', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  for (let key = 0; key < 20; key += 1) await etcd.put(`large/${key}`, 'x'.repeat(1_000_000));
  const { code, page } = await traced('get', '--prefix', 'large/', '--endpoints', endpoints.join());
  expect(code).toBe(0);
  expect(page.length).toBeLessThan(300_000);
  expect(page).toMatch(/… \(1,000,000 bytes\)/);
  expect(page).toMatch(/[\d,]+ more frames, [\d,]+ bytes/);
});

test.each([
  [['trace', '--html', 'get', 'foo'], /--html: got "get", which is a command; .* trace --html trace.html -- get foo/],
  [['trace', 'get', 'foo', '--rev', '9'], /unknown option '--rev'.*-- get foo --rev 9/s],
])(
  'etcdwire %j fails with the correct command line, which contains `--`, and writes no file',
  async (args, message) => {
    const { code, stderr } = await cli(args);
    expect(code).toBe(64);
    expect(stderr).toMatch(message);
    expect(existsSync('get')).toBe(false);
  },
);

test('the trace page shows the bytes around a message, the windows, and the dynamic table of HPACK', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  await cli(['trace', '--html', file, '--', 'put', unique('key'), 'value']);
  const page = readFileSync(file, 'utf8');
  for (const shown of [
    /type of the frame: DATA/,
    /flags: END_STREAM/,
    /length of the message: \d+ bytes/,
    /After these \d+ bytes, the client may send [\d,]+ bytes on the connection\. It sends no more on stream 1\./,
    /After these \d+ bytes, etcd may send [\d,]+ bytes on the connection and [\d,]+ bytes on stream 1\./,
    /Now etcd may send [\d,]+ bytes on each new stream\./,
    /The dynamic table of etcd after this frame:.*?<td>62<\/td>/s,
    // The field of the JSON and its bytes have the same path.
    /<span data-path="key">.*?<tr class="tag" data-path="key">/s,
  ])
    expect(shown.test(page), String(shown)).toBe(true);
});

test('`trace --beside` shows the frames of another client beside those of etcdwire', async (context) => {
  const etcdctl = inject('etcdctl');
  if (etcdctl === undefined) return context.skip('there is no etcdctl for the server under test');
  const file = join(temporaryFolder(), 'trace.html');
  const name = unique('lock');
  const other = `${etcdctl} lock ${name} -- sh -c 'echo held by Go'`;
  const { code, stdout, stderr } = await cli([
    'trace',
    '--html',
    file,
    '--beside',
    other,
    '--',
    'lock',
    name,
    '--',
    'true',
  ]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
  expect(stderr).toContain('held by Go');
  const page = readFileSync(file, 'utf8');
  const sides = [0, 1].map((trace) =>
    page.replaceAll(new RegExp(`<(details|div)[^>]* data-key="${1 - trace} .*?</svg>`, 'gs'), ''),
  );
  const [first = '', second = ''] = sides;
  expect(labels(first)).toContain('if my queue key does not exist: get the contender ahead and put my queue key');
  expect(labels(second)).toContain('if my queue key does not exist: put my queue key and get the holder');
  for (const diagram of [first, second]) expect(labels(diagram)).toContainEqual(expect.stringMatching(/^LOCK HELD/));
  expect(page).toMatch(/<th>requests<\/th><td>\d+<\/td><td>\d+<\/td>/);
});

test('`trace --beside` shows no password of the other command, and ends it with a signal', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const secrets = `P_PASSWORD='s1 x' ETCDCTL_USER=root:s2 true --password  "s3 y" --user 'root:s4 z' user add a:s5`;
  const other = `${secrets}; echo begins; sleep 60; true`;
  const traced = new RunningCli(['trace', '--html', file, '--beside', other, '--', 'get', unique('key')]);
  await traced.stderrMatches(/begins/);
  traced.process.kill('SIGTERM');
  const { code, stderr } = await traced.done;
  expect(code).toBe(143);
  for (const shown of [stderr, readFileSync(file, 'utf8')])
    expect(/s1 x|:s2|s3 y|s4 z|:s5/.exec(shown)?.[0]).toBeUndefined();
});

test('`trace --beside` does not run the other command when the traced command has not connected or was interrupted', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const trace = ['trace', '--serve', '--html', file, '--beside', 'echo $((6 * 7))', '--endpoints'];
  const refused = await cli([...trace, 'http://127.0.0.1:1', '--', 'lock', unique('lock'), '--', 'true']);
  expect(refused).toMatchObject({ code: 69, stderr: expect.stringContaining('has connected to no endpoint') });
  const traced = new RunningCli([...trace.slice(0, -1), '--', 'watch', unique('key')]);
  await traced.stderrMatches(/the trace is at/);
  traced.process.kill('SIGINT');
  expect(await traced.done).toMatchObject({ code: 130, stderr: expect.not.stringMatching(/^42$/m) });
  expect(readFileSync(file, 'utf8')).toContain('Exit code 130');
});

test('a live trace of many messages leaves out the frames in the middle', async () => {
  const key = unique('key');
  const etcd = openClient();
  const traced = new RunningCli(['trace', '--serve', '--', 'watch', key]);
  const url = await traced.stderrMatch(/the trace is at (\S+)/);
  const content = async (): Promise<string> => (await fetch(`${url}content?changed`)).text();
  await expect.poll(content).toContain('watch created');
  for (let put = 0; put < 600; put += 1) await etcd.put(key, `${put}`);
  await expect.poll(content).toMatch(/\d+ frames between them are left out/);
  await expect.poll(content).toContain(`${key} = 599`);
  expect(await content()).toContain(`watch ${key}`);
  traced.process.kill('SIGINT');
  expect(await traced.done).toMatchObject({ code: 130 });
});

test('`trace --beside` reports that the other client failed, and exits with exit code 1', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const result = await cli(['trace', '--html', file, '--beside', 'exit 7', '--', 'get', unique('key')]);
  expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining('exit 7 ended with exit code 7') });
  expect(existsSync(file)).toBe(true);
});

test('`trace --serve` shows the trace while the command runs, only to those who know the URL', async () => {
  const name = unique('lock');
  const traced = new RunningCli(['trace', '--serve', '--', 'lock', name, '--', 'cat']);
  const url = await traced.stderrMatch(/the trace is at (http:\/\/127\.0\.0\.1:\d+\/[\w-]{24}\/)/);
  await expect.poll(async () => (await fetch(`${url}content?changed`)).text()).toContain('LOCK HELD, token');
  const content = await (await fetch(`${url}content?changed`)).text();
  expect(content).toMatch(/Runs for [\d.]+ s\./);
  expect(await (await fetch(url)).text()).toContain("connect-src 'self'");
  expect((await fetch(new URL('/', url))).status).toBe(404);
  expect((await fetch(url.replace('127.0.0.1', 'localhost'))).status).toBe(404);
  const changes = await fetch(`${url}changes`);
  traced.process.stdin.end();
  const reader = (changes.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  for (let last = ''; !last.includes('data: end'); last = (await reader.read()).value ?? 'data: end');
  expect(await (await fetch(`${url}content?end`)).text()).toContain('Exit code 0');
  expect(await traced.done).toMatchObject({ code: 0 });
});
