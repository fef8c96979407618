import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, test } from 'vitest';
import { Authority } from '../../packages/cli/src/proxy/authority.js';
import { canary } from '../support/canaries.js';
import { cli, RunningCli } from '../support/cli.js';
import { temporaryFolder } from '../support/temporary-folder.js';

// Gives etcdwire one secret in each place where a user can give one, and searches standard output, standard error and
// all written files for it. The folder that a command writes to contains nothing else.

const SECRET = canary('secret');
const ENDPOINT = inject('endpoints')[0] as string;
const NOWHERE = 'http://127.0.0.1:1';

/** The beginning of the secret as text, in hexadecimal, and in Base64. */
const FORMS = ((text) => [
  text,
  Buffer.from(text).toString('hex'),
  Buffer.from(text)
    .toString('hex')
    .replaceAll(/..(?=.)/g, '$& '),
  Buffer.from(text).toString('base64').slice(0, 12),
  Buffer.from(`root:${text}`).toString('base64').slice(8, 18),
])(SECRET.slice(0, 10));

function leaksIn(texts: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(texts).flatMap(([name, text]) =>
    FORMS.filter((form) => text.includes(form)).map((form) => {
      const at = text.indexOf(form);
      return `${name}: ${text.slice(Math.max(0, at - 60), at + 40)}`;
    }),
  );
}

/** Makes requests in all protocols, with the secret of the variable `CANARY` in all places, to the first argument. */
const REQUESTS = `
import http2 from 'node:http2';
import { request } from 'node:http';
const [url] = process.argv.slice(2);
const secret = process.env.CANARY;
const headers = {
  authorization: 'Bearer ' + secret, cookie: 'token=' + secret, 'grpc-metadata-token': secret,
  'grpc-metadata-authorization': secret, 'proxy-authorization': 'Basic ' + btoa('root:' + secret),
  'x-auth-token': secret, referer: 'http://root:' + secret + '@a/?token=' + secret, token: secret,
};
const http1 = (path, body, more = {}) => new Promise((resolve) => {
  const sent = request(url + path, { method: body === undefined ? 'GET' : 'POST', headers: { ...headers, ...more } }, (answer) => answer.resume().on('close', resolve));
  sent.on('upgrade', (_, socket) => { socket.on('error', resolve).write('{"password":"' + secret + '"}'); socket.end(); socket.on('close', resolve); });
  sent.on('error', resolve).on('close', resolve).end(body);
});
const login = JSON.stringify({ name: 'nobody', password: secret });
await http1('/v3/kv/range', '{"key":"YQ=="}');
await http1('/v3/kv/range?password=' + secret, '{"key":"YQ=="}');
for (const path of ['authenticate', 'user/changepw', 'use%72/changepw']) await http1('/v3/auth/' + path, login);
await http1('/v3/auth/authenticate', '{"name":"nobody","password":' + secret + '}');
await http1('/v3/auth/authenticate', JSON.stringify({ name: 'nobody', hashed_password: secret }));
await http1('/v3/watch?method=POST&token=' + secret, undefined, {
  connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==', 'sec-websocket-protocol': 'Bearer, ' + secret,
});
const field = (tag, text) => Buffer.concat([Buffer.from([tag, text.length]), Buffer.from(text)]);
const message = (bytes) => { const prefix = Buffer.alloc(5); prefix.writeUInt32BE(bytes.length, 1); return Buffer.concat([prefix, bytes]); };
const session = http2.connect(url);
session.on('error', () => {});
const call = (path, bytes) => new Promise((resolve) => {
  const { 'proxy-authorization': _, ...fields } = headers;
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...fields });
  stream.on('error', () => {}).on('close', resolve).resume().end(bytes);
});
await call('/etcdserverpb.KV/Range', message(field(0x0a, 'a')));
await call('/etcdserverpb.Auth/Authenticate', message(Buffer.concat([field(0x0a, 'nobody'), field(0x12, secret)])));
await call('/etcdserverpb.Auth/UserChangePassword', message(Buffer.concat([field(0x0a, 'nobody'), field(0x12, secret)])));
await call('/v3/auth/authenticate?password=' + secret, Buffer.from(login));
session.close();
`;

test('traces, recordings, pages and replays of a program show none of its secrets', async () => {
  const [program, folder] = [join(temporaryFolder(), 'requests.mjs'), temporaryFolder()];
  writeFileSync(program, REQUESTS);
  const file = (name: string): string => join(folder, name);
  const environment = { CANARY: SECRET };
  const traced = [process.execPath, program, '{endpoints}', '-u', `root:${SECRET}`, '-H', `Authorization: ${SECRET}`];
  const run = (...args: string[]) => cli(args, { environment });
  const files = ['--html', file('trace.html'), '--out', file('trace.json'), '--record', file('traffic.pcapng')];
  const shown: Record<string, string> = {};
  const add = (name: string, { stdout, stderr }: { readonly stdout: string; readonly stderr: string }): void => {
    shown[name] = stdout + stderr;
  };
  const trace = await run('trace', ...files, '--', ...traced);
  expect(trace).toMatchObject({ code: 0 });
  add('trace', trace);
  add('trace as text', await run('trace', '--', ...traced));
  for (const flags of [[], ['--frames'], ['-w', 'json'], ['--frames', '-w', 'json'], ['--html', file('show.html')]])
    add(`show ${flags.join(' ')}`, await run('show', file('traffic.pcapng'), ...flags));
  add('replay', await run('replay', file('traffic.pcapng')));
  add('replay --test', await run('replay', file('traffic.pcapng'), '--test', file('replay.test.ts')));
  const names = readdirSync(folder);
  expect(names.toSorted()).toEqual(['replay.test.ts', 'show.html', 'trace.html', 'trace.json', 'traffic.pcapng']);
  for (const name of names) shown[name] = readFileSync(file(name), 'latin1');
  expect(leaksIn(shown)).toEqual([]);
  // The requests themselves are there.
  expect(shown['show -w json']).toContain('AuthenticateRequest');
  expect(shown['trace.html']).toContain('KV/Range');
});

test('a proxy with a live page shows none of the secrets of its clients', async () => {
  const folder = temporaryFolder();
  const program = join(temporaryFolder(), 'requests.mjs');
  writeFileSync(program, REQUESTS);
  const proxy = new RunningCli([
    'proxy',
    '--serve',
    '--frames',
    '--record',
    join(folder, 'traffic'),
    '--endpoints',
    ENDPOINT,
  ]);
  const page = await proxy.stderrMatch(/the traffic is at (\S+)/);
  const url = await proxy.stderrMatch(/ETCDCTL_ENDPOINTS=(\S+)/);
  await promisify(execFile)(process.execPath, [program, url], { env: { ...process.env, CANARY: SECRET } });
  const live = await (await fetch(page)).text();
  expect(live).toContain('AuthenticateRequest');
  proxy.process.kill('SIGTERM');
  const { stdout, stderr } = await proxy.done;
  const file = readFileSync(join(folder, 'traffic'), 'latin1');
  expect(leaksIn({ live, stdout, stderr, file })).toEqual([]);
});

/** Commands with the secret, by the place of the secret. All of them fail, because nothing listens at `NOWHERE`. */
const COMMANDS: Readonly<
  Record<string, { readonly args: readonly string[]; readonly environment?: object; readonly stdin?: string }>
> = {
  'an endpoint': { args: ['get', 'a', '--endpoints', `http://root:${SECRET}@127.0.0.1:1`] },
  'an endpoint without a scheme': { args: ['get', 'a', '--endpoints', `root:${SECRET}@127.0.0.1:1`] },
  'the query of an endpoint': { args: ['get', 'a', '--endpoints', `${NOWHERE}/?token=${SECRET}`] },
  'an endpoint in the environment': {
    args: ['get', 'a'],
    environment: { ETCDCTL_ENDPOINTS: `http://u:${SECRET}@a:1` },
  },
  '--user': { args: ['get', 'a', '--user', `root:${SECRET}`] },
  '--user with --plaintext-auth': { args: ['get', 'a', '--user', `root:${SECRET}`, '--plaintext-auth'] },
  '--password': { args: ['get', 'a', '--user', 'root', `--password=${SECRET}`, '--plaintext-auth'] },
  'a misspelt --password': { args: ['get', 'a', '--user', 'root', `--pasword=${SECRET}`] },
  'an attached option': { args: ['get', 'a', `-uroot:${SECRET}`] },
  ETCDCTL_USER: { args: ['get', 'a'], environment: { ETCDCTL_USER: `root:${SECRET}` } },
  ETCDCTL_PASSWORD: { args: ['get', 'a', '--user=root'], environment: { ETCDCTL_PASSWORD: SECRET } },
  'user add': { args: ['user', 'add', `ann:${SECRET}`] },
  'user add --new-user-password': { args: ['user', 'add', 'ann', '--new-user-password', SECRET, '--plaintext-auth'] },
  'user passwd': { args: ['user', 'passwd', 'ann', '--interactive=false'], stdin: `${SECRET}\n` },
  'call with malformed JSON': { args: ['call', 'UserAdd', `{"name":"a","password":${SECRET}}`] },
  'call with an unknown field': { args: ['call', 'UserAdd', `{"name":"a","pasword":"${SECRET}"}`] },
  'call Authenticate': { args: ['call', 'Authenticate', `{"name":"a","password":"${SECRET}"}`, '--plaintext-auth'] },
  '--listen': { args: ['proxy', '--listen', `http://root:${SECRET}@127.0.0.1:0`] },
  '--dest-user': { args: ['make-mirror', NOWHERE, '--dest-user', `root:${SECRET}`, '--dest-plaintext-auth'] },
  'a peer URL': { args: ['member', 'add', 'm', `--peer-urls=http://root:${SECRET}@127.0.0.1:1`] },
  'the command of lock': { args: ['lock', 'l', '--', 'env', `ETCDCTL_PASSWORD=${SECRET}`, 'true'] },
  'a program that does not exist': { args: ['trace', '--', 'no-such-program', '-u', `root:${SECRET}`] },
  'a program without a connection': { args: ['trace', '--', 'true', '-u', `root:${SECRET}`] },
  'the file of --html': { args: ['trace', '--html', 'get', '--', 'a', '--password', SECRET] },
  'a trace without --': { args: ['trace', 'get', 'a', '--command-timeout', '1s', `--token=${SECRET}`] },
};

test('no command prints a secret from its flags, its environment, its input or its files', async () => {
  const { key } = await (await Authority.create()).issue();
  const folder = temporaryFolder();
  const [secretKey, cert] = [join(folder, 'key'), join(folder, 'cert')];
  // A key with the secret in its text, which no parser accepts.
  writeFileSync(secretKey, key.replace('\n', `\n${SECRET}\n`));
  writeFileSync(cert, SECRET);
  const tls = ['--cert', cert, '--key', secretKey, '--endpoints', 'https://127.0.0.1:1'];
  const commands = {
    ...COMMANDS,
    '--key': { args: ['get', 'a', ...tls] },
    '--cacert': { args: ['get', 'a', '--cacert', cert] },
  };
  const shown: Record<string, string> = {};
  for (const [name, { args, environment, stdin }] of Object.entries<(typeof COMMANDS)[string]>(commands)) {
    const variables = {
      ETCDCTL_ENDPOINTS: NOWHERE,
      ETCDCTL_DIAL_TIMEOUT: '200ms',
      ETCDCTL_COMMAND_TIMEOUT: '300ms',
      ETCDCTL_DEBUG: 'true',
      ...environment,
    };
    const { stdout, stderr } = await cli(args, { environment: variables, stdin: stdin ?? '' });
    shown[name] = stdout + stderr;
    expect(shown[name], name).not.toBe('');
  }
  expect(leaksIn(shown)).toEqual([]);
});
