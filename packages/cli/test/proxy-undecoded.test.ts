import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { openClient, unique } from '../../../test/support/client.js';
import { startProxy } from '../../../test/support/recordings.js';

// Requests that the proxy cannot decode, and requests that hide what they are.

const nested = (levels: number, open: string, inner: string, close: string): string =>
  open.repeat(levels) + inner + close.repeat(levels);

/** Sends bytes to the proxy, and resolves with the answer when the proxy or etcd closes the connection. */
async function send(url: string, text: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setEncoding('latin1');
  socket.write(text, 'latin1');
  return (await socket.toArray()).join('');
}

const request = (path: string, body: string, fields = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

test.for([
  ['a lone surrogate in a name', '/v3/auth/user/add', '{"name":"x\\ud800","password":"p"}'],
  ['5,000 nested arrays beside a password', '/v3/auth/authenticate', `{"name":${nested(5_000, '[', '', ']')}}`],
  ['9,000 nested objects', '/v3/auth/authenticate', nested(9_000, '{"a":', '1', '}')],
  ['1,000 nested transactions', '/v3/kv/txn', nested(1_000, '{"success":[{"requestTxn":', '{}', '}]}')],
  ['no JSON', '/v3/kv/put', 'key=value'],
] as const)(
  'etcdwire proxy serves other clients, and says what it has not decoded, after a request with %s',
  async ([, path, body]) => {
    const { url, stop } = await startProxy();
    const other = openClient({ endpoints: [url] });
    const key = unique();
    await other.put(key, '1');
    expect(await send(url, request(path, body))).toMatch(/^HTTP\/1\.1 \d\d\d /);
    await other.put(key, '2');
    await other.close();
    const { code, stdout, stderr } = await stop();
    expect(code).toBe(0);
    expect(stdout).toMatch(/ > not decoded: \d[\d,]* bytes, because /);
    expect(stderr).toMatch(/connections: 2, requests: 3, not decoded: [1-9]/);
  },
);

/** Requests that etcd takes for a put, and that the proxy has not always recognized. */
const HIDDEN = {
  'an absolute target': (body) => request('http://127.0.0.1/v3/kv/put', body),
  'a percent escape in its path': (body) => request('/v3/kv/%70ut', body),
  'a header above 64 KiB': (body) => request('/v3/kv/put', body, `X-Long: ${'x'.repeat(300_000)}\r\n`),
  'lines that end with LF alone': (body) =>
    request('/v3/kv/put', body).replace(/^.*?\r\n\r\n/s, (head) => head.replaceAll('\r', '')),
  'further bytes after its JSON': (body) => request('/v3/kv/put', `${body} and more`),
  'a number that a double cannot hold': (body) =>
    request('/v3/kv/put', body.replace('}', ',"lease":9007199254740993}')),
  'the fields Transfer-Encoding and Content-Length in HTTP/1.0': (body) =>
    request('/v3/kv/put', body, 'Transfer-Encoding: chunked\r\n').replace('HTTP/1.1', 'HTTP/1.0'),
  'an earlier request in the same piece of bytes': (body) =>
    request('/v3/kv/range', JSON.stringify({ key: 'AA==' })).replace('Connection: close', 'A: b') +
    request('/v3/kv/put', body),
} as const satisfies Record<string, (body: string) => string>;

test.for(Object.entries(HIDDEN))('the fault "cut" concerns a put of the gateway with %s', async ([, requestOf]) => {
  const key = unique();
  const { url, stop } = await startProxy(['--fault', `cut rpc=Put prefix=${key}`]);
  const body = JSON.stringify({ key: btoa(key), value: btoa('v') });
  expect(await send(url, requestOf(body))).not.toContain('"header"');
  const { stdout } = await stop();
  expect(stdout).toContain(`> put ${key} = v`);
  expect(await openClient().get(key)).toBeUndefined();
});

test('a fault without a prefix concerns a request of the gateway that the proxy cannot decode', async () => {
  const { proxy, url, stop } = await startProxy(['--fault', 'cut rpc=UserAdd']);
  expect(await send(url, request('/v3/auth/user/add', '{"name":"x\\ud800","password":"p"}'))).toBe('');
  await proxy.stdoutMatches(/the connection closes before the answer|not decoded/);
  await stop();
});
