import { execFile } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, inject, test } from 'vitest';
import { debianProgram } from '../../../scripts/programs.js';
import { authEtcd, TOKEN, USER } from '../../../test/support/auth-etcd.js';
import { cli, PROGRAM, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { errorOf } from '../../../test/support/errors.js';
import { goProgram } from '../../../test/support/go-program.js';
import { putsSince } from '../../../test/support/puts-since.js';
import { startProxy } from '../../../test/support/recordings.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { HERE, SecureEtcd } from '../../../test/support/tls/secure-etcd.js';
import { tlsPeer } from '../../../test/support/tls/tls-peer.js';
import { Authority } from '../src/proxy/authority.js';

const execute = promisify(execFile);
const etcdctlPath = inject('etcdctl') as string;
/** Says why a test that needs etcdctl is skipped. */
const NO_ETCDCTL = etcdctlPath === undefined ? 'etcdctl is missing on this machine' : undefined;

/** Runs etcdctl. Resolves with its output and its exit code. */
async function etcdctl(
  environment: Readonly<Record<string, string>>,
  ...args: string[]
): Promise<{ readonly stdout: string; readonly stderr: string; readonly code: number }> {
  const env = { ...process.env, ...environment };
  return await execute(etcdctlPath, args, { env, timeout: 20_000 }).then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    ({ stdout, stderr, code }) => ({ stdout, stderr, code }),
  );
}

test('etcdwire proxy shows the messages of etcdctl, and `show` prints its recording', async ({ skip }) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const key = unique();
  const { url, stop } = await startProxy(['--record', file]);
  const environment = { ETCDCTL_ENDPOINTS: url };
  expect(await etcdctl(environment, 'put', key, 'seen')).toMatchObject({ code: 0, stdout: 'OK\n' });
  expect((await etcdctl(environment, 'get', key, '--print-value-only')).stdout).toBe('seen\n');
  expect((await etcdctl(environment, 'lock', `${key}-lock`, 'true')).code).toBe(0);
  const { code, stdout, stderr } = await stop();
  expect(code).toBe(0);
  expect(stdout).toMatch(
    new RegExp(`grpc-go/\\S+ \\(127\\.0\\.0\\.1:\\d+\\) {2}> put ${key} = seen  · Put · stream 1\n`),
  );
  expect(stdout).toMatch(/ < put applied {2}· Put · stream 1 · revision \d+ · [\d.]+ ms\n/);
  expect(stdout).toContain(`> get ${key}`);
  expect(stderr).toMatch(/connections: 3, requests: \d+\n/);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const shown = await cli(['show', file]);
  const withoutTimes = (text: string) => text.replace(/^ *[\d.]+ ms/gm, '').replace(/ · [\d.]+ ms$/gm, '');
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(withoutTimes(shown.stdout)).toBe(withoutTimes(stdout));

  const filtered = await cli(['show', file, '--rpc', 'Txn,Put', '--prefix', `${key}-lock`]);
  expect(filtered.stdout.split('\n').filter((line) => line.includes(' > '))).toHaveLength(1);
  const page = join(temporaryFolder(), 'traffic.html');
  expect((await cli(['show', file, '--html', page])).code).toBe(0);
  expect(readFileSync(page, 'utf8')).toContain(`put ${key} = seen`);
});

test('`show` puts two recordings beside one another, and its page says what became of a put whose answer was cut off', async ({
  skip,
}) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const key = unique();
  const folder = temporaryFolder();
  const recorded = async (name: string, ...args: string[]): Promise<string> => {
    const file = join(folder, name);
    const { url, stop } = await startProxy(['--quiet', '--record', file, ...args]);
    await etcdctl({ ETCDCTL_ENDPOINTS: url }, 'put', key, 'v', '--command-timeout=2s');
    await stop();
    return file;
  };
  const files = [await recorded('whole'), await recorded('lost', '--fault', 'drop-answer rpc=Put')];
  expect(await cli(['show', ...files])).toMatchObject({ code: 64, stderr: expect.stringContaining('--html') });
  const file = join(folder, 'page.html');
  expect((await cli(['show', ...files, '--html', file])).code).toBe(0);
  const page = readFileSync(file, 'utf8');
  expect(page).toContain('Calls and messages that differ: 1 of 1.');
  expect(page.match(/class="pair differs" id="first-difference"/g)).toHaveLength(1);
  expect(page).toContain(
    '<b>Outcome: applied.</b> An answer without an error has begun, so etcd has applied the request. The client may not know this. Remedy for <code>ConnectionLost</code>: If <code>unknown</code>, check',
  );
  expect((await cli(['show', files[0] as string, files[0] as string, '--html', file])).code).toBe(0);
  expect(readFileSync(file, 'utf8')).toContain(
    'Both traces have the same calls and messages, with the same answers: 1.',
  );
});

test('etcdwire proxy and `show` print each call whose connection closes within the answer', async ({ skip }) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const key = unique();
  const { url, stop } = await startProxy(['--record', file, '--fault', 'drop-answer rpc=Put']);
  await etcdctl({ ETCDCTL_ENDPOINTS: url }, 'put', key, 'v', '--command-timeout=2s');
  const { stdout } = await stop();
  const lost =
    / {2}1 {3}grpc-go\S+ \(\S+\) {2}< the connection closes within the answer {2}· Put · stream 1 · [\d.]+ ms · outcome applied\n/;
  expect(stdout).toMatch(lost);
  for (const filter of [[], ['--rpc', 'Put'], ['--prefix', key], ['--connection', '1']])
    expect((await cli(['show', file, ...filter])).stdout).toMatch(lost);
  expect((await cli(['show', file, '--rpc', 'Range'])).stdout).toBe('');
  expect((await cli(['show', file, '--frames'])).stdout).toMatch(/^ *[\d.]+ ms {5}1 {6}CLOSED$/m);
  const lines = (await cli(['show', file, '-w', 'json'])).stdout.trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toContainEqual({
    ms: expect.any(Number),
    connection: 1,
    type: 'CLOSED',
  });
});

/** The first run may have to get tshark from a Debian package. */
const TSHARK_TIMEOUT_MS = 200_000;

test('Wireshark decodes the gRPC calls in a recording of etcdwire proxy', { timeout: TSHARK_TIMEOUT_MS }, async ({
  skip,
}) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const tshark = await debianProgram('tshark', 'tshark').catch((error: Error) => error);
  if (tshark instanceof Error) return skip(`tshark is missing: ${tshark.message}`);
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const { url, stop } = await startProxy(['--record', file, '--quiet']);
  await etcdctl({ ETCDCTL_ENDPOINTS: url }, 'put', unique(), 'seen');
  expect(await stop()).toMatchObject({ code: 0, stdout: '' });
  const port = new URL(inject('endpoints')[0] as string).port;
  const decode = ['-r', file, '-d', `tcp.port==${port},http2`, '-T', 'fields'];
  const options = { env: tshark.environment, timeout: 60_000 };
  const fields = ['-Y', 'http2', '-e', 'http2.headers.path', '-e', 'http2.headers.status'];
  const { stdout } = await execute(tshark.path, [...decode, ...fields], options);
  expect(stdout).toContain('/etcdserverpb.KV/Put');
  const malformed = await execute(
    tshark.path,
    [...decode, '-Y', '_ws.malformed || tcp.analysis.flags', '-e', 'frame.number'],
    options,
  );
  expect(malformed.stdout).toBe('');
});

test('etcdwire proxy ends TLS on both sides, and its output contains no password and no token', async ({ skip }) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const { root, endpoints } = await authEtcd();
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const { proxy, url, stop } = await startProxy(['--listen', 'https://127.0.0.1:0', '--record', file, '--frames'], {
    ETCDCTL_ENDPOINTS: endpoints[0] as string,
  });
  const ca = await proxy.stderrMatch(/export ETCDCTL_CACERT=(\S+)/);
  const environment = {
    ETCDCTL_ENDPOINTS: url,
    ETCDCTL_CACERT: ca,
    ETCDCTL_USER: `${USER.username}:${USER.password}`,
  };
  const { code, stderr } = await etcdctl(environment, 'put', 'app/k', 'v');
  if (code !== 0 && /certificate/.test(stderr)) skip(stderr);
  expect(code).toBe(0);
  expect(await root.get('app/k')).toBeDefined();
  const { stdout } = await stop();
  const shown = await cli(['show', file, '--frames']);
  for (const text of [stdout, shown.stdout, readFileSync(file, 'latin1')]) {
    expect(text).not.toContain(USER.password);
    expect(text).not.toMatch(TOKEN);
  }
  expect(shown.stdout).toContain('token: (not shown)');
  expect(shown.stdout).toContain('PutRequest {"key":"app/k","value":"v"}');
});

test('etcdwire proxy connects to a member with TLS, and names a client by its certificate', async ({ skip }) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const authority = await Authority.create();
  const server = await SecureEtcd.start(await authority.issue(HERE), authority);
  if (server === undefined) return skip('the server of this run has no TLS');
  const folder = temporaryFolder();
  const client = await authority.issue({ commonName: 'orders-service' });
  const listening = await authority.issue(HERE);
  const path = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const ca = path('ca.pem', authority.cert);
  const [cert, key] = [path('client.pem', client.cert), path('client.key', client.key)];
  const files = ['--cacert', ca, '--cert', cert, '--key', key, '--endpoints', server.endpoint];
  const listen = ['--listen', 'https://127.0.0.1:0', '--listen-cacert', ca];
  const own = ['--listen-cert', path('own.pem', listening.cert), '--listen-key', path('own.key', listening.key)];
  const { url, stop } = await startProxy([...files, ...listen, ...own]);
  const tls = { ETCDCTL_ENDPOINTS: url, ETCDCTL_CACERT: ca, ETCDCTL_CERT: cert, ETCDCTL_KEY: key };
  expect(await etcdctl(tls, 'put', 'k', 'v')).toMatchObject({ code: 0 });
  expect((await stop()).stdout).toMatch(/orders-service \(127\.0\.0\.1:\d+\) {2}> put k = v/);
  await server.stop();
});

test.each([
  ['has another name', false, { names: ['etcd.example'] }, /altnames/],
  ['contains the name only as its common name', false, { commonName: 'localhost' }, /altnames/],
  ['is from an unknown authority', true, HERE, /unable to|self.signed/],
])(
  'etcdwire proxy refuses a member whose certificate %s, even if `NODE_TLS_REJECT_UNAUTHORIZED` is 0',
  async (_, isOther, certificate, says) => {
    const [authority, other] = [await Authority.create(), await Authority.create('another authority')];
    const peer = await tlsPeer(await (isOther ? other : authority).issue(certificate));
    const ca = join(temporaryFolder(), 'ca.pem');
    writeFileSync(ca, authority.cert);
    const member = peer.endpoint.replace('127.0.0.1', 'localhost');
    const { proxy, url } = await startProxy(['--cacert', ca, '--endpoints', member], {
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    });
    const own = readFileSync(await proxy.stderrMatch(/export ETCDCTL_CACERT=(\S+)/));
    const error = await errorOf(
      openClient({ endpoints: [url], tls: { ca: own } }).put('k', 'secret', { timeoutMs: 2_000 }),
    );
    expect(error).toMatchObject({ outcome: 'not-sent' });
    await proxy.stderrMatch(new RegExp(`cannot connect to ${member}: .*(?:${says.source})`));
    expect(peer.heard()).toBe('');
  },
);

test('etcdwire proxy shows the requests of the JSON gateway', async ({ skip }) => {
  const { url, stop } = await startProxy();
  const key = unique();
  const body = JSON.stringify({ key: btoa(key), value: btoa('v') });
  const response = await fetch(`${url}/v3/kv/put`, { method: 'POST', body }).catch((error: Error) => error);
  if (response instanceof Error) return skip(response.message);
  expect(response.status).toBe(200);
  await response.text();
  const { stdout } = await stop();
  expect(stdout).toMatch(new RegExp(`> put ${key} = v`));
  expect(stdout).toContain('< put applied');
});

test('etcdwire proxy shows a gateway request with line breaks, and an answer that ends with its connection', async () => {
  const file = join(temporaryFolder(), 'traffic.pcapng');
  const { url, stop } = await startProxy(['--record', file, '--fault', 'refuse rpc=DeleteRange']);
  const key = unique();
  /** Makes a request of HTTP/1.0, whose answer ends with the connection. */
  const post = async (path: string, fields: object): Promise<string> => {
    const body = JSON.stringify(fields, undefined, 2);
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write(`POST ${path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return (await socket.setEncoding('latin1').toArray()).join('');
  };
  const refused = fetch(`${url}/v3/kv/deleterange`, {
    method: 'POST',
    body: JSON.stringify({ key: btoa(key) }, undefined, 2),
  });
  expect((await refused).status).toBe(503);
  expect(await post('/v3/kv/put', { key: btoa(key), value: btoa('v'.repeat(20_000)) })).toMatch(/^HTTP\/1.. 200 /);
  expect(await post('/v3/kv/range', { key: btoa(key) })).toContain(btoa(key));
  const { stdout } = await stop();
  for (const text of [stdout, (await cli(['show', file])).stdout]) {
    for (const line of [`> put ${key} = v`, '< put applied', `> get ${key}`, '· Range · ', '· DeleteRange · '])
      expect(text).toContain(line);
    expect(text).not.toContain('the connection closes before the answer');
  }
});

test.for([
  ['cut rpc=Put', { applied: 0, fails: true }],
  ['refuse rpc=Put', { applied: 0, fails: true }],
  ['drop-answer rpc=KV/Put', { applied: 1, fails: true }],
  ['duplicate rpc=Put', { applied: 2, fails: false }],
  ['delay=300ms rpc=Put', { applied: 1, fails: false }],
  ['silent rpc=Put', { applied: 0, fails: true }],
] as const)(
  'etcdwire proxy with the fault "%s" causes it for the chosen key only',
  async ([fault, { applied, fails }], { skip }) => {
    if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
    const key = unique();
    const puts = await putsSince(key);
    const { url, stop } = await startProxy(['--fault', `${fault} prefix=${key}/`]);
    const environment = { ETCDCTL_ENDPOINTS: url };
    expect((await etcdctl(environment, 'put', `${key}-other`, 'v')).code).toBe(0);
    const { code } = await etcdctl(environment, 'put', `${key}/k`, 'v', '--command-timeout=2s');
    expect(code !== 0).toBe(fails);
    const version = async () => Number((await openClient().get(`${key}/k`))?.version ?? 0n);
    await expect.poll(version).toBeGreaterThanOrEqual(applied);
    expect((await stop()).stderr).toContain(`fault: ${fault} prefix=${key}/\n`);
    expect(await puts()).toEqual([`${key}-other`, ...Array(applied).fill(`${key}/k`)]);
  },
);

test('the page of etcdwire proxy turns faults on and off', async () => {
  const { proxy, url, stop } = await startProxy(['--serve', '--quiet']);
  const page = await proxy.stderrMatch(/the traffic is at (\S+)/);
  const key = unique();
  const etcd = openClient({ endpoints: [url], timeoutMs: 2_000 });
  await etcd.put(key, '1');
  const post = (body: string) => fetch(`${page}faults`, { method: 'POST', body });
  expect((await post('explode')).status).toBe(400);
  expect((await post(`refuse rpc=Range prefix=${key} times=100`)).status).toBe(204);
  expect(await (await fetch(page)).text()).toContain(`<code>refuse rpc=Range prefix=${key} times=100</code>`);
  await expect(etcd.get(key)).rejects.toThrow('a fault refuses this request');
  expect((await post('')).status).toBe(204);
  expect((await etcd.get(key))?.text()).toBe('1');
  const shown = await (await fetch(page)).text();
  expect(shown).toContain(`put ${key} = 1`);
  expect(shown).not.toContain('Fault on');
  await etcd.close();
  await stop();
});

test.each([
  ['--fault', 'explode', 'explode'],
  ['--fault', 'delay', 'delay=DURATION'],
  ['--fault', 'cut rpc=Putt', 'rpc=Putt'],
  ['--rpc', 'Putt', 'Putt'],
  ['--listen', 'nowhere', 'nowhere'],
])('etcdwire proxy %s %s exits with exit code 64 and names the argument', async (flag, value, words) => {
  const { code, stderr } = await cli(['proxy', flag, value]);
  expect(code).toBe(64);
  expect(stderr).toContain(flag);
  expect(stderr).toContain(words);
});

test('etcdwire show exits with exit code 65 when the file is not a capture', async () => {
  expect(await cli(['show', import.meta.filename])).toMatchObject({
    code: 65,
    stderr: expect.stringContaining('pcapng'),
  });
});

test('etcdwire trace shows the messages of etcdctl, and exits with its exit code', async ({ skip }) => {
  if (NO_ETCDCTL !== undefined) return skip(NO_ETCDCTL);
  const key = unique();
  const { code, stdout, stderr } = await cli(['trace', '--', etcdctlPath, 'put', key, 'v']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'OK\n' });
  expect(stderr).toContain(`> put ${key} = v`);
  expect((await cli(['trace', '--', 'sh', '-c', 'exit 7'])).code).toBe(7);
});

test('etcdwire trace shows the messages of a Go program that gets its endpoint as an argument', async ({ skip }) => {
  const program = await goProgram();
  if ('missing' in program) return skip(program.missing);
  const name = unique();
  const page = join(temporaryFolder(), 'trace.html');
  const args = ['trace', '--html', page, '--', program.path, '{endpoints}', 'mutex', name];
  const { code, stdout } = await cli(args, { stdin: '\n' });
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'in\nout\n' });
  expect(readFileSync(page, 'utf8')).toMatch(/if \S+ does not exist: put/);
});

test("etcdwire trace shows the messages of a program with npm's etcd3, and passes SIGINT on to it", async () => {
  const name = unique();
  const script = join(import.meta.dirname, '../../../test/support/etcd3-holder.ts');
  const command = [process.execPath, '--import', 'tsx', script, '{endpoints}', name, '10'];
  const running = new RunningCli(['trace', '--', ...command]);
  await running.stdoutMatches(/^held\n$/);
  await running.stderrMatches(new RegExp(`grpc-node-js/\\S+ .* > if ${name} does not exist: put ${name} = `));
  running.process.kill('SIGINT');
  expect((await running.done).code).toBe(130);
});

test('etcdwire trace shows the messages of a Node.js program that uses etcdwire', async () => {
  const key = unique();
  const { code, stderr } = await cli(['trace', '--', process.execPath, PROGRAM, 'put', key, 'v']);
  expect(code).toBe(0);
  expect(stderr).toContain(`> put ${key} = v`);
});

test('etcdwire trace says that a program has not connected to the proxy', async () => {
  const { code, stderr } = await cli(['trace', '--', 'true']);
  expect(code).toBe(0);
  expect(stderr).toContain('has not connected to the proxy');
});
