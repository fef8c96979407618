import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect as connectSocket, createServer, type Server, type Socket } from 'node:net';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { Authority } from '../../../packages/cli/src/proxy/authority.js';
import { methods } from '../../../src/gen/methods.js';
import { type ConnectOptions, connect, type EtcdError, type Interceptor } from '../../../src/index.js';
import { freePorts } from '../../../src/testing/etcd/free-ports.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import { enableAuth, ROOT, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { useSecureEtcd } from '../../support/tls/secure-etcd.js';

const ETCD = inject('endpoints')[0] as string;
const REFUSED = 'http://127.0.0.1:1';

/** Connects, and closes the client when the test ends. */
async function connected(options: ConnectOptions) {
  const etcd = await connect(options);
  onTestFinished(() => etcd.close());
  return etcd;
}

/** Opens a port, and closes it when the test ends. Resolves with the URL, and with the connections of clients. */
async function port(server: Server): Promise<{ readonly url: string; readonly sockets: ReadonlySet<Socket> }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) =>
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket))),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
}

const silentPort = () => port(createServer((socket) => socket.resume()));

describe('`connect` resolves with a client', () => {
  test('that reads and writes', async () => {
    const etcd = await connected({ endpoints: [ETCD], failFastMs: 10_000 });
    const key = unique();
    await etcd.put(key, 'x');
    expect((await etcd.get(key))?.text()).toBe('x');
  });

  test('as soon as one endpoint answers, although the others refuse connections or are silent', async () => {
    const { url } = await silentPort();
    const endpoints = [REFUSED, url, ETCD];
    const etcd = await connected({ endpoints, failFastMs: 600_000, connectTimeoutMs: 600_000 });
    expect(etcd.endpoints).toEqual(endpoints);
  });

  test('of a server in the same process', async () => {
    const etcd = await connected({ transport: memory(new MemoryEtcd()) });
    await etcd.put('a', 'b');
  });

  test('that its signal no longer affects', async () => {
    const controller = new AbortController();
    const etcd = await connected({ endpoints: [ETCD], signal: controller.signal });
    controller.abort();
    await etcd.get('a');
  });

  test('whose credentials are valid, although its user may not read the key that `connect` reads', async () => {
    const { endpoints } = await ownEtcd();
    await enableAuth(openClient({ endpoints }));
    const etcd = await connected({ endpoints: [REFUSED, ...endpoints], auth: USER });
    await etcd.put('app/a', 'x');
  });

  test('that has credentials, although the cluster does not require any', async () => {
    await connected({ endpoints: [ETCD], auth: USER });
  });
});

/** Returns the error of `connect`, and checks what all these errors have in common. */
async function failureOf(options: ConnectOptions): Promise<EtcdError> {
  const error = await errorOf(connect({ failFastMs: 600_000, ...options } as ConnectOptions));
  expect(error).toMatchObject({ outcome: 'not-sent', method: undefined });
  return error;
}

describe('`connect` rejects at once and says what to do when', async () => {
  const authority = await Authority.create();
  const secure = useSecureEtcd(authority);
  const withScheme = (scheme: string, url: string): string => url.replace(/^\w+:/, `${scheme}:`);

  test('no program listens at the port', async () => {
    const error = await failureOf({ endpoints: [REFUSED] });
    expect(error).toMatchObject({ reason: 'ConnectFailed', code: 'Unavailable' });
    expect(error.cause).toMatchObject({ code: 'ECONNREFUSED' });
    expect(error.message).toBe(
      `cannot connect to ${REFUSED}: connect ECONNREFUSED 127.0.0.1:1; no program listens there: start etcd, or correct the host and the port (etcd serves clients at 2379)`,
    );
  });

  test('the host name does not exist', async () => {
    const error = await failureOf({ endpoints: ['http://nowhere.invalid'] });
    expect(error.message).toMatch(/^cannot connect to http:\/\/nowhere\.invalid:2379: .*; correct the host name/);
  });

  test('no program listens at the path of a Unix socket', async () => {
    const error = await failureOf({ endpoints: ['unix:///nowhere/etcd.sock'] });
    expect(error.message).toContain('ENOENT /nowhere/etcd.sock; no program listens at this path');
  });

  test('an https: endpoint has no TLS', async () => {
    const error = await failureOf({ endpoints: [withScheme('https', ETCD)] });
    expect(error.message).toMatch(/^cannot connect to https:.*; check the URL: https: for a server with TLS/);
  });

  test('an http: endpoint has TLS', async () => {
    const error = await failureOf({ endpoints: [withScheme('http', secure().endpoint)] });
    expect(error.message).toMatch(/^cannot connect to http:.*; check the URL: https: for a server with TLS/);
  });

  test('the certificate is not trusted, or is for another name', async () => {
    const endpoints = [secure().endpoint];
    expect((await failureOf({ endpoints })).message).toContain('; set tls.ca to the authority that issued it');
    const tls = { ca: authority.cert, serverName: 'etcd.internal' };
    expect((await failureOf({ endpoints, tls })).message).toContain('; set tls.serverName if');
    await connected({ endpoints, tls: { ca: authority.cert } });
  });

  test('the peer answers in HTTP/1.1', async () => {
    const { url } = await port(createHttpServer((_, response) => response.end('hello')));
    const error = await failureOf({ endpoints: [url] });
    expect(error.message).toContain('the peer answers in HTTP/1');
    expect(error.message).toContain('the port is not for clients of etcd, or a proxy in front of etcd lacks HTTP/2');
  });

  test('the port is the peer port of a member', async () => {
    const [member] = (await openClient().cluster.memberList()).members;
    const error = await failureOf({ endpoints: [member?.peerUrls[0] ?? ''] });
    expect(error.message).toContain('the port is not for clients of etcd');
  });

  test('the peer closes each connection', async () => {
    const { url } = await port(createServer((socket) => socket.end()));
    expect((await failureOf({ endpoints: [url] })).message).toContain('check the URL');
  });

  test('the peer does not answer within `connectTimeoutMs`', async () => {
    const { url } = await silentPort();
    const error = await failureOf({ endpoints: [url], connectTimeoutMs: 50 });
    expect(error.message).toContain('no answer within connectTimeoutMs = 50; check the address');
  });

  test('a transport refuses the options', async () => {
    const transport = () => {
      throw new Error('refused');
    };
    await expect(connect({ endpoints: [ETCD], transport })).rejects.toThrow('refused');
  });

  test('several endpoints fail, each for its own reason', async () => {
    const endpoints = [REFUSED, withScheme('https', ETCD), secure().endpoint];
    const error = await failureOf({ endpoints });
    expect(error).toMatchObject({ reason: 'ConnectFailed', cause: expect.any(AggregateError) });
    const [title, ...lines] = error.message.split('\n');
    expect(title).toBe('cannot connect to any of 3 endpoints:');
    expect(lines).toEqual([
      expect.stringMatching(`^- ${endpoints[0]}: connect ECONNREFUSED.*; no program listens there`),
      expect.stringMatching(`^- ${endpoints[1]}: .*; check the URL`),
      expect.stringMatching(`^- ${endpoints[2]}: .*; set tls.ca`),
    ]);
    expect((error.cause as AggregateError).errors).toMatchObject(endpoints.map((endpoint) => ({ endpoint })));
  });
});

describe('`connect` rejects when `failFastMs` has passed and', () => {
  test('a peer accepts the connection but does not answer', async () => {
    const { url, sockets } = await silentPort();
    const error = await failureOf({ endpoints: [REFUSED, url], failFastMs: 100, connectTimeoutMs: 600_000 });
    expect(error.reason).toBe('ConnectFailed');
    expect(error.message).toContain(`- ${url}: no answer within failFastMs = 100; check the address`);
    await expect.poll(() => sockets.size).toBe(0);
  });

  test('a member has no leader', async (context) => {
    const { endpoints, members } = await ownEtcd({ members: 3 });
    const [first, ...others] = members;
    if (first === undefined) return context.skip('the tests did not start the servers, so they cannot kill them');
    await Promise.all(others.map((member) => member.kill()));
    const status = () => openClient({ endpoints: [first.endpoint] }).maintenance.status(first.endpoint);
    await expect.poll(async () => (await status()).leader).toBe(0n);
    const error = await failureOf({ endpoints: [first.endpoint], failFastMs: 500 });
    expect(error).toMatchObject({ reason: 'NoLeader', code: 'Unavailable', endpoint: first.endpoint });
    expect(error.message).toContain('it had no leader within failFastMs = 500; start the other members');
    const all = await failureOf({ endpoints, failFastMs: 500 });
    expect(all.message).toContain(`- ${first.endpoint}: the member answers, but it had no leader`);
    expect(all.message).toContain(`- ${others[0]?.endpoint}: connect ECONNREFUSED`);
  });
});

describe('`connect` rejects with the reason of the member when', () => {
  test('the cluster requires authentication, or refuses the credentials', async () => {
    const { endpoints } = await ownEtcd();
    await enableAuth(openClient({ endpoints }));
    const missing = await errorOf(connect({ endpoints }));
    expect(missing).toMatchObject({ reason: 'UserEmpty', outcome: 'rejected' });
    expect(missing.message).toContain('the cluster requires authentication; set auth');
    const wrong = await errorOf(connect({ endpoints: [REFUSED, ...endpoints], auth: { ...ROOT, password: 'wrong' } }));
    expect(wrong).toMatchObject({ reason: 'AuthFailed' });
    expect(wrong.message).not.toContain('wrong');
    const token = await errorOf(connect({ endpoints, auth: { token: 'wrong', allowPlaintext: true } }));
    expect(token).toMatchObject({ reason: 'InvalidAuthToken' });
  });
});

test('`connect` rejects with reason `Canceled` when its signal aborts', async () => {
  const { url, sockets } = await silentPort();
  const controller = new AbortController();
  const rejected = errorOf(connect({ endpoints: [url], signal: controller.signal, failFastMs: 600_000 }));
  await expect.poll(() => sockets.size).toBe(1);
  controller.abort();
  expect(await rejected).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  await expect.poll(() => sockets.size).toBe(0);
  const late = await errorOf(connect({ endpoints: [url], signal: AbortSignal.abort() }));
  expect(late).toMatchObject({ reason: 'Canceled' });
});

test('`connect` closes its client and its connections when it rejects', async () => {
  const etcd = new MemoryEtcd();
  const { url, sockets } = await port(createServer((socket) => socket.resume()));
  let [opened, closed] = [0, 0];
  const inner = memory(etcd);
  const counted: TransportFactory = (endpoint, options) => {
    opened += 1;
    const made = inner(endpoint, options);
    return {
      unary: (call) => made.unary(call),
      stream: (call, handler) => made.stream(call, handler),
      close: async () => {
        closed += 1;
        await made.close();
      },
    };
  };
  const transport = Object.assign(counted, { endpoints: inner.endpoints });
  etcd.stop();
  await errorOf(connect({ transport, failFastMs: 50 }));
  expect([opened, closed]).toEqual([2, 2]);
  await errorOf(connect({ endpoints: [url], failFastMs: 50 }));
  await expect.poll(() => sockets.size).toBe(0);
});

test('`connect` waits for an etcd that starts within `waitMs`, and its logger tells of the wait once', async () => {
  const [free = 0] = await freePorts(1);
  const lines: string[] = [];
  const start = async (): Promise<void> => {
    const server = createServer((socket) => {
      const upstream = connectSocket(Number(new URL(ETCD).port), '127.0.0.1').on('error', () => socket.destroy());
      socket
        .on('error', () => upstream.destroy())
        .pipe(upstream)
        .pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(free, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
  };
  const logger = {
    info: () => {},
    warn: (message: string) => {
      if (lines.push(message) === 1) void start();
    },
  };
  const etcd = await connected({ endpoints: [`http://127.0.0.1:${free}`], waitMs: 60_000, logger });
  await etcd.get(unique());
  expect(lines).toEqual(['endpoint unavailable']);
});

test('`connect` rejects when no endpoint has answered within `waitMs`', async () => {
  let reads = 0;
  const counting: Interceptor = {
    unary: (call, next) => {
      if (call.method.path === methods.kv.range.path) reads += 1;
      return next(call);
    },
  };
  const error = await errorOf(connect({ endpoints: [REFUSED], waitMs: 500, interceptors: [counting] }));
  expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
  expect(reads).toBeGreaterThan(1);
});

test('`connect` stops waiting when its signal aborts', async () => {
  const controller = new AbortController();
  const logger = { info: () => {}, warn: () => controller.abort() };
  const rejected = connect({ endpoints: [REFUSED], waitMs: 600_000, logger, signal: controller.signal });
  expect(await errorOf(rejected)).toMatchObject({ reason: 'Canceled' });
});

test('`connect` refuses invalid options', async () => {
  for (const options of [{ failFastMs: 0 }, { failFastMs: '1s' }, { signal: {} }, { endpoints: [] }, { auth: {} }]) {
    const error = await errorOf(connect({ endpoints: [ETCD], ...options } as never));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  }
});
