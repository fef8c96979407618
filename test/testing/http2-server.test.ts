import { describe, expect, onTestFinished, test } from 'vitest';
import { NO_BYTES, textOf } from '../../src/base/bytes.js';
import { monotonicMs } from '../../src/base/timers.js';
import type { RangeResponse, WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { openByteStream } from '../../src/host/node.js';
import { type InProcessConnection, inProcess } from '../../src/testing/http2-server/in-process.js';
import { type Listener, openPort } from '../../src/testing/http2-server/listen.js';
import { type Clock, ManualClock } from '../../src/testing/memory/clock.js';
import { StatusError } from '../../src/testing/memory/service.js';
import { http2Over } from '../../src/wire/http2/http2-transport.js';
import type { Metadata, OutgoingStream, Transport } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { CREATE_WATCH } from '../support/http2-calls.js';
import { turn, UNTIMED } from '../support/http2-peer.js';
import { type Connected, connectInProcess, listening, served, UNUSUAL_TEXT } from '../support/http2-server.js';

// These tests connect this package's own client to the HTTP/2 server, over a byte stream in this process and over a
// port.

interface ConnectedToPort extends Connected {
  readonly listener: Listener;
}

async function connectToPort(): Promise<ConnectedToPort> {
  const served = await listening();
  return { ...served, endpoint: served.listener.endpoint, transport: overPort(served.listener) };
}

function overPort({ endpoint }: Listener): Transport {
  const options = { ...UNTIMED, maxReceiveBytes: 2 ** 24 };
  const transport = http2Over(openByteStream)(parseEndpoint(endpoint, 'endpoint'), options);
  onTestFinished(() => transport.close());
  return transport;
}

const UNLIMITED = { timeoutMs: 1_000, deadline: Number.POSITIVE_INFINITY };

interface RangeOptions {
  readonly metadata?: Metadata;
  readonly signal?: AbortSignal;
  readonly deadline?: number;
}

function range(transport: Transport, key: string, options: RangeOptions = {}): Promise<RangeResponse> {
  return transport.unary({ method: methods.kv.range, request: { key: Buffer.from(key) }, ...UNLIMITED, ...options });
}

async function putBytes(transport: Transport, bytes: number): Promise<bigint | undefined> {
  const request = { key: Buffer.from('a'), value: new Uint8Array(bytes) };
  const { prevKv } = await transport.unary({ method: methods.kv.put, request, ...UNLIMITED });
  return prevKv?.version;
}

/** A watch stream at the client. */
interface OpenWatch {
  readonly stream: OutgoingStream<WatchRequest>;
  readonly messages: WatchResponse[];
  /** Resolves with the error of the stream, or undefined for status OK. */
  readonly ended: Promise<Error | undefined>;
  /** Resolves when this many messages have arrived. */
  received(count: number): Promise<void>;
}

function watch(transport: Transport): OpenWatch {
  const messages: WatchResponse[] = [];
  let wake = (): void => {};
  let end: (error: Error | undefined) => void;
  const ended = new Promise<Error | undefined>((resolve) => {
    end = resolve;
  });
  const stream = transport.stream(
    { method: methods.watch.watch },
    {
      message: (message) => {
        messages.push(message);
        wake();
      },
      end: (error) => end(error),
    },
  );
  const received = async (count: number): Promise<void> => {
    while (messages.length < count)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  };
  return { stream, messages, ended, received };
}

/** Returns the number of remaining bytes in each response of a snapshot. */
function snapshot(transport: Transport): Promise<bigint[]> {
  return new Promise((resolve, reject) => {
    const remaining: bigint[] = [];
    const stream = transport.stream(
      { method: methods.maintenance.snapshot },
      {
        message: ({ remainingBytes }) => void remaining.push(remainingBytes),
        end: (error) => (error === undefined ? resolve(remaining) : reject(error)),
      },
    );
    stream.send({});
    stream.end();
  });
}

/** The two ways by which this package's client reaches the server. */
const WAYS = [
  ['in process', async () => connectInProcess()],
  ['on a port', connectToPort],
] as const;

describe.for(WAYS)('an HTTP/2 server %s', ([, connect]) => {
  test('answers unary calls', async () => {
    const { transport } = await connect();
    const { kvs, count } = await range(transport, 'a');
    expect([textOf(kvs[0]?.key ?? NO_BYTES), count]).toEqual(['a', 1n]);
  });

  test('answers 200 calls at the same time', async () => {
    const { transport } = await connect();
    const answers = await Promise.all(Array.from({ length: 200 }, (_, index) => range(transport, `${index}`)));
    expect(answers.map(({ kvs }) => Number(textOf(kvs[0]?.key ?? NO_BYTES)))).toEqual([...answers.keys()]);
  });

  test.for([0, 1, 16_379, 16_380, 65_536, 1_500_000, 9_000_000])('sends a response of %d bytes', async (bytes) => {
    const { transport } = await connect();
    const { kvs } = await range(transport, `${bytes} bytes`);
    expect(kvs[0]?.value.length).toBe(bytes);
  });

  test.for([0, 1, 16_379, 16_380, 65_536, 2_000_000])('receives a request of %d bytes', async (bytes) => {
    const { transport } = await connect();
    expect(await putBytes(transport, bytes)).toBe(BigInt(bytes));
  });

  test('passes the metadata and the endpoint of a call to the handler', async () => {
    const { transport, service, endpoint } = await connect();
    await range(transport, 'a', { metadata: { token: 'simple.7', hasleader: 'true' } });
    expect({ ...service.calls[0]?.metadata }).toEqual({
      'user-agent': 'etcdwire',
      token: 'simple.7',
      hasleader: 'true',
    });
    expect(service.calls[0]?.endpoint).toBe(endpoint);
  });

  test.for([
    ['status', 'OutOfRange', 'etcdserver: mvcc: required revision has been compacted'],
    ['text', 'NotFound', UNUSUAL_TEXT],
  ] as const)('ends a unary call with the status of the handler: %s', async ([key, code, problem]) => {
    const { transport } = await connect();
    expect(await errorOf(range(transport, key))).toMatchObject({ code, problem });
  });

  test('ends a unary call with status Internal when the handler throws an error other than a StatusError', async () => {
    const { transport } = await connect();
    const error = await errorOf(range(transport, 'defect'));
    expect(error).toMatchObject({ code: 'Internal', problem: expect.stringContaining('TypeError: a defect') });
  });

  test('reports an unknown method and an unknown service with the texts of grpc-go', async () => {
    const { transport } = await connect();
    const call = (path: `/${string}/${string}`): Promise<unknown> =>
      errorOf(transport.unary({ ...UNLIMITED, method: { ...methods.kv.range, path }, request: {} }));
    expect(await call('/etcdserverpb.KV/Take')).toMatchObject({
      code: 'Unimplemented',
      problem: 'unknown method Take for service etcdserverpb.KV',
    });
    expect(await call('/a.b/c/D')).toMatchObject({ code: 'Unimplemented', problem: 'unknown service a.b/c' });
  });

  test('carries requests and responses of a bidirectional stream in order', async () => {
    const { transport, service } = await connect();
    const { stream, messages, received, ended } = watch(transport);
    for (let count = 0; count < 100; count += 1) stream.send(CREATE_WATCH);
    await received(100);
    for (let id = 101n; id <= 200n; id += 1n) service.watch.responses.send({ watchId: id });
    await received(200);
    stream.end();
    expect(await ended).toBeUndefined();
    expect(messages.map(({ watchId }) => Number(watchId))).toEqual(
      Array.from({ length: 200 }, (_, index) => index + 1),
    );
    expect(service.watch.ends).toEqual(['half-closed']);
  });

  test('answers a server-streaming call after its request', async () => {
    const { transport } = await connect();
    expect(await snapshot(transport)).toEqual([2n, 1n, 0n]);
  });

  test('notifies the handler when the client cancels a stream', async () => {
    const { transport, service } = await connect();
    const { stream, received } = watch(transport);
    stream.send(CREATE_WATCH);
    await received(1);
    stream.cancel();
    await range(transport, 'a');
    expect(service.watch).toMatchObject({ ends: ['canceled'], call: { signal: { aborted: true } } });
  });

  test('notifies the handler when the client cancels a unary call', async () => {
    const { transport, service } = await connect();
    const controller = new AbortController();
    const call = errorOf(range(transport, 'held', { signal: controller.signal }));
    await range(transport, 'a');
    controller.abort();
    await call;
    await range(transport, 'a');
    expect(service.held[0]?.call.signal.aborted).toBe(true);
    service.held[0]?.answer();
    await range(transport, 'a');
  });

  test('ends a stream with the status of the handler, after all responses', async () => {
    const { transport, service } = await connect();
    const { stream, messages, received, ended } = watch(transport);
    stream.send(CREATE_WATCH);
    await received(1);
    for (let part = 0; part < 100; part += 1)
      service.watch.responses.send({ watchId: 1n, cancelReason: 'x'.repeat(100_000) });
    service.watch.responses.end(new StatusError('Unavailable', 'etcdserver: no leader'));
    service.watch.responses.send({ watchId: 2n });
    expect(await ended).toMatchObject({ code: 'Unavailable', problem: 'etcdserver: no leader' });
    expect(messages.length).toBe(101);
    expect(service.watch.ends).toEqual([]);
  });

  test('keeps responses that the client does not read, and sends them when it reads again', async () => {
    const { transport, service } = await connect();
    const { stream, messages, received } = watch(transport);
    stream.send(CREATE_WATCH);
    await received(1);
    stream.pause();
    // The server sends twice as many bytes as the receive window of the client's stream has.
    for (let part = 0; part < 80; part += 1)
      service.watch.responses.send({ watchId: 1n, cancelReason: 'x'.repeat(100_000) });
    await range(transport, 'a');
    expect(messages.length).toBe(1);
    stream.resume();
    await received(81);
  });

  test('refuses a request that is larger than the limit, with the text of grpc-go', async () => {
    const { transport } = await connect();
    expect(await errorOf(putBytes(transport, 2_097_152))).toMatchObject({
      code: 'ResourceExhausted',
      problem: 'grpc: received message larger than max (2097160 vs. 2097152)',
    });
  });

  test('finishes open calls, and makes the client open new calls on a new connection, when it shuts down gracefully', async () => {
    const { transport, service, server } = await connect();
    const held = range(transport, 'held');
    const { stream, received, ended } = watch(transport);
    stream.send(CREATE_WATCH);
    await received(1);
    server.leave();
    await range(transport, 'a');
    while (server.connections < 2) await range(transport, 'a');
    service.held[0]?.answer();
    await held;
    expect(server.connections).toBe(2);
    service.watch.responses.end();
    expect(await ended).toBeUndefined();
    while (server.connections > 1) await range(transport, 'a');
  });

  test('ends open calls when it closes the connections', async () => {
    const { transport, service, server } = await connect();
    const held = errorOf(range(transport, 'held'));
    await range(transport, 'a');
    server.close();
    expect(await held).toMatchObject({ code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
    expect(service.held[0]?.call.signal.aborted).toBe(true);
    expect(server.connections).toBe(0);
    await range(transport, 'a');
  });

  test('refuses connections while the service accepts none', async () => {
    const { transport, service, server } = await connect();
    await range(transport, 'a');
    service.stop();
    expect(server.connections).toBe(0);
    // The client may still send the first call on the connection that the server has closed.
    await errorOf(range(transport, 'a'));
    expect(await errorOf(range(transport, 'a'))).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
    service.accepts = true;
    await range(transport, 'a');
  });
});

describe('the deadline of a call to the HTTP/2 server', () => {
  test('ends the call at the server when the clock of the server reaches the deadline', async () => {
    const clock = new ManualClock();
    const { transport, service } = connectInProcess({ clock });
    const held = errorOf(range(transport, 'held', { deadline: monotonicMs() + 60_000 }));
    await range(transport, 'a');
    const [call] = service.held;
    clock.advance(59_000);
    expect(call?.call.signal.aborted).toBe(false);
    clock.advance(1_001);
    expect(call?.call.signal.aborted).toBe(true);
    expect(await held).toMatchObject({ code: 'Canceled' });
  });

  test('leaves no timer when the call ends before the deadline', async () => {
    const timers = new Set<() => void>();
    const clock: Clock = {
      now: () => 0,
      after: (_, action) => {
        timers.add(action);
        return () => timers.delete(action);
      },
    };
    const { transport } = connectInProcess({ clock });
    await range(transport, 'a', { deadline: monotonicMs() + 60_000 });
    expect(timers.size).toBe(0);
  });
});

describe('a connection to the HTTP/2 server in the same process', () => {
  test('delivers the bytes of each direction in order when the deliveries run in another order', async () => {
    let turnOf = 7;
    const waiting: (() => void)[] = [];
    const { transport } = connectInProcess({}, (_, run) => waiting.push(run));
    const answers = Array.from({ length: 20 }, (_, index) => range(transport, `${index}`));
    let open = true;
    const all = Promise.all(answers).finally(() => {
      open = false;
    });
    while (open) {
      turnOf = (turnOf * 31 + 17) % 1_009;
      waiting.splice(turnOf % Math.max(1, waiting.length), 1)[0]?.();
      await turn();
    }
    expect((await all).map(({ kvs }) => Number(textOf(kvs[0]?.key ?? NO_BYTES)))).toEqual([...answers.keys()]);
  });

  test('passes each delivery with its direction to `deliver`', async () => {
    const seen: string[] = [];
    const { transport } = connectInProcess({}, ({ direction, bytes }, run) => {
      seen.push(`${direction} ${bytes.length}`);
      queueMicrotask(run);
    });
    await range(transport, 'a');
    expect(seen.slice(0, 4)).toEqual(['to-server 0', 'to-client 0', 'to-client 1', 'to-server 1']);
  });

  test('closes at both ends when it is cut', async () => {
    const connections = new Set<InProcessConnection>();
    const { transport, service, server } = connectInProcess({}, ({ connection }, run) => {
      connections.add(connection);
      queueMicrotask(run);
    });
    const held = errorOf(range(transport, 'held'));
    await range(transport, 'a');
    for (const connection of connections) connection.cut('the cable is cut');
    expect(await held).toMatchObject({
      reason: 'ConnectionLost',
      problem: expect.stringContaining('the cable is cut'),
    });
    expect(service.held[0]?.call.signal.aborted).toBe(true);
    expect(server.connections).toBe(0);
    await range(transport, 'a');
    expect(connections.size).toBe(2);
  });

  test('delivers no bytes after it was cut', async () => {
    const waiting: (() => void)[] = [];
    const connections = new Set<InProcessConnection>();
    const { transport } = connectInProcess({}, ({ connection }, run) => {
      connections.add(connection);
      waiting.push(run);
    });
    const call = errorOf(range(transport, 'a'));
    await turn();
    for (const connection of connections) connection.cut();
    expect(await call).toMatchObject({ reason: 'ConnectFailed' });
    for (const run of waiting) run();
  });

  test('stops the sender while many bytes have not been delivered', async () => {
    const waiting: (() => void)[] = [];
    let stalled = false;
    let undelivered = 0;
    const { transport, service } = connectInProcess({}, ({ direction, bytes }, run) => {
      if (!stalled || direction === 'to-server') return queueMicrotask(run);
      undelivered += bytes.reduce((sum, part) => sum + part.length, 0);
      waiting.push(run);
    });
    const { stream, received } = watch(transport);
    stream.send(CREATE_WATCH);
    await received(1);
    stalled = true;
    for (let part = 0; part < 20; part += 1) {
      service.watch.responses.send({ watchId: 1n, cancelReason: 'x'.repeat(100_000) });
      await turn();
    }
    expect(undelivered).toBeLessThan(2 * 262_144);
    stalled = false;
    for (const run of waiting) run();
    await received(21);
  });

  test('does not support TLS', async () => {
    const { server } = served();
    const endpoint = parseEndpoint('https://memory.test', 'endpoint');
    const transport = http2Over(inProcess(server))(endpoint, { ...UNTIMED, tls: {} });
    onTestFinished(() => transport.close());
    expect(await errorOf(range(transport, 'a'))).toMatchObject({ problem: expect.stringContaining('TLS') });
  });
});

describe('a listener of the HTTP/2 server', () => {
  test('rejects when the port is in use', async () => {
    const { listener, service } = await listening();
    await expect(openPort(service, { port: listener.port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  test('resets its connections, and accepts new ones', async () => {
    const { transport, listener, service } = await connectToPort();
    const held = errorOf(range(transport, 'held'));
    await range(transport, 'a');
    listener.reset();
    expect(await held).toMatchObject({ reason: 'ConnectionLost', problem: expect.stringContaining('ECONNRESET') });
    await range(transport, 'a');
    expect(service.held[0]?.call.signal.aborted).toBe(true);
  });

  test('closes its port and its connections, but not those of another listener', async () => {
    const { transport, listener, service } = await connectToPort();
    const other = await openPort(service);
    onTestFinished(() => other.close());
    const otherTransport = overPort(other);
    await range(transport, 'a');
    await range(otherTransport, 'a');
    await listener.close();
    expect(await errorOf(range(transport, 'a'))).toMatchObject({ reason: 'ConnectFailed' });
    await range(otherTransport, 'a');
  });
});
