import { once } from 'node:events';
import { connect, type Http2Session } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { Client, type ClientDuplexStream, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RangeRequest, RangeResponse, WatchRequest, WatchResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { StatusError } from '../../src/testing/memory/service.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Method } from '../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import { CREATE_WATCH } from '../support/http2-calls.js';
import { grpcMessage } from '../support/http2-frames.js';
import { listening, type TestService, UNUSUAL_TEXT } from '../support/http2-server.js';
import { NODE_OPTIONS } from '../support/peers/node-peer.js';

// These tests connect clients that this project did not write to the HTTP/2 server: @grpc/grpc-js, and node:http2,
// which uses nghttp2.

describe('the HTTP/2 server with a client of @grpc/grpc-js', () => {
  test('answers unary calls, and passes their metadata to the handler', async () => {
    const { client, service } = await grpcClient();
    const metadata = new Metadata();
    metadata.set('token', 'simple.7');
    const { kvs } = await range(client, 'a', metadata);
    expect(Buffer.from(kvs[0]?.key ?? []).toString()).toBe('a');
    expect(service.calls[0]?.metadata).toMatchObject({ token: 'simple.7' });
  });

  test('sends and receives large messages', async () => {
    const { client } = await grpcClient();
    expect((await range(client, '4000000 bytes')).kvs[0]?.value.length).toBe(4_000_000);
    const request = { key: Buffer.from('a'), value: new Uint8Array(2_000_000) };
    expect((await unary(client, methods.kv.put, request)).prevKv?.version).toBe(2_000_000n);
  });

  test('ends calls with a status and an unusual message', async () => {
    const { client } = await grpcClient();
    await expect(range(client, 'text')).rejects.toMatchObject({ code: status.NOT_FOUND, details: UNUSUAL_TEXT });
  });

  test('ends a call at its deadline', async () => {
    const { client, service } = await grpcClient();
    const call = range(client, 'held', new Metadata(), 200);
    await expect(call).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    while (!service.held[0]?.call.signal.aborted) await range(client, 'a');
  });

  test('carries a bidirectional stream', async () => {
    const { client, service } = await grpcClient();
    const { stream, messages, ended } = watch(client);
    for (let sent = 0; sent < 50; sent += 1) stream.write(CREATE_WATCH);
    stream.end();
    expect((await ended).code).toBe(status.OK);
    expect(messages.map(({ watchId }) => Number(watchId))).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
    expect(service.watch.ends).toEqual(['half-closed']);
  });

  test('ends a stream with a status of the handler', async () => {
    const { client, service } = await grpcClient();
    const { stream, ended } = watch(client);
    stream.once('data', () => service.watch.responses.end(new StatusError('Unavailable', 'etcdserver: no leader')));
    stream.write(CREATE_WATCH);
    expect(await ended).toMatchObject({ code: status.UNAVAILABLE, details: 'etcdserver: no leader' });
  });

  test('notifies the handler when the client cancels a stream', async () => {
    const { client, service } = await grpcClient();
    const { stream, ended } = watch(client);
    stream.once('data', () => stream.cancel());
    stream.write(CREATE_WATCH);
    expect((await ended).code).toBe(status.CANCELLED);
    while (service.watch.ends.length === 0) await range(client, 'a');
    // grpc-js half-closes the stream before it resets the stream, and the handler ends the call at the first of the
    // two.
    expect(service.watch.ends).toEqual(['half-closed']);
  });

  test('refuses a compressed request', async () => {
    const { client } = await grpcClient({ 'grpc.default_compression_algorithm': 2 });
    await expect(range(client, 'a')).rejects.toMatchObject({ code: status.UNIMPLEMENTED });
  });

  test('makes the client open a new connection when it shuts down gracefully', async () => {
    const { client, server } = await grpcClient();
    const held = range(client, 'held');
    await range(client, 'a');
    server.leave();
    while (server.connections < 2) await range(client, 'a');
    held.catch(() => {});
  });
});

describe('the HTTP/2 server with a client of node:http2', () => {
  test.for(NODE_OPTIONS)('sends and receives 1 MB with %s', async ([, options]) => {
    const session = await http2Session(options);
    const put = encode(methods.kv.put.request, { key: Buffer.from('a'), value: new Uint8Array(1_000_000) });
    const [stored] = await exchange(session, '/etcdserverpb.KV/Put', put);
    expect(decode(methods.kv.put.response, stored ?? NOTHING).prevKv?.version).toBe(1_000_000n);
    const get = encode(methods.kv.range.request, { key: Buffer.from('1000000 bytes') });
    const [read] = await exchange(session, '/etcdserverpb.KV/Range', get);
    expect(decode(methods.kv.range.response, read ?? NOTHING).kvs[0]?.value.length).toBe(1_000_000);
  });

  test('answers 1,000 calls at the same time', async () => {
    const session = await http2Session({});
    const request = encode(methods.kv.range.request, { key: Buffer.from('a') });
    const calls = Array.from({ length: 1_000 }, () => exchange(session, '/etcdserverpb.KV/Range', request));
    expect(new Set((await Promise.all(calls)).map(([, code]) => code))).toEqual(new Set(['0']));
  });

  test('answers a PING, and new SETTINGS', async () => {
    const session = await http2Session({});
    await once(session, 'remoteSettings');
    await new Promise<void>((resolve, reject) => session.ping((error) => (error ? reject(error) : resolve())));
    await new Promise<void>((resolve) => session.settings({ initialWindowSize: 1 }, () => resolve()));
  });
});

test('the server answers a client that speaks neither version of HTTP with GOAWAY, and closes the connection', async () => {
  const { listener } = await listening();
  const socket = connectTcp(listener.port, '127.0.0.1');
  socket.write('SSH-2.0-client\r\n');
  const received: Buffer[] = [];
  for await (const bytes of socket) received.push(bytes as Buffer);
  expect(Buffer.concat(received).toString('latin1')).toContain('the client does not begin with the HTTP/2 preface');
});

const NOTHING = new Uint8Array();

async function grpcClient(options = {}): Promise<{
  client: Client;
  service: TestService;
  server: { leave(): void; readonly connections: number };
}> {
  const { listener, service, server } = await listening();
  const client = new Client(`127.0.0.1:${listener.port}`, credentials.createInsecure(), options);
  onTestFinished(() => client.close());
  return { client, service, server };
}

function range(client: Client, key: string, metadata = new Metadata(), timeoutMs?: number): Promise<RangeResponse> {
  return unary<RangeRequest, RangeResponse>(client, methods.kv.range, { key: Buffer.from(key) }, metadata, timeoutMs);
}

function unary<Request, Response>(
  client: Client,
  method: Method<Request, Response>,
  request: Init<Request>,
  metadata = new Metadata(),
  timeoutMs?: number,
): Promise<Response> {
  const options = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs };
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest<Init<Request>, Response>(
      method.path,
      (message) => Buffer.from(encode(method.request, message)),
      (bytes) => decode(method.response, bytes),
      request,
      metadata,
      options,
      (error, response) => (error === null ? resolve(response as Response) : reject(error)),
    );
  });
}

interface GrpcWatch {
  readonly stream: ClientDuplexStream<Init<WatchRequest>, WatchResponse>;
  readonly messages: WatchResponse[];
  readonly ended: Promise<Pick<ServiceError, 'code' | 'details'>>;
}

function watch(client: Client): GrpcWatch {
  const { path, request, response } = methods.watch.watch;
  const stream = client.makeBidiStreamRequest<Init<WatchRequest>, WatchResponse>(
    path,
    (message) => Buffer.from(encode(request, message)),
    (bytes) => decode(response, bytes),
  );
  const messages: WatchResponse[] = [];
  stream.on('data', (message: WatchResponse) => messages.push(message));
  stream.on('error', () => {});
  return { stream, messages, ended: new Promise((resolve) => stream.on('status', resolve)) };
}

async function http2Session(options: object): Promise<Http2Session & ReturnType<typeof connect>> {
  const { listener } = await listening();
  const session = connect(listener.endpoint, options);
  onTestFinished(() => session.destroy());
  return session;
}

/** Makes a unary call. Resolves with the encoded response and the status. */
function exchange(
  session: ReturnType<typeof connect>,
  path: string,
  request: Uint8Array,
): Promise<readonly [response: Buffer, status: unknown]> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    const parts: Buffer[] = [];
    let code: unknown;
    stream.on('data', (part: Buffer) => parts.push(part));
    stream.on('trailers', (trailers) => {
      code = trailers['grpc-status'];
    });
    stream.on('error', reject);
    stream.on('end', () => resolve([Buffer.concat(parts).subarray(5), code]));
    stream.end(grpcMessage(request));
  });
}
