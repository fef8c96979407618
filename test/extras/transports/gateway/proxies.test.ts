import type { RequestListener } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { gateway } from '../../../../src/gateway.js';
import { openClient, unique } from '../../../support/client.js';
import { errorOf } from '../../../support/errors.js';
import { httpServer, openGateway } from '../../../support/gateway.js';

const CREATED = '{"result":{"header":{"revision":"5"},"watch_id":"1","created":true}}';

describe('a client behind a proxy', () => {
  test('stops reading an error response that never ends', async () => {
    let closed = false;
    const url = await httpServer((request, response) => {
      request.resume();
      response.on('close', () => {
        closed = true;
      });
      response.writeHead(502);
      const write = (): void => {
        while (!closed && response.write('<html>'.repeat(10_000)));
      };
      response.on('drain', write);
      write();
    });
    const error = await errorOf(openGateway({ endpoints: [url] }).put('k', 'v'));
    expect(error).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    await expect.poll(() => closed).toBe(true);
  });

  test.each([
    ['{"code":3,"message":"etcdserver: key is not provided"}', { reason: 'EmptyKey', outcome: 'rejected' }],
    ['{"error":"upstream failed","code":14,"message":"upstream failed"}', { code: 'Unavailable', outcome: 'unknown' }],
    ['{"error":{"code":13,"message":"no"}}', { code: 'Internal', outcome: 'unknown' }],
    ['{"status":"ok"}', { reason: 'MalformedMessage', outcome: 'unknown' }],
    ['{}', { reason: 'MalformedMessage', outcome: 'unknown' }],
    ['"ok"', { reason: 'MalformedMessage', outcome: 'unknown' }],
  ])('rejects put, userAdd and memberPromote when the proxy answers with status 200 and %s', async (text, expected) => {
    const url = await httpServer((_, response) => void response.end(text));
    const etcd = openGateway({ endpoints: [url] });
    expect(await errorOf(etcd.put('k', 'v'))).toMatchObject(expected);
    expect(await errorOf(etcd.auth.userAdd('user', { password: 'secret' }))).toMatchObject(expected);
    expect(await errorOf(etcd.raw.cluster.memberPromote({ id: 1n }))).toMatchObject(expected);
  });

  test('accepts the response to `defragment` only if the response is an empty JSON object', async () => {
    let text = '{"status":"ok"}';
    const url = await httpServer((_, response) => void response.end(text));
    const { maintenance } = openGateway({ endpoints: [url] }).raw;
    expect(await errorOf(maintenance.defragment({}))).toMatchObject({ reason: 'MalformedMessage' });
    text = '{}';
    expect(await maintenance.defragment({})).toEqual({ header: undefined });
  });

  test('rejects a put with outcome unknown when the proxy answers with an HTML page and status 404', async () => {
    const url = await httpServer((_, response) => void response.writeHead(404).end('<html>'));
    expect(await errorOf(openGateway({ endpoints: [url] }).put('k', 'v'))).toMatchObject({
      reason: 'NotEtcd',
      outcome: 'unknown',
    });
  });

  test.each<[string, RequestListener, object | undefined]>([
    [
      'accepts a valid gzip response to a put',
      (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"header":{}}')),
      undefined,
    ],
    [
      'rejects a put with outcome unknown when the gzip response breaks off',
      (_, response) =>
        void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"header":{}}').subarray(0, 12)),
      { reason: 'ConnectionLost', outcome: 'unknown' },
    ],
    [
      'rejects a put with outcome unknown when the `content-encoding` of an uncompressed response is gzip',
      (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end('{"header":{}}'),
      { reason: 'ConnectionLost', outcome: 'unknown' },
    ],
  ])('%s', async (_, listener, expected) => {
    const etcd = openGateway({ endpoints: [await httpServer(listener)] });
    if (expected === undefined) expect(await etcd.put('k', 'v')).toBeDefined();
    else expect(await errorOf(etcd.put('k', 'v'))).toMatchObject(expected);
  });
});

describe('a gateway watch that etcd has created', () => {
  test.each<[string, () => Response]>([
    ['status 401', () => new Response('<html>', { status: 401 })],
    ['status 403', () => new Response('<html>', { status: 403 })],
    ['status 404', () => new Response('404 page not found', { status: 404 })],
    ['status 404 as a gateway error', () => Response.json({ code: 5, message: 'Not Found' }, { status: 404 })],
    ['status 502', () => new Response('<html>', { status: 502 })],
    ['an HTML page with status 200', () => new Response('<html>\n<body>\n')],
    ['unrelated JSON with status 200', () => Response.json({ status: 'maintenance' })],
    ['a response that breaks off within a line', () => new Response(CREATED.slice(0, 40))],
    ['an empty response', () => new Response('')],
    ['empty lines', () => new Response('\r\n\r\n')],
  ])('continues after a proxy has answered later requests of the watch with %s', async (_, answer) => {
    const key = unique();
    let watches = 0;
    const transport = gateway({
      // With this short limit, the client sends a new request for the silent watch every 200 ms.
      silenceMs: 200,
      fetch: async (url, init) => {
        if (!url.endsWith('/v3/watch')) return fetch(url, init);
        watches += 1;
        return watches === 1 || watches > 3 ? fetch(url, init) : answer();
      },
    });
    const watch = openGateway({ transport }).watch(key);
    await watch.created();
    await expect.poll(() => watches).toBeGreaterThanOrEqual(3);
    await openClient().put(key, 'v');
    const { value } = await watch[Symbol.asyncIterator]().next();
    expect(value).toMatchObject({ type: 'put' });
    await watch.close();
  });

  test("fails when a proxy refuses a later request of the watch with an error in the gateway's JSON format", async () => {
    let watches = 0;
    const transport = gateway({
      silenceMs: 200,
      fetch: async (url, init) => {
        if (!url.endsWith('/v3/watch') || ++watches === 1) return fetch(url, init);
        return Response.json({ code: 7, message: 'denied by policy' }, { status: 403 });
      },
    });
    const watch = openGateway({ transport }).watch(unique());
    await watch.created();
    expect(await errorOf(watch.batches().next())).toMatchObject({ code: 'PermissionDenied', reason: 'Other' });
  });
});

test.each([
  ['404 page not found', 404, 'NotEtcd'],
  ['<html>', 404, 'NotEtcd'],
  ['<html>', 200, 'MalformedMessage'],
  ['{"status":"ok"}', 200, 'MalformedMessage'],
])('a gateway watch fails when the first response is %s with status %d', async (text, status, reason) => {
  const url = await httpServer((_, response) => void response.writeHead(status).end(text));
  expect(
    await errorOf(
      openGateway({ endpoints: [url] })
        .watch('k')
        .created(),
    ),
  ).toMatchObject({ reason });
});

test('a client accepts lines that end with CR LF in the response to a watch request', async () => {
  const url = await httpServer((request, response) => {
    request.resume();
    response.write(`${CREATED}\r\n\r\n`);
  });
  const watch = openGateway({ endpoints: [url] }).watch('k');
  expect(await watch.created()).toBe(5n);
  await watch.close();
});

test('a call rejects at its deadline, or when its signal aborts, even if `fetch` ignores the signal', async () => {
  let answer = (_: Response): void => {};
  const transport = gateway({
    fetch: () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  });
  const etcd = openGateway({ transport });
  expect(await errorOf(etcd.put('k', 'v', { timeoutMs: 100 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  answer(Response.json({ header: {} }));
  const giveUp = new AbortController();
  const writing = errorOf(etcd.put('k', 'v', { signal: giveUp.signal }));
  giveUp.abort();
  expect(await writing).toMatchObject({ reason: 'Canceled' });
});
