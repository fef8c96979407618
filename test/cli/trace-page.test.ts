import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { prefix } from '../../src/index.js';
import { authEtcd, TOKEN, USER } from '../support/auth-etcd.js';
import { cli, RunningCli } from '../support/cli.js';
import { openClient, unique } from '../support/client.js';
import { temporaryFolder } from '../support/temporary-folder.js';

/** What the arrows say, those of frames without messages left out. */
function labels(page: string): string[] {
  return [...page.matchAll(/<g class="(?:message|seen)">.*?<title>(.*?)<\/title>/gs)].map(
    ([, label]) => label as string,
  );
}

test('the page of a contended lock tells who said what, and how the queue moved', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  // A name that would be markup.
  const name = unique('lock-<b>"');
  const etcd = openClient();
  const queued = async (count: number): Promise<void> => {
    await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(count);
  };
  const first = await new Mutex(await Session.open(etcd), name).lock();
  const traced = new RunningCli(['trace', '--html', file, '--', 'lock', name, '--', 'cat']);
  await queued(2);
  const third = new Mutex(await Session.open(etcd), name).lock();
  await queued(3);
  await first.release();
  traced.process.stdin.end();
  expect(await traced.done).toMatchObject({ code: 0 });
  await (await third).release();

  expect(statSync(file).mode & 0o777).toBe(0o600);
  const page = readFileSync(file, 'utf8');
  expect(page).not.toContain('<b>"');
  expect(page).not.toMatch(/<script|https?:\/\/(?!127)|src=|url\(/);
  const told = labels(page);
  const order = [
    'if I am not in line: who is ahead? put me in line',
    'done: contender 1 is ahead',
    'tell me when contender 1 leaves',
    'gets in line',
    'leaves',
    'contender 1 has left',
    'am I in line? who is ahead?',
    'done: you are in line, nobody is ahead',
    'if I am still in line: take me out of the line',
    /^end lease [0-9a-f]+, and its keys$/,
  ];
  let at = -1;
  for (const label of order) {
    at = told.findIndex((each, index) => index > at && (typeof label === 'string' ? each === label : label.test(each)));
    expect(at, `${label} in ${told.join('\n')}`).toBeGreaterThanOrEqual(0);
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
  // Each byte of a message, in words.
  expect(page).toContain('field 1, length-delimited: compare: etcdserverpb.Compare');
});

test('no password or token is on the page', async () => {
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

test('no password that a call is given is on the page', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const request = JSON.stringify({ name: unique(), password: 'hunter2secret' });
  await cli(['trace', '--html', file, '--', 'call', 'Auth/UserAdd', request]);
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('call Auth/UserAdd …');
  expect(page).not.toContain('hunter2secret');
});

test('the page shows the command as a shell takes it, and what cannot be run leaves an older page alone', async () => {
  const file = join(temporaryFolder(), 'trace.html');
  const command = ['lock', unique(), '--', 'sh', '-c', "echo 'a b'"];
  expect(await cli(['trace', '--html', file, '--', ...command])).toMatchObject({ code: 0 });
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('sh -c &#39;echo &#39;\\&#39;&#39;a b&#39;\\&#39;&#39;&#39;');
  expect(await cli(['trace', '--html', file, '--', 'bogus'])).toMatchObject({ code: 64 });
  expect(readFileSync(file, 'utf8')).toBe(page);
});
