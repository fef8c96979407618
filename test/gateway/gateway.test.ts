import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { gateway } from '../../src/gateway/index.js';
import { gatewayPath } from '../../src/gateway/paths.js';
import { methods } from '../../src/gen/methods.js';
import { Client, type ClientOptions, op, prefix } from '../../src/index.js';
import type { Method } from '../../src/protobuf/method.js';
import { freePorts } from '../../src/testing/free-ports.js';
import { authEtcd, USER } from '../support/auth-etcd.js';
import { unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

const allMethods = Object.values(methods).flatMap((service): Method<unknown, unknown>[] => Object.values(service));

function open(options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ endpoints: inject('endpoints'), transport: gateway(), ...options });
  onTestFinished(() => client.close());
  return client;
}

/** A server that answers as it is told; gives its URL. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('over the gateway', () => {
  test.each(allMethods.map((method) => [method.path, method] as const))(
    '%s is there, or refused',
    async (_, method) => {
      const [endpoint = ''] = inject('endpoints');
      const path = gatewayPath(method);
      if (path === undefined) return expect(method.path).toBe('/etcdserverpb.KV/RangeStream');
      // Not by its own method: the path is there whatever would be done.
      const { status } = await fetch(endpoint + path, { method: 'GET' });
      const missing = ['HashKV', 'AuthStatus', 'Downgrade'].some((name) => path.includes(name.toLowerCase()));
      if (inject('etcdVersion')?.startsWith('3.4.') && (missing || path === '/v3/auth/status'))
        expect(status).toBe(404);
      else expect([405, 501]).toContain(status);
    },
  );

  test('a call that it has not is refused by a reason, and nothing is sent', async () => {
    const stream = open().raw.kv.rangeStream({ key: Buffer.from('a') });
    expect(await errorOf(stream.next())).toMatchObject({
      reason: 'NotInGateway',
      code: 'Unimplemented',
      outcome: 'not-sent',
      method: '/etcdserverpb.KV/RangeStream',
    });
  });

  test('progress of a watch cannot be asked for, and the watch goes on', async () => {
    const etcd = open();
    const key = unique();
    const watch = etcd.watch(key);
    await watch.created();
    expect(await errorOf(() => watch.requestProgress())).toMatchObject({ reason: 'NotInGateway', outcome: 'not-sent' });
    await etcd.put(key, 'on');
    for await (const { kv } of watch) {
      expect(kv.text()).toBe('on');
      break;
    }
  });

  test('many watches come and go on their own, and each has its events once and in order', async () => {
    const etcd = open();
    const name = unique();
    const watches = Array.from({ length: 20 }, (_, index) => etcd.watch(prefix(`${name}/${index % 4}/`)));
    await Promise.all(watches.map((watch) => watch.created()));
    await Promise.all(watches.slice(0, 10).map((watch) => watch.close()));
    for (let count = 0; count < 40; count += 1) await etcd.put(`${name}/${count % 4}/k`, String(count));
    for (const [index, watch] of watches.entries()) {
      if (index < 10) continue;
      const seen: string[] = [];
      for await (const { kv } of watch) if (seen.push(kv.text()) === 10) break;
      expect(seen).toEqual(Array.from({ length: 10 }, (_, count) => String(count * 4 + (index % 4))));
    }
  });

  test('a snapshot comes whole', async () => {
    const { endpoints } = await ownEtcd();
    const [endpoint = ''] = endpoints;
    let bytes = 0;
    for await (const chunk of open({ endpoints }).maintenance.snapshot(endpoint)) bytes += chunk.length;
    expect(bytes % 512).toBe(32);
  });

  test('errors of the server bear their reasons', async () => {
    expect(await errorOf(open().put(unique(), 'x', { lease: 99n }))).toMatchObject({
      reason: 'LeaseNotFound',
      outcome: 'rejected',
      endpoint: inject('endpoints')[0],
    });
    const compacted = await ownEtcd();
    const etcd = open({ endpoints: compacted.endpoints });
    for (const value of ['a', 'b', 'c']) await etcd.put('k', value);
    await etcd.compact(3n);
    const watch = etcd.watch('k', { startRevision: 1n });
    expect(await errorOf(watch[Symbol.asyncIterator]().next())).toMatchObject({
      reason: 'Compacted',
      compactRevision: 3n,
    });
  });

  test('logs in, and watches with the token', async () => {
    const { endpoints } = await authEtcd();
    const etcd = open({ endpoints, auth: USER });
    const watch = etcd.watch('app/k');
    await watch.created();
    await etcd.put('app/k', 'v');
    expect((await watch[Symbol.asyncIterator]().next()).value).toMatchObject({ type: 'put' });
    expect(await errorOf(etcd.put('k', 'v'))).toMatchObject({ reason: 'PermissionDenied' });
    expect(await errorOf(open({ endpoints }).put('app/k', 'v'))).toMatchObject({ reason: 'UserEmpty' });
  });
});

test('a watch that a gateway ends before it was created is asked for again', async () => {
  let requests = 0;
  const url = await serve((request, response) => {
    requests += 1;
    request.resume();
    response.end();
  });
  const watch = open({ endpoints: [url] }).watch('k');
  await expect.poll(() => requests).toBeGreaterThan(1);
  await watch.close();
});

describe('what is sent', () => {
  test.each([
    ['everywhere', undefined, 'true'],
    ['where only headers of CORS may be sent', false, undefined],
  ])('%s has the token, and asks for a leader as it can', async (_, allHeaders, hasLeader) => {
    const requests: IncomingMessage[] = [];
    const url = await serve((request) => void requests.push(request));
    const auth = { token: 'a.token', allowPlaintext: true };
    const etcd = open({ endpoints: [url], auth, transport: gateway({ allHeaders }) });
    const watch = etcd.watch('k');
    await expect.poll(() => requests.length).toBe(1);
    expect(requests[0]?.headers).toMatchObject({ authorization: 'a.token', 'content-type': 'application/json' });
    expect(requests[0]?.headers['grpc-metadata-hasleader']).toBe(hasLeader);
    await watch.close();
  });

  test('goes by the fetch that is given', async () => {
    const urls: string[] = [];
    const etcd = open({
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
    expect(await errorOf(() => open(options))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('is nothing that does not fit, as over any transport', async () => {
    const etcd = open({ maxRequestBytes: 1_000 });
    expect(await errorOf(etcd.put('k', 'x'.repeat(1_001)))).toMatchObject({ reason: 'InvalidInput' });
  });
});

describe('a write', () => {
  const put = (url: string): Promise<unknown> =>
    open({ endpoints: [url] }).put('the-key', 'the-value', { timeoutMs: 400 });

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
      expect(await errorOf(open({ transport }).put('k', 'v'))).toMatchObject({ outcome: 'unknown' });
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
    const url = await serve((request, response) => {
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
      const url = await serve((_, response) => void response.writeHead(404).end(text));
      expect(await errorOf(put(url))).toMatchObject({ reason: 'NotInGateway', outcome: 'rejected' });
    },
  );

  test('that is given up by its signal says that it may have been done', async () => {
    const url = await serve(() => {});
    const giveUp = new AbortController();
    const etcd = open({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v', { signal: giveUp.signal }));
    setTimeout(() => giveUp.abort(), 50);
    expect(await writing).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
  });

  test('ends with its client', async () => {
    const url = await serve(() => {});
    const etcd = open({ endpoints: [url] });
    const writing = errorOf(etcd.put('k', 'v'));
    await etcd.close();
    expect(await writing).toMatchObject({ reason: 'ClientClosed' });
  });
});

test('a watch that is silent is opened anew, from where it was', async () => {
  const key = unique();
  let watches = 0;
  const transport = gateway({
    silenceMs: 100,
    fetch: (url, init) => {
      if (url.endsWith('/v3/watch')) watches += 1;
      return fetch(url, init);
    },
  });
  const watch = open({ transport }).watch(key);
  await watch.created();
  const values: string[] = [];
  for (const value of ['a', 'b', 'c']) {
    const before = watches;
    await expect.poll(() => watches).toBeGreaterThan(before + 1);
    await open().put(key, value);
    const { value: event } = await watch[Symbol.asyncIterator]().next();
    values.push(event?.kv.text());
  }
  expect(values).toEqual(['a', 'b', 'c']);
  await watch.close();
});

test('watches that ask for no number get one each, and a canceled one is told of', async () => {
  const stream = open().raw.watch.watch();
  const created: bigint[] = [];
  for (const key of ['a', 'b']) {
    stream.send({ requestUnion: { case: 'createRequest', value: { key: Buffer.from(key) } } });
    created.push((await stream.next()).value.watchId);
  }
  expect(new Set(created).size).toBe(2);
  stream.send({ requestUnion: { case: 'cancelRequest', value: { watchId: created[1] } } });
  expect((await stream.next()).value).toMatchObject({ watchId: created[1], canceled: true });
  stream.cancel();
});

test('an answer of many small messages is taken as over any transport', async () => {
  const name = unique();
  const puts = Array.from({ length: 100 }, (_, index) => op.put(`${name}/${index}`, ''));
  await open().txn({ then: puts });
  const { kvs } = await open({ maxReceiveBytes: 100 * (name.length + 20) }).range(prefix(`${name}/`));
  expect(kvs).toHaveLength(100);
});

test('an answer that is longer than what is taken is not taken', async () => {
  const name = unique();
  const etcd = open({ maxReceiveBytes: 10_000 });
  await open().put(name, 'x'.repeat(100_000));
  expect(await errorOf(etcd.get(name))).toMatchObject({ code: 'ResourceExhausted' });
});
