import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { Authority } from '../../../packages/cli/src/proxy/authority.js';
import { methods } from '../../../src/gen/methods.js';
import { parseEndpoint } from '../../../src/host/endpoint.js';
import type { CallerStream } from '../../../src/host/host.js';
import { overCallerStream } from '../../../src/host/node.js';
import { overWebStreams, webByteStream } from '../../../src/host/web-streams.js';
import { type ClientOptions, EtcdError, type Http2Options, http2, prefix } from '../../../src/index.js';
import { Http2Server } from '../../../src/testing/http2-server/server.js';
import { MemoryEtcd } from '../../../src/testing/index.js';
import { http2Over } from '../../../src/wire/http2/http2-transport.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import { startScript } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { type ConnectProxy, connectProxy } from '../../support/connect-proxy.js';
import { errorOf } from '../../support/errors.js';
import { UNTIMED } from '../../support/http2-peer.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { useSecureEtcd } from '../../support/tls/secure-etcd.js';

const ETCD = new URL(inject('endpoints')[0] as string);

const PROGRAM = new URL('../../support/tunnel-program.ts', import.meta.url);

const tcp = (port = Number(ETCD.port)): Socket => connectTcp(port, '127.0.0.1');
const webTcp = (port?: number): CallerStream => Duplex.toWeb(tcp(port)) as CallerStream;
/** A stream without the methods of a socket. */
function duplex(): Duplex {
  const socket = tcp();
  return Duplex.from({ readable: socket, writable: socket });
}

/** Opens a tunnel through the proxy, as docs/connections.md shows. */
function tunnel(proxy: ConnectProxy, credentials?: string): Http2Options['connect'] {
  return ({ address }, { signal }) =>
    new Promise((resolve, reject) => {
      const path = 'host' in address ? `${address.host}:${address.port}` : '';
      const headers = credentials && { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
      request({ port: proxy.port, method: 'CONNECT', path, signal, headers: headers || {} })
        .on('connect', ({ statusCode }, socket, head) => {
          if (statusCode !== 200) return reject(new Error(`the proxy refused the tunnel with status ${statusCode}`));
          socket.unshift(head);
          resolve(socket);
        })
        .on('error', reject)
        .end();
    });
}

function openOver(connect: Http2Options['connect'], options: Partial<ClientOptions> = {}) {
  return openClient({ endpoints: ['http://etcd.internal:2379'], transport: http2({ connect }), ...options });
}

/** Makes one attempt to read a key over the transport, without retries. Resolves with its error. */
function failureOver(factory: TransportFactory, endpoint = 'http://etcd.internal:2379', connectTimeoutMs = 10_000) {
  const transport = factory(parseEndpoint(endpoint, 'endpoint'), { ...UNTIMED, connectTimeoutMs });
  onTestFinished(() => transport.close());
  const time = { timeoutMs: 30_000, deadline: Number.POSITIVE_INFINITY };
  return errorOf(transport.unary({ ...time, method: methods.kv.range, request: { key: Buffer.from('a') } }));
}

const failureOf = (connect: Http2Options['connect'], endpoint?: string, connectTimeoutMs?: number) =>
  failureOver(http2({ connect }), endpoint, connectTimeoutMs);

describe('a client with `http2({ connect })`', () => {
  test('makes calls, watches and renewals through an HTTP proxy to a host that only the proxy can resolve', async () => {
    const proxy = await connectProxy(Number(ETCD.port));
    const etcd = openOver(tunnel(proxy));
    const key = unique();
    await using watch = etcd.watch(key);
    await watch.created();
    const lease = await etcd.lease.grant({ ttl: 60 });
    await using alive = etcd.lease.keepAlive(lease.id);
    await etcd.put(key, 'x', { lease: lease.id });
    for await (const event of watch) {
      expect(event.key).toBe(key);
      break;
    }
    await expect.poll(() => alive.ttl).toBe(60);
    expect(proxy.targets).toEqual(['etcd.internal:2379']);
  });

  test('opens another tunnel after the proxy has closed the tunnels, and the watch continues', async () => {
    const proxy = await connectProxy(Number(ETCD.port));
    const etcd = openOver(tunnel(proxy));
    const key = unique();
    await using watch = etcd.watch(key);
    await watch.created();
    proxy.cut();
    await etcd.get(key);
    await etcd.put(key, 'after');
    for await (const event of watch) {
      expect(event).toMatchObject({ type: 'put' });
      break;
    }
    expect(proxy.targets.length).toBeGreaterThan(1);
  });

  test('reports the refusal of the proxy as the cause of a failed connection', async () => {
    const proxy = await connectProxy(Number(ETCD.port), 'ann:secret');
    const error = await failureOf(tunnel(proxy));
    expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
    expect(error.message).toContain('http://etcd.internal:2379: the proxy refused the tunnel with status 407');
    expect(error.cause).toEqual(new Error('the proxy refused the tunnel with status 407'));
    await openOver(tunnel(proxy, 'ann:secret')).get('a');
  });

  test.each([
    ['a socket', tcp],
    ['a socket as a pair of web streams', webTcp],
    ['a stream that is not a socket', duplex],
  ])('sends and receives large values over %s', async (name, open) => {
    const etcd = openOver(() => open());
    const folder = unique();
    const value = Buffer.alloc(1_000_000, name);
    await Promise.all(Array.from({ length: 10 }, (_, index) => etcd.put(`${folder}/${index}`, value)));
    const { kvs } = await etcd.range(prefix(`${folder}/`));
    expect(kvs.length).toBe(10);
    expect(kvs.every((kv) => value.equals(kv.value))).toBe(true);
    await etcd.delete(prefix(`${folder}/`));
  });

  test('reaches a server in the same process over a pair of `TransformStream`', async () => {
    const server = new Http2Server(new MemoryEtcd().first);
    const connect = (): CallerStream => {
      const [up, down] = [new TransformStream<Uint8Array>(), new TransformStream<Uint8Array>()];
      server.accept('http://etcd.internal:2379', (events) => {
        return webByteStream({ readable: up.readable, writable: down.writable }, events);
      });
      return { readable: down.readable, writable: up.writable };
    };
    const etcd = openOver(connect);
    await using watch = etcd.watch('a');
    await watch.created();
    const value = Buffer.alloc(1_000_000, 'large');
    await etcd.put('a', value);
    for await (const event of watch) {
      expect(event.type === 'put' && value.equals(event.kv.value)).toBe(true);
      break;
    }
    server.close();
    expect((await etcd.get('a'))?.value.length).toBe(1_000_000);
  });

  test('passes the endpoint to `connect`, and opens no connection before the first call', async () => {
    const endpoints: unknown[] = [];
    const connect: Http2Options['connect'] = (endpoint, { signal }) => {
      endpoints.push(endpoint, signal.aborted);
      return tcp();
    };
    const etcd = openOver(connect, { endpoints: ['http://a.test:1'] });
    expect(endpoints).toEqual([]);
    await etcd.get('a');
    const address = { host: 'a.test', port: 1 };
    expect(endpoints).toEqual([{ url: 'http://a.test:1', tls: false, address }, false]);
  });

  test('uses another endpoint when `connect` fails for one endpoint', async () => {
    const connect: Http2Options['connect'] = ({ url }) => {
      if (url.includes('bad')) throw new Error('no route');
      return tcp();
    };
    const endpoints = ['http://bad.test:1', 'http://good.test:1'];
    const etcd = openOver(connect, { endpoints, balance: 'in-order' });
    await etcd.get('a');
    expect(etcd.toJSON().unavailable).toEqual(['http://bad.test:1']);
  });
});

describe('a client with `http2({ connect })` and an https: endpoint', async () => {
  const authority = await Authority.create();
  const etcd = useSecureEtcd(authority);

  test.each([
    ['a tunnel of an HTTP proxy', async () => tunnel(await connectProxy(etcd().port))],
    ['a socket', async () => () => tcp(etcd().port)],
    ['a pair of web streams', async () => () => webTcp(etcd().port)],
  ])('does TLS inside %s, and checks the certificate against the host of the endpoint', async (_, connectOf) => {
    const connect = await connectOf();
    const tls = { ca: authority.cert };
    const client = openOver(connect, { endpoints: ['https://localhost:2379'], tls });
    const value = Buffer.alloc(1_000_000, 'secure');
    await client.put('a', value);
    expect(value.equals((await client.get('a'))?.value ?? new Uint8Array())).toBe(true);

    const named = await failureOver(
      (endpoint, options) => http2({ connect })(endpoint, { ...options, tls }),
      'https://etcd.internal',
    );
    expect(named.message).toMatch(/cannot connect to https:\/\/etcd\.internal:2379: .*altnames.*; .*tls\.serverName/);
    const untrusted = await failureOf(connect, 'https://localhost');
    expect(untrusted).toMatchObject({ reason: 'ConnectFailed' });
    expect(untrusted.message).toContain('set tls.ca');
    await openOver(connect, { tls: { ...tls, serverName: 'localhost' }, endpoints: ['https://etcd.internal'] }).get(
      'a',
    );
  });

  test('advises the right scheme when the peer of the stream does not use TLS', async () => {
    const error = await failureOf(() => tcp(), 'https://etcd.internal');
    expect(error.message).toContain('; check the URL: https: for a server with TLS');
  });

  test.each(['socket', 'plain'])('keeps the process alive while a call is open, and no longer (%s)', async (kind) => {
    const file = join(temporaryFolder(), 'ca.pem');
    writeFileSync(file, authority.cert);
    const child = startScript(PROGRAM, [etcd().endpoint, kind], { environment: { NODE_EXTRA_CA_CERTS: file } });
    expect(await child.rest()).toEqual(['answered']);
    expect(await child.exited).toBe(0);
  });

  test('fails with the cause when the stream fails during the handshake', async () => {
    const cause = new Error('the tunnel broke');
    const silent = (): Duplex => {
      const stream: Duplex = new Duplex({
        read() {},
        write: () => void stream.destroy(cause),
      });
      return stream;
    };
    const error = await failureOf(silent, 'https://etcd.internal');
    expect(error).toMatchObject({ reason: 'ConnectFailed', cause });
    expect(error.message).toContain('the tunnel broke');
  });
});

/** A stream whose peer never answers. `ended` resolves when the client has destroyed the stream. */
function silentStream(): { readonly stream: Duplex; readonly ended: Promise<void> } {
  const stream = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  return { stream, ended: new Promise((resolve) => stream.once('close', resolve)) };
}

describe('a connection fails, and the error contains the reason, when `connect`', () => {
  const thrown = new Error('no tunnel');
  const locked = new TransformStream<Uint8Array>();
  locked.readable.getReader();
  const ended = (): Duplex => {
    const { stream } = silentStream();
    stream.push(null);
    return stream;
  };
  const destroyed = (): Duplex => silentStream().stream.destroy();
  const broken = (): Duplex => {
    const { stream } = silentStream();
    setImmediate(() => stream.destroy(thrown));
    return stream;
  };
  const text = (): Duplex => {
    const { stream } = silentStream();
    return stream.setEncoding('utf8');
  };
  const objects = (): Duplex => {
    const stream = new Duplex({ objectMode: true, read() {}, write: (_chunk, _encoding, done) => done() });
    stream.push({ secret: 1 });
    return stream;
  };
  const webText = (): CallerStream => {
    const { readable, writable } = new TransformStream();
    return { readable: ReadableStream.from(['secret']), writable } as CallerStream & { readable: typeof readable };
  };
  const webFailure = (): CallerStream => {
    const readable = new ReadableStream<Uint8Array>({ start: (controller) => controller.error(thrown) });
    return { readable, writable: new WritableStream() };
  };
  const webRefusal = (): CallerStream => {
    const writable = new WritableStream({ write: () => Promise.reject(thrown) });
    return { readable: new ReadableStream(), writable };
  };
  const webFailureLater = (): CallerStream => {
    const start = (controller: WritableStreamDefaultController): void =>
      void setImmediate(() => controller.error(thrown));
    return { readable: new ReadableStream(), writable: new WritableStream({ start }) };
  };

  test.each<[string, () => unknown, RegExp, unknown]>([
    [
      'throws',
      () => {
        throw thrown;
      },
      /no tunnel/,
      thrown,
    ],
    ['rejects', () => Promise.reject(thrown), /no tunnel/, thrown],
    [
      'throws something that is not an error',
      () => {
        throw 'a secret';
      },
      /connect threw a string/,
      'a secret',
    ],
    [
      'returns nothing',
      () => undefined,
      /the result of connect: got undefined; allowed: a Duplex stream/,
      expect.any(EtcdError),
    ],
    [
      'returns only a readable stream',
      () => ({ readable: new ReadableStream() }),
      /got an object \(Object\)/,
      expect.any(EtcdError),
    ],
    [
      'returns a boolean pair',
      () => ({ readable: true, writable: true }),
      /got an object \(Object\)/,
      expect.any(EtcdError),
    ],
    ['returns a locked stream', () => locked, /locked/, expect.any(Error)],
    ['returns a stream that ends', ended, /the peer closed the connection/, undefined],
    ['returns a destroyed stream', destroyed, /is already closed/, expect.any(Error)],
    ['returns a stream that fails', broken, /no tunnel/, thrown],
    ['returns a stream of text', text, /yields text or objects; allowed: bytes/, expect.any(Error)],
    ['returns a stream of objects', objects, /yields an object \(Object\); allowed: Uint8Array/, expect.any(Error)],
    ['returns a web stream of text', webText, /yields a string; allowed: Uint8Array/, expect.any(Error)],
    ['returns a web stream that has failed', webFailure, /no tunnel/, thrown],
    ['returns a web stream that refuses bytes', webRefusal, /no tunnel/, thrown],
    ['returns a web stream that soon accepts no bytes', webFailureLater, /no tunnel/, thrown],
  ])('%s', async (_, connect, message, cause) => {
    const error = await failureOf(connect as Http2Options['connect']);
    expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent', code: 'Unavailable' });
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('secret');
    expect(error.cause).toEqual(cause);
  });

  test('returns the same stream twice', async () => {
    const stream = tcp();
    const factory = http2({ connect: () => stream });
    const open = openClient({ endpoints: ['http://a.test:1'], transport: factory });
    await open.get('a');
    const error = await failureOver(factory);
    expect(error.message).toContain('connect returned the same stream twice');
    await open.get('a');
  });

  test('never settles: `connectTimeoutMs` ends the attempt, aborts the signal, and destroys a stream that comes late', async () => {
    const late: { resolve: (stream: CallerStream) => void; signal: AbortSignal }[] = [];
    const connect: Http2Options['connect'] = (_, { signal }) =>
      new Promise((resolve) => {
        late.push({ resolve, signal });
      });
    const error = await failureOf(connect, undefined, 20);
    expect(error).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
    expect(error.message).toContain('no answer within connectTimeoutMs = 20');
    expect(late[0]?.signal.aborted).toBe(true);
    const { stream, ended: closed } = silentStream();
    late[0]?.resolve(stream);
    await closed;

    await failureOf(connect, undefined, 20);
    const ends: string[] = [];
    const readable = new ReadableStream<Uint8Array>({ cancel: () => void ends.push('canceled') });
    const writable = new WritableStream<Uint8Array>({ abort: () => void ends.push('aborted') });
    late[1]?.resolve({ readable, writable });
    await expect.poll(() => ends).toEqual(['canceled', 'aborted']);
  });

  test('rejects only after `connectTimeoutMs` has passed, and the late rejection is handled', async () => {
    const error = await failureOf(
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
        }),
      undefined,
      20,
    );
    expect(error.message).toContain('connectTimeoutMs');
  });

  test('is still running when the client is closed, which aborts the signal', async () => {
    let signal: AbortSignal | undefined;
    const etcd = openOver((_, options) => {
      signal = options.signal;
      return new Promise(() => {});
    });
    const call = errorOf(etcd.get('a'));
    await expect.poll(() => signal?.aborted).toBe(false);
    await etcd.close({ drainMs: 50 });
    expect(signal?.aborted).toBe(true);
    expect(await call).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
  });
});

describe('a stream of the caller', () => {
  test.each([
    ['Duplex', (writable: WritableStream<Uint8Array>) => Duplex.fromWeb({ readable: new ReadableStream(), writable })],
    ['pair of web streams', (writable: WritableStream<Uint8Array>) => ({ readable: new ReadableStream(), writable })],
  ] as const)('that is full makes the client wait until it has room (%s)', async (_, streamOf) => {
    for (const over of [overCallerStream, overWebStreams]) {
      const writes: (() => void)[] = [];
      const stream = streamOf(new WritableStream({ write: () => new Promise((resolve) => writes.push(resolve)) }));
      if (over === overWebStreams && stream instanceof Duplex) continue;
      const seen: string[] = [];
      const bytes = over(stream as CallerStream, parseEndpoint('http://a', 'endpoint'), undefined, {
        opened: () => void seen.push('opened'),
        read: () => {},
        drained: () => void seen.push('drained'),
        closed: (problem) => void seen.push(`closed: ${problem}`),
      });
      await expect.poll(() => seen).toEqual(['opened']);
      expect(bytes.write([new Uint8Array(1)])).toBe(true);
      expect(bytes.write([new Uint8Array(200_000), new Uint8Array(200_000)])).toBe(false);
      expect(seen).toEqual(['opened']);
      const timer = setInterval(() => writes.shift()?.(), 1);
      onTestFinished(() => clearInterval(timer));
      await expect.poll(() => seen).toEqual(['opened', 'drained']);
      bytes.close();
      await expect.poll(() => seen).toEqual(['opened', 'drained', 'closed: undefined']);
      expect(bytes.write([new Uint8Array(400_000)])).toBeUndefined();
    }
  });

  test('fails during a call: the error contains the cause, and says that the call may have been processed', async () => {
    const cause = new Error('the tunnel broke');
    let stream: Duplex | undefined;
    const etcd = openOver(() => {
      stream = tcp();
      return stream;
    });
    await etcd.get('a');
    const socket = stream as unknown as Duplex;
    const write = socket.write.bind(socket);
    socket.write = (bytes: Uint8Array): boolean => {
      const hasRoom = write(bytes);
      socket.destroy(cause);
      return hasRoom;
    };
    const put = errorOf(etcd.put('a', Buffer.alloc(1_000_000)));
    expect(await put).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown', cause });
    await etcd.get('a');
  });

  test('emits an error after the client has closed it, and the error is handled', async () => {
    const { stream, ended } = silentStream();
    const error = await failureOf(() => stream, undefined, 20);
    expect(error.message).toContain('no answer within');
    await ended;
    stream.emit('error', new Error('late'));
  });

  test.each([
    ['small', 1_024],
    ['large', 16_777_216],
  ])('with a %s buffer bounds the bytes that the client buffers, and all calls succeed', async (_, highWaterMark) => {
    const gate: (() => void)[] = [];
    let isOpen = true;
    let stream: Duplex | undefined;
    const connect = (): Duplex => {
      const socket = tcp();
      const own: Duplex = new Duplex({
        highWaterMark,
        read: () => void socket.resume(),
        write(chunk, _encoding, done) {
          const send = (): void => void socket.write(chunk, () => done());
          if (isOpen) send();
          else gate.push(send);
        },
        destroy: (error, done) => {
          socket.destroy();
          done(error);
        },
      });
      socket.on('data', (bytes) => own.push(bytes) || socket.pause()).on('end', () => own.push(null));
      stream = own;
      return own;
    };
    const etcd = openOver(connect);
    await etcd.get('a');
    isOpen = false;
    const folder = unique();
    const puts = Array.from({ length: 40 }, (__, index) => etcd.put(`${folder}/${index}`, Buffer.alloc(1_000_000)));
    await expect.poll(() => gate.length).toBe(1);
    // The server's flow-control windows limit how much the client may send. They are larger than a small buffer.
    expect(stream?.writableLength).toBeLessThan(highWaterMark + 524_288);
    isOpen = true;
    for (const send of gate.splice(0)) send();
    await Promise.all(puts);
    expect((await etcd.range(prefix(`${folder}/`), { countOnly: true })).count).toBe(40);
    await etcd.delete(prefix(`${folder}/`));
  });

  test.each(['socket', 'plain'])('keeps the process alive while a call is open, and no longer (%s)', async (kind) => {
    const child = startScript(PROGRAM, [ETCD.origin, kind]);
    expect(await child.rest()).toEqual(['answered']);
    expect(await child.exited).toBe(0);
  });

  test('is closed when the client is closed', async () => {
    let peer: Socket | undefined;
    const proxy = createServer((socket) => {
      peer = socket;
      socket.pipe(tcp()).pipe(socket);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void proxy.close());
    const { port } = proxy.address() as { port: number };
    for (const open of [tcp, webTcp]) {
      const etcd = openOver(() => open(port));
      await etcd.get('a');
      await etcd.close();
      await expect.poll(() => peer?.destroyed).toBe(true);
    }
  });
});

describe('in a runtime without sockets of Node.js, `http2({ connect })`', () => {
  const over = (connect: () => CallerStream) =>
    http2Over((endpoint, tls, events) => overWebStreams(connect(), endpoint, tls, events));

  test('makes calls over web streams', async () => {
    const etcd = openClient({ endpoints: ['http://etcd.internal'], transport: over(webTcp) });
    const [key, value] = [unique(), Buffer.alloc(1_500_000, 'web')];
    await Promise.all(Array.from({ length: 10 }, () => etcd.put(key, value)));
    expect(value.equals((await etcd.get(key))?.value ?? new Uint8Array())).toBe(true);
    await etcd.close();
  });

  test('reports a write that the runtime refuses, although the stream itself does not fail', async () => {
    // workerd refuses to write to a socket that another request has opened.
    const cause = new Error('Cannot perform I/O on behalf of a different request');
    let isForeign = false;
    const connect = (): CallerStream => {
      const { readable, writable } = webTcp() as { readable: ReadableStream; writable: WritableStream };
      const getWriter = (): WritableStreamDefaultWriter => {
        const writer = writable.getWriter();
        const write = writer.write.bind(writer);
        writer.write = (bytes) => (isForeign ? Promise.reject(cause) : write(bytes));
        return writer;
      };
      return { readable, writable: { getWriter, abort: () => writable.abort() } } as CallerStream;
    };
    const etcd = openClient({ endpoints: ['http://etcd.internal'], transport: over(connect) });
    await etcd.get('a');
    isForeign = true;
    const error = await errorOf(etcd.put('a', 'b'));
    expect(error).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown', cause });
    isForeign = false;
    await etcd.put('a', 'c');
  });

  test('refuses https: endpoints and streams of Node.js, and says what to do', () => {
    const events = { opened() {}, read() {}, drained() {}, closed() {} };
    const endpoint = (url: string) => parseEndpoint(url, 'endpoint');
    expect(() => overWebStreams(webTcp(), endpoint('https://a'), undefined, events)).toThrow('use an http: endpoint');
    expect(() => overWebStreams(tcp(), endpoint('http://a'), undefined, events)).toThrow(
      'allowed in this runtime: { readable, writable }',
    );
  });
});

test('`http2` refuses options that are invalid, and says what is allowed', async () => {
  for (const [options, message] of [
    [{ connect: 'socks5://127.0.0.1' }, 'connect: got a string; allowed: a function'],
    [{ windowBytes: 1_023 }, 'windowBytes: got the number 1023; allowed: a whole number from 1024 to 2147483647'],
    [
      { windowBytes: 2 ** 31 },
      'windowBytes: got the number 2147483648; allowed: a whole number from 1024 to 2147483647',
    ],
    [undefined, 'options: got undefined'],
  ] as const) {
    const error = await errorOf(() => http2(options as never));
    expect(error).toMatchObject({ reason: 'InvalidInput' });
    expect(error.message).toContain(message);
  }
});

test('`Client` refuses an option `connect`, and names the function that has it', async () => {
  const error = await errorOf(() => openClient({ connect: tcp } as never));
  expect(error.message).toContain('the unknown option connect for Client (use transport: http2({ connect }))');
});
