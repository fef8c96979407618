import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import { cli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { startProxy } from '../../../test/support/recordings.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';
import { Authority } from '../src/proxy/authority.js';
import { FaultRules } from '../src/proxy/fault-rules.js';
import { WireProxy } from '../src/proxy/wire-proxy.js';

// Which requests the proxy forwards, and how long it waits for them. The proxy has the rights of its client certificate,
// and each web page in a browser on the same machine can connect to it.

/** Sends bytes to the proxy, and resolves with the answer when the connection is closed. */
async function send(url: string, text: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
  socket.write(text);
  return (await socket.toArray()).join('');
}

/** Opens a port on loopback until the end of the test, and resolves with its URL. */
async function urlOf(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const WEBSOCKET = 'Upgrade: websocket\r\nConnection: Upgrade\r\n';

function putOf(key: string, fields: string, target = '/v3/kv/put'): string {
  const body = JSON.stringify({ key: btoa(key), value: btoa('v') });
  return `POST ${target} HTTP/1.1\r\n${fields}Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

test('etcdwire proxy refuses what only a web page sends, and forwards the requests of programs', async () => {
  const { proxy, url, stop } = await startProxy(['--quiet', '--allow-host', 'etcd.internal']);
  const own = `Host: ${new URL(url).host}\r\n`;
  /** The fields and the target of requests. */
  const refused: Readonly<Record<string, readonly [fields: string, target?: string]>> = {
    origin: [`${own}Origin: https://page.example\r\n`],
    'opaque origin': [`${own}Origin: null\r\n`],
    'cross-site': [`${own}Sec-Fetch-Site: cross-site\r\n`],
    'another port of this host': [`${own}Sec-Fetch-Site: same-site\r\n`],
    'DNS rebinding': ['Host: page.example\r\n'],
    'a host with a password': ['Host: root:hunter2@page.example\r\n'],
    'two hosts': [`${own}Host: page.example\r\n`],
    'absolute target': [own, 'http://page.example/v3/kv/put'],
    WebSocket: [own + WEBSOCKET],
    'a long head': [`X: ${'x'.repeat(300_000)}\r\n${own}Origin: https://page.example\r\n`],
  };
  for (const [name, [fields, target]] of Object.entries(refused)) {
    const key = unique();
    const answer = await send(url, putOf(key, fields, target));
    expect(answer, name).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(answer, name).toContain('etcdwire proxy: the request is refused, because ');
    expect(answer, name).not.toContain('hunter2');
    expect(await openClient().get(key), name).toBeUndefined();
  }
  await proxy.stderrMatches(/refused a request, because its host is "page\.example", which is no name of the proxy/);
  const port = new URL(url).port;
  for (const fields of [
    own,
    `Host: localhost:${port}\r\n`,
    'Host: [::1]\r\n',
    'Host: ETCD.internal\r\n',
    `${own}Sec-Fetch-Site: none\r\n`,
  ])
    expect(await send(url, putOf(unique(), fields)), fields).toMatch(/^HTTP\/1\.1 200 /);
  expect((await stop()).code).toBe(0);
});

test('etcdwire proxy closes an HTTP/2 connection with a request of a web page, and etcd does not get it', async () => {
  const { proxy, url, stop } = await startProxy(['--quiet']);
  const session = connectHttp2(url);
  session.on('error', () => {});
  const call = session.request({ ':method': 'POST', ':path': '/etcdserverpb.KV/Put', origin: 'https://page.example' });
  call.on('error', () => {}).end();
  await once(session, 'close');
  await proxy.stderrMatches(/refused a request, because it has the field Origin/);
  await stop();
});

test('etcdwire proxy with --allow-upgrades forwards a WebSocket, and counts what it cannot decode', async () => {
  const upstream = createServer((socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      socket.once('data', (bytes) => socket.end(`echo ${bytes}`));
    });
  });
  const { url, stop } = await startProxy(['--allow-upgrades', '--endpoints', await urlOf(upstream)]);
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
  socket.write(`GET /v3/kv/range?method=POST HTTP/1.1\r\nHost: localhost\r\n${WEBSOCKET}\r\n`);
  await once(socket, 'data');
  socket.write('secret-frame');
  expect((await socket.toArray()).join('')).toBe('echo secret-frame');
  const { stdout, stderr } = await stop();
  expect(stdout).toContain('> not decoded: 12 bytes, because the connection has changed to websocket');
  expect(stdout).not.toContain('secret');
  expect(stderr).toContain('connections: 1, requests: 1, not decoded: 2\n');
});

test('etcdwire proxy escapes what a server writes about the copy of a request', async () => {
  const upstream = createHttp2Server((_, response) => {
    response.stream.respond({ 'grpc-status': 9, 'grpc-message': '%1B]0;title%07' }, { endStream: true });
  });
  onTestFinished(() => void upstream.close());
  const { proxy, url, stop } = await startProxy([
    ...['--quiet', '--fault', 'duplicate rpc=Put'],
    ...['--endpoints', await urlOf(upstream as unknown as Server)],
  ]);
  await expect(openClient({ endpoints: [url] }).put('k', 'v')).rejects.toThrow();
  await proxy.stderrMatches(/the copy of a request failed: status 9: \\u001b\]0;title\\u0007\n/);
  await stop();
});

/** Writes a client certificate, and returns the flags that name it. */
async function certificateFlags(): Promise<readonly string[]> {
  const authority = await Authority.create();
  const { cert, key } = await authority.issue({ commonName: 'proxy' });
  const folder = temporaryFolder();
  const files = { cacert: authority.cert, cert, key };
  return Object.entries(files).flatMap(([name, text]) => {
    writeFileSync(join(folder, name), text);
    return [`--${name}`, join(folder, name)];
  });
}

test('etcdwire proxy says that all programs of the machine can use its client certificate', async () => {
  const flags = ['--endpoints', 'https://127.0.0.1:1', ...(await certificateFlags())];
  const { proxy, stop } = await startProxy([...flags, '--listen', 'http://127.0.0.1:0']);
  await proxy.stderrMatches(/all programs of this machine can use the certificate in --cert .*--listen-cacert FILE\n/);
  await stop();
  const { code, stderr } = await cli(['proxy', ...flags, '--listen', 'https://0.0.0.0:0']);
  expect(code).toBe(64);
  expect(stderr).toContain('--listen: got the host 0.0.0.0 together with --cert and without --listen-cacert');
});

test('etcdwire proxy refuses --listen-cacert with an http: URL, at which it could not require certificates', async () => {
  const [, ca = ''] = await certificateFlags();
  const { code, stderr } = await cli(['proxy', '--listen', 'http://127.0.0.1:0', '--listen-cacert', ca]);
  expect(code).toBe(64);
  expect(stderr).toContain('--listen-cacert: got an http: URL in --listen; allowed: with https: URLs only');
});

test.for([
  ['no byte', ''],
  ['a part of the preface of HTTP/2', 'PRI * HT'],
  ['half a head', 'POST /v3/kv/put HTTP/1.1\r\nHost: local'],
  ['half a head after a whole request', 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he'],
] as const)('the proxy closes a connection with %s after the time limit', async ([, text]) => {
  const upstream = createServer((socket) => socket.on('error', () => {}).resume());
  const problems: string[] = [];
  const proxy = await WireProxy.start({
    host: '127.0.0.1',
    port: 0,
    members: [parseEndpoint(await urlOf(upstream), 'endpoint')],
    rules: new FaultRules(),
    requestTimeoutMs: 50,
    traffic: { frame: () => {} },
    onProblem: (problem) => void problems.push(problem),
  });
  expect(await send(proxy.url, text)).toBe('');
  expect(problems).toEqual([expect.stringMatching(/: closed, because .* in time$/)]);
  await proxy.stop();
});

test('the page of etcdwire proxy refuses a list of faults above 64 KiB', async () => {
  const { proxy, stop } = await startProxy(['--serve', '--quiet']);
  const page = await proxy.stderrMatch(/the traffic is at (\S+)/);
  const response = await fetch(`${page}faults`, { method: 'POST', body: 'cut\n'.repeat(20_000) });
  expect([response.status, await response.text()]).toEqual([413, 'at most 65536 bytes']);
  expect(await (await fetch(page)).text()).not.toContain('Fault on');
  await stop();
});
