import type { IncomingMessage, RequestListener } from 'node:http';
import { describe, expect, inject, test } from 'vitest';
import { op, prefix } from '../../src/index.js';
import { freePorts } from '../../src/testing/free-ports.js';
import { gateway } from '../../src/transport/gateway/index.js';
import { unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { httpServer, openGateway } from '../support/gateway.js';

describe('what is sent', () => {
  test.each([
    ['everywhere', undefined, 'true'],
    ['where only headers of CORS may be sent', false, undefined],
  ])('%s has the token, and asks for a leader as it can', async (_, allHeaders, hasLeader) => {
    const requests: IncomingMessage[] = [];
    const url = await httpServer((request) => void requests.push(request));
    const auth = { token: 'a.token', allowPlaintext: true };
    const etcd = openGateway({ endpoints: [url], auth, transport: gateway({ allHeaders }) });
    const watch = etcd.watch('k');
    await expect.poll(() => requests.length).toBe(1);
    expect(requests[0]?.headers).toMatchObject({ authorization: 'a.token', 'content-type': 'application/json' });
    expect(requests[0]?.headers['grpc-metadata-hasleader']).toBe(hasLeader);
    await watch.close();
  });

  test('goes by the fetch that is given', async () => {
    const urls: string[] = [];
    const etcd = openGateway({
      transport: gateway({
        fetch: (url, init) => {
          urls.push(url);
          return fetch(url, init);
        },
      }),
    });
    await etcd.get('k');
    expect(urls).toEqual([`${inject('endpoints')[0]}/v3/kv/range`]);
  });

  test.each([
    ['a Unix socket', { endpoints: ['unix:///tmp/etcd'] }],
    ['options of TLS', { tls: { serverName: 'other' }, endpoints: ['https://127.0.0.1:1'] }],
  ])('is nothing where it was told of %s', async (_, options) => {
    expect(await errorOf(() => openGateway(options))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('is nothing that does not fit, as over any transport', async () => {
    const etcd = openGateway({ maxRequestBytes: 1_000 });
    expect(await errorOf(etcd.put('k', 'x'.repeat(1_001)))).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('a write', () => {
  const put = (url: string): Promise<unknown> =>
    openGateway({ endpoints: [url] }).put('the-key', 'the-value', { timeoutMs: 400 });

  test('was not sent where nobody listens', async () => {
    const [port] = await freePorts(1);
    expect(await errorOf(put(`http://127.0.0.1:${port}`))).toMatchObject({
      outcome: 'not-sent',
      cause: { reason: 'ConnectFailed' },
    });
  });

  test.each(['EHOSTUNREACH', 'ENETUNREACH', 'ECONNRESET'])(
    'that ends with %s may have been done: a connection that stood may end so too',
    async (code) => {
      const transport = gateway({
        fetch: () => Promise.reject(new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) })),
      });
      expect(await errorOf(openGateway({ transport }).put('k', 'v'))).toMatchObject({ outcome: 'unknown' });
    },
  );

  test.each<[string, RequestListener, object]>([
    [
      'whose connection breaks',
      (request) => request.on('data', () => request.destroy()),
      { reason: 'ConnectionLost', code: 'Unavailable' },
    ],
    [
      'that is answered by a proxy',
      (_, response) => void response.writeHead(502).end('<html>'),
      { code: 'Unavailable' },
    ],
    ['that is sent elsewhere', (_, response) => void response.writeHead(302, { location: '/' }).end(), {}],
    ['that is sent elsewhere as it is', (_, response) => void response.writeHead(307, { location: '/' }).end(), {}],
    [
      'that something calls well',
      (_, response) => void response.end('{"status":"ok"}'),
      { reason: 'MalformedMessage' },
    ],
    ['that gets no answer', (_, response) => void response.writeHead(204).end(), { reason: 'MalformedMessage' }],
    ['that fails with OK', (_, response) => void response.writeHead(500).end('{"code":0}'), { code: 'Unknown' }],
    ['that is answered by a page', (_, response) => void response.end('<html>'), { reason: 'MalformedMessage' }],
    ['that is not answered', () => {}, { reason: 'DeadlineExceeded' }],
    [
      'whose answer breaks off',
      (_, response) => {
        response.write('{"header":');
        setTimeout(() => response.destroy(), 20);
      },
      { reason: 'ConnectionLost' },
    ],
    [
      'whose server fails on the way',
      (_, response) => void response.writeHead(503).end('{"code":14,"message":"etcdserver: leader changed"}'),
      { reason: 'LeaderChanged' },
    ],
  ])('%s may have been done, and is not repeated', async (_, listener, expected) => {
    let requests = 0;
    const url = await httpServer((request, response) => {
      requests += 1;
      listener(request, response);
    });
    const error = await errorOf(put(url));
    expect(error).toMatchObject({ outcome: 'unknown', ...expected });
    expect(error.message).not.toMatch(/the-key|the-value/);
    expect(requests).toBe(1);
  });

  test.each(['404 page not found', '{"code":5,"message":"Not Found","details":[]}'])(
    'is refused where there is no gateway: %s',
    async (text) => {
      const url = await httpServer((_, response) => void response.writeHead(404).end(text));
      expect(await errorOf(put(url))).toMatchObject({ reason: 'NotInGateway', outcome: 'rejected' });
    },
  );

  test('that is given up by its signal says that it may have been done', async () => {
    const url = await httpServer(() => {});
    const giveUp = new AbortController();
    const etcd = openGateway({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v', { signal: giveUp.signal }));
    setTimeout(() => giveUp.abort(), 50);
    expect(await writing).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
  });

  test('ends with its client', async () => {
    const url = await httpServer(() => {});
    const etcd = openGateway({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v'));
    await etcd.close();
    expect(await writing).toMatchObject({ reason: 'ClientClosed' });
  });
});

test('an answer of many small messages is taken as over any transport', async () => {
  const name = unique();
  const puts = Array.from({ length: 100 }, (_, index) => op.put(`${name}/${index}`, ''));
  await openGateway().txn({ then: puts });
  const { kvs } = await openGateway({ maxReceiveBytes: 100 * (name.length + 20) }).range(prefix(`${name}/`));
  expect(kvs).toHaveLength(100);
});

test('an answer that is longer than what is taken is not taken', async () => {
  const name = unique();
  const etcd = openGateway({ maxReceiveBytes: 10_000 });
  await openGateway().put(name, 'x'.repeat(100_000));
  expect(await errorOf(etcd.get(name))).toMatchObject({ code: 'ResourceExhausted' });
});
