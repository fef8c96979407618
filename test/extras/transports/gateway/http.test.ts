import type { IncomingMessage, RequestListener } from 'node:http';
import { inspect } from 'node:util';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { Authority } from '../../../../packages/cli/src/proxy/authority.js';
import { type GatewayOptions, gateway } from '../../../../src/gateway.js';
import { op, prefix } from '../../../../src/index.js';
import { freePorts } from '../../../../src/testing/etcd/free-ports.js';
import { unique } from '../../../support/client.js';
import { errorOf } from '../../../support/errors.js';
import { httpServer, openGateway } from '../../../support/gateway.js';
import { HERE } from '../../../support/tls/secure-etcd.js';

describe('the gateway transport', () => {
  test.each([
    ['the token and the header `grpc-metadata-hasleader` by default', undefined, 'true'],
    ['the token but not the header `grpc-metadata-hasleader` if `allHeaders` is false', false, undefined],
  ])('sends %s', async (_, allHeaders, hasLeader) => {
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

  test('sends requests with the `fetch` function in its options', async () => {
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
    ['the endpoint of a Unix socket', { endpoints: ['unix:///tmp/etcd'] }],
    ['TLS options', { tls: { serverName: 'other' }, endpoints: ['https://127.0.0.1:1'] }],
  ])('refuses %s', async (_, options) => {
    expect(await errorOf(() => openGateway(options))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('sends nothing to an https: endpoint while `NODE_TLS_REJECT_UNAUTHORIZED` turns off the checks of `fetch`', async () => {
    const heard: string[] = [];
    const url = await httpServer(
      (request, response) => {
        heard.push(request.url ?? '');
        response.end('{"header":{}}');
      },
      await (await Authority.create()).issue(HERE),
    );
    const put = (options?: GatewayOptions) =>
      openGateway({ endpoints: [url], transport: gateway(options) }).put('k', 'v', { timeoutMs: 500 });
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const value of ['0', 'false']) {
      vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', value);
      const error = await errorOf(put());
      expect(error).toMatchObject({ outcome: 'not-sent', cause: { reason: 'ConnectFailed', outcome: 'not-sent' } });
      expect(error.message).toContain(
        'because NODE_TLS_REJECT_UNAUTHORIZED is 0 or false; unset the variable, or pass a fetch that checks certificates to gateway',
      );
    }
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', undefined);
    expect((await errorOf(put())).message).toMatch(/unable to|self.signed/);
    expect(heard).toEqual([]);
  });

  test('leaves the check of certificates to the `fetch` function in its options', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    onTestFinished(() => void vi.unstubAllEnvs());
    const transport = gateway({ fetch: async () => new Response('{"header":{}}') });
    await openGateway({ endpoints: ['https://127.0.0.1:1'], transport }).put('k', 'v');
  });

  test('refuses metadata with a line break, and shows no value of the metadata in the error', async () => {
    const requests: IncomingMessage[] = [];
    const url = await httpServer((request) => void requests.push(request));
    const etcd = openGateway({
      endpoints: [url],
      interceptors: [
        {
          unary: (call, next) => next({ ...call, metadata: { ...call.metadata, token: 'secret\nx' } }),
          stream: (call, handler, next) =>
            next({ ...call, metadata: { ...call.metadata, token: 'secret\nx' } }, handler),
        },
      ],
    });
    const error = await errorOf(etcd.put('k', 'v'));
    expect(error).toMatchObject({ reason: 'Other', outcome: 'not-sent' });
    // A watch tries again, and its error shows why no attempt has succeeded.
    const watch = etcd.watch('k', { signal: AbortSignal.timeout(300) });
    for (const each of [error, await errorOf(watch.created())]) expect(inspect(each)).not.toContain('secret');
    expect(requests).toEqual([]);
  });

  test('refuses a request that is longer than `maxRequestBytes`', async () => {
    const etcd = openGateway({ maxRequestBytes: 1_000 });
    expect(await errorOf(etcd.put('k', 'x'.repeat(1_001)))).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('a put over the gateway', () => {
  const put = (url: string): Promise<unknown> =>
    openGateway({ endpoints: [url] }).put('the-key', 'the-value', { timeoutMs: 400 });

  test('rejects with outcome not-sent when no process listens at the endpoint', async () => {
    const [port] = await freePorts(1);
    expect(await errorOf(put(`http://127.0.0.1:${port}`))).toMatchObject({
      outcome: 'not-sent',
      cause: { reason: 'ConnectFailed' },
    });
  });

  test.each(['EHOSTUNREACH', 'ENETUNREACH', 'ECONNRESET'])(
    'rejects with outcome unknown when `fetch` fails with %s, because an established connection can also fail with that error',
    async (code) => {
      const transport = gateway({
        fetch: () => Promise.reject(new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) })),
      });
      expect(await errorOf(openGateway({ transport }).put('k', 'v'))).toMatchObject({ outcome: 'unknown' });
    },
  );

  test.each<[string, RequestListener, object]>([
    [
      'the connection breaks',
      (request) => request.on('data', () => request.destroy()),
      { reason: 'ConnectionLost', code: 'Unavailable' },
    ],
    [
      'a proxy answers with status 502',
      (_, response) => void response.writeHead(502).end('<html>'),
      { code: 'Unavailable' },
    ],
    [
      'the response is a redirect with status 302',
      (_, response) => void response.writeHead(302, { location: '/' }).end(),
      {},
    ],
    [
      'the response is a redirect with status 307',
      (_, response) => void response.writeHead(307, { location: '/' }).end(),
      {},
    ],
    [
      'a proxy answers with a health report and status 200',
      (_, response) => void response.end('{"status":"ok"}'),
      { reason: 'MalformedMessage' },
    ],
    ['the response has no body', (_, response) => void response.writeHead(204).end(), { reason: 'MalformedMessage' }],
    [
      'the error in the response has the code OK',
      (_, response) => void response.writeHead(500).end('{"code":0}'),
      { code: 'Unknown' },
    ],
    ['the response is an HTML page', (_, response) => void response.end('<html>'), { reason: 'MalformedMessage' }],
    ['no response arrives within the time limit', () => {}, { reason: 'DeadlineExceeded' }],
    [
      'the response breaks off',
      (_, response) => {
        response.write('{"header":');
        setTimeout(() => response.destroy(), 20);
      },
      { reason: 'ConnectionLost' },
    ],
    [
      'the server answers that the leader has changed',
      (_, response) => void response.writeHead(503).end('{"code":14,"message":"etcdserver: leader changed"}'),
      { reason: 'LeaderChanged' },
    ],
  ])('rejects with outcome unknown and sends no second request when %s', async (_, listener, expected) => {
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
    'rejects with NotEtcd and outcome rejected when the server answers with status 404 and the body %s',
    async (text) => {
      const url = await httpServer((_, response) => void response.writeHead(404).end(text));
      expect(await errorOf(put(url))).toMatchObject({ reason: 'NotEtcd', outcome: 'rejected' });
    },
  );

  test("rejects with outcome unknown when the caller's signal aborts after the request was sent", async () => {
    const url = await httpServer(() => {});
    const giveUp = new AbortController();
    const etcd = openGateway({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v', { signal: giveUp.signal }));
    setTimeout(() => giveUp.abort(), 50);
    expect(await writing).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
  });

  test('rejects with ClientClosed when the client is closed before a response arrives', async () => {
    const url = await httpServer(() => {});
    const etcd = openGateway({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v'));
    await etcd.close({ drainMs: 50 });
    expect(await writing).toMatchObject({ reason: 'ClientClosed' });
  });
});

test('a client accepts a response whose JSON is longer than `maxReceiveBytes` if the same message fits within the limit in protobuf', async () => {
  const name = unique();
  const puts = Array.from({ length: 100 }, (_, index) => op.put(`${name}/${index}`, ''));
  await openGateway().txn({ then: puts });
  const { kvs } = await openGateway({ maxReceiveBytes: 100 * (name.length + 20) }).range(prefix(`${name}/`));
  expect(kvs).toHaveLength(100);
});

test('a client refuses a response that would be longer than `maxReceiveBytes` in protobuf', async () => {
  const name = unique();
  const etcd = openGateway({ maxReceiveBytes: 10_000 });
  await openGateway().put(name, 'x'.repeat(100_000));
  expect(await errorOf(etcd.get(name))).toMatchObject({ code: 'ResourceExhausted' });
});
