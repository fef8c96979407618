import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { monotonicMs } from '../../src/base/timers.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { EtcdError } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import { Channel } from '../../src/rpc/channel.js';
import type { Transport } from '../../src/wire/transport.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

// In these tests, an endpoint speaks HTTP/2, but is not etcd: it is a web server, a proxy that refuses the calls, or
// another gRPC server. The client must use the endpoints that are etcd (rule S30 in docs/semantics.md).

const ETCD = inject('endpoints')[0] as string;

/** Starts a server that speaks HTTP/2 without TLS and answers each request with `answer`. Resolves with its URL. */
async function webServer(answer: (stream: ServerHttp2Stream) => void): Promise<string> {
  const server = createHttp2Server();
  const sessions = new Set<{ destroy(): void }>();
  server.on('session', (session) => void sessions.add(session.on('error', () => {})));
  server.on('stream', (stream) => answer(stream.on('error', () => {})));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a gRPC server without services. Resolves with its URL. */
async function otherGrpcServer(): Promise<string> {
  const server = new Server();
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  onTestFinished(() => server.forceShutdown());
  return `http://127.0.0.1:${port}`;
}

const page = (status: number) => () =>
  webServer((stream) => {
    stream.respond({ ':status': status, 'content-type': 'text/html', server: 'shop/1.2' });
    stream.end('<!doctype html><title>Welcome</title>');
  });

const unimplemented = (message: string) => () =>
  webServer((stream) =>
    stream.respond(
      { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12', 'grpc-message': message },
      { endStream: true },
    ),
  );

/** Each entry describes the answer of a server, and has a function that starts the server. */
const SERVERS: readonly (readonly [string, () => Promise<string>])[] = [
  ...[200, 301, 400, 401, 403, 404, 405, 500, 501].map((status) => [`HTTP status ${status}`, page(status)] as const),
  ['the status of a gRPC server in Go without etcd’s services', unimplemented('unknown service etcdserverpb.KV')],
  ['status UNIMPLEMENTED without a message', unimplemented('')],
  ['the status of a grpc-js server without etcd’s services', otherGrpcServer],
];

describe.for(SERVERS)('when the first endpoint answers with %s and the second endpoint is etcd,', ([, start]) => {
  async function client() {
    return openClient({ endpoints: [await start(), ETCD], balance: 'in-order' });
  }

  test('the first get succeeds', async () => {
    expect(await (await client()).get(unique())).toBeUndefined();
  });

  test('the first session opens', async () => {
    await using session = await Session.open(await client());
    expect(session.valid()).toBe(true);
  });

  test('the first watch is created, and delivers an event', async () => {
    const etcd = await client();
    const key = unique();
    await using watch = etcd.watch(key);
    await watch.created();
    await openClient({ endpoints: [ETCD] }).put(key, 'x');
    expect((await watch.batches().next()).value?.events[0]?.kv.text()).toBe('x');
  });

  test('each put after the first one succeeds', async () => {
    const etcd = await client();
    const key = unique();
    // A proxy may have passed the first put on to a server. So the put may fail, and then its outcome is unknown.
    const first = await etcd.put(key, 'a').catch((error: EtcdError) => error.outcome);
    if (typeof first === 'string') expect(first).toBe('unknown');
    await etcd.put(key, 'b');
    expect((await etcd.get(key))?.text()).toBe('b');
  });
});

describe.for(SERVERS)('a client whose only endpoint answers with %s', ([, start]) => {
  test('fails a get at once with reason NotEtcd', async () => {
    const endpoint = await start();
    const error = await errorOf(openClient({ endpoints: [endpoint], timeoutMs: 600_000 }).get('a'));
    expect(error).toMatchObject({ reason: 'NotEtcd', endpoint });
    expect(error.message).toMatch(/etcd|HTTP status/);
  });

  test('ends a watch with reason NotEtcd', async () => {
    const watch = openClient({ endpoints: [await start()] }).watch('a');
    expect(await errorOf(watch.created())).toMatchObject({ reason: 'NotEtcd' });
  });
});

describe('a client whose only endpoint was etcd before, and now answers with HTTP status 500,', () => {
  /** Returns a channel over an endpoint that answers as etcd once, and then refuses `refusals` times. */
  function channelWith(refusals: number) {
    let answers = 0;
    const refusal = (method: { readonly path: string }): EtcdError =>
      new EtcdError('HTTP status 500', { code: 'Unknown', reason: 'NotEtcd', outcome: 'unknown', method: method.path });
    const isRefused = (): boolean => {
      answers += 1;
      return answers > 1 && answers <= 1 + refusals;
    };
    const transport: Transport = {
      unary: async ({ method }) => {
        if (isRefused()) throw refusal(method);
        return { header: { clusterId: 1n, memberId: 1n, revision: 1n, raftTerm: 1n } } as never;
      },
      stream: ({ method }, handler) => {
        queueMicrotask(() => handler.end(isRefused() ? refusal(method) : undefined));
        const ignore = (): void => {};
        return { send: ignore, end: ignore, cancel: ignore, pause: ignore, resume: ignore };
      },
      close: async () => {},
    };
    return new Channel([parseEndpoint('http://a:1', 'endpoints')], () => transport);
  }

  const limits = () => ({ timeoutMs: 10_000, deadline: monotonicMs() + 10_000 });
  const get = { method: methods.kv.range, request: { key: Buffer.from('k') } };

  test('repeats a get, because a proxy may answer in place of etcd for a while', async () => {
    const channel = channelWith(2);
    await channel.unary({ ...get, ...limits() });
    await channel.unary({ ...get, ...limits() });
    await channel.close();
  });

  test('lets a watch resume', async () => {
    const channel = channelWith(1);
    await channel.unary({ ...get, ...limits() });
    const end = await new Promise<EtcdError | undefined>((resolve) => {
      channel.stream({ method: methods.watch.watch }, { message: () => {}, end: resolve });
    });
    expect(end).toMatchObject({ reason: 'NotEtcd', code: 'Unavailable' });
    await channel.close();
  });
});

test('an error names the HTTP status, the type and the name of the server', async (context) => {
  if (inject('transport') === 'grpc-js') return context.skip('grpc-js hides the headers');
  const error = await errorOf(openClient({ endpoints: [await page(404)()] }).put('a', 'b'));
  expect(error.problem).toContain('HTTP status 404 (content-type: text/html, server: shop/1.2)');
  expect(error).toMatchObject({ reason: 'NotEtcd', outcome: 'unknown', code: 'Unimplemented' });
});

test('a put that is too long for a proxy fails with the HTTP status, and the endpoint stays available', async () => {
  const etcd = openClient({ endpoints: [await page(413)(), ETCD], balance: 'in-order' });
  expect(await errorOf(etcd.put('a', 'b'))).toMatchObject({ outcome: 'unknown', reason: 'Other' });
  expect(etcd.toJSON().unavailable).toEqual([]);
});

test('an endpoint stays available when a call needs a service that this etcd lacks', async () => {
  const endpoint = await unimplemented('unknown service v3lockpb.Lock')();
  const etcd = openClient({ endpoints: [endpoint, ETCD], balance: 'in-order' });
  const error = await errorOf(etcd.raw.lock.unlock({ key: Buffer.from('a') }));
  expect(error).toMatchObject({ code: 'Unimplemented', outcome: 'rejected' });
  expect(error.reason).not.toBe('NotEtcd');
});
