import { createConnection } from 'node:net';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import {
  continuation,
  data,
  errorName,
  FLAG,
  FrameCutter,
  grpcMessage,
  headers,
  PREFACE,
  settings,
} from '../support/http2-frames.js';
import { BlockReader, type Field } from '../support/http2-hpack.js';
import { requestBlock } from '../support/http2-raw-client.js';
import { listening } from '../support/http2-server.js';

// These tests send requests that gRPC does not allow. The HTTP/2 server must answer as etcd's gRPC server, grpc-go,
// does. So the tests send each request to both servers.

const GZIP = 'grpc: Decompressor is not installed for grpc-encoding "gzip"';
/** The message of a Range call for the key "a". */
const KEY_A = grpcMessage(Buffer.from('\x0a\x01a'));
/**
 * The response on a stream: its fields, and the code of RST_STREAM apart from NO_ERROR. Whether grpc-go sends NO_ERROR
 * depends on whether it has read END_STREAM before it writes the trailers.
 */
interface Answer {
  readonly fields: Readonly<Record<string, string>>;
  readonly reset: string | undefined;
}

type Case = readonly [what: string, frames: readonly Buffer[]];

const REQUESTS: readonly Case[] = [
  ...['', 'text/plain', 'application/json', 'application/grpcx', 'application/grpc-web', 'Application/GRPC', 'a"b'].map(
    (type): Case => [`content-type ${JSON.stringify(type)}`, call([['content-type', type]])],
  ),
  ...['GET', 'PUT', 'post'].map((method): Case => [`the method ${method}`, call([[':method', method]])]),
  ...['', '1', 'S', '123456789S', '1x', 'xS', '-1S', '1.5S', '+1S', '0S', '0n'].map(
    (timeout): Case => [`grpc-timeout ${JSON.stringify(timeout)}`, call([['grpc-timeout', timeout]])],
  ),
  ...['1H', '99999999H', '5000000u', '99999999n'].map(
    (timeout): Case => [`grpc-timeout ${timeout}`, call([['grpc-timeout', timeout]])],
  ),
  [
    'two host fields',
    call([
      ['host', 'a'],
      ['host', 'b'],
    ]),
  ],
  ['one host field', call([['host', 'a']])],
  ...['identity', 'snappy', ''].map(
    (encoding): Case => [`grpc-encoding ${JSON.stringify(encoding)}`, call([['grpc-encoding', encoding]])],
  ),
  ['a compressed message without grpc-encoding', call([], grpcMessage(Buffer.from('\x0a\x01a'), 1))],
  ['a message with the flag 2', call([], grpcMessage(Buffer.from('\x0a\x01a'), 2))],
  [
    'a message that is larger than the limit',
    [headers(1, requestBlock()), data(1, Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 0, 0]))],
  ],
  [
    'a compressed message that is larger than the limit',
    [headers(1, requestBlock()), data(1, Buffer.from([1, 0, 0x20, 0, 1, 0, 0]))],
  ],
  ['no message, but an empty DATA frame', call([], Buffer.alloc(0))],
  ['a truncated message', call([], KEY_A.subarray(0, 6))],
  ['two messages', call([], Buffer.concat([KEY_A, KEY_A]))],
  ['a message without the end of the stream', [headers(1, requestBlock()), data(1, KEY_A)]],
  ['an empty message in a server-streaming call', stream('/etcdserverpb.Maintenance/Snapshot', Buffer.alloc(0))],
  ['two messages in a server-streaming call', stream('/etcdserverpb.Maintenance/Snapshot', Buffer.alloc(10))],
  [
    'a compressed message in a bidirectional call',
    stream('/etcdserverpb.Watch/Watch', grpcMessage(Buffer.alloc(2), 1)),
  ],
  ...[
    'etcdserverpb.KV/Range',
    '/Range',
    '/',
    '/etcdserverpb.KV/',
    '/etcdserverpb.KV/range',
    '/a/b/c',
    '//',
    '/a/ä"',
  ].map(
    (path): Case => [
      `the path ${path}`,
      [headers(1, requestBlock([], Buffer.from(path).toString('latin1'))), data(1, KEY_A, { endStream: true })],
    ],
  ),
  ['a path that is longer than a frame', unknownMethod(20_000)],
];

describe('a request that gRPC does not allow is answered as by etcd', () => {
  test.for(REQUESTS)('%s', async ([, frames]) => {
    const { listener } = await listening();
    const [expected, actual] = await Promise.all([
      answerOf(inject('endpoints')[0] as string, frames),
      answerOf(listener.endpoint, frames),
    ]);
    expect(actual).toEqual(expected);
  });
});

describe("the answer of the HTTP/2 server differs from etcd's answer to a request", () => {
  test.for([
    // etcd decompresses the request, and compresses its response.
    ['with grpc-encoding gzip', call([['grpc-encoding', 'gzip']]), '12', GZIP],
    // etcd does not answer until the deadline passes, because grpc-go misses END_STREAM on HEADERS.
    ['without a message', [headers(1, requestBlock(), { endStream: true })], '2', 'EOF'],
    // etcd reports EOF.
    ['with a truncated prefix of a message', call([], KEY_A.subarray(0, 3)), '2', 'unexpected EOF'],
  ] as const)('%s', async ([, frames, status, message]) => {
    const { listener } = await listening();
    const { fields } = await answerOf(listener.endpoint, frames);
    expect(fields).toMatchObject({ 'grpc-status': status, 'grpc-message': message });
  });

  // etcd answers with the subtype of the request, as in application/grpc+proto.
  test.for(['application/grpc+proto', 'application/grpc;charset=utf-8'])('with content-type %s', async (type) => {
    const { listener } = await listening();
    const { fields } = await answerOf(listener.endpoint, call([['content-type', type]]));
    expect(fields).toMatchObject({ 'content-type': 'application/grpc', 'grpc-status': '0' });
  });

  test('with bytes that are not a message', async () => {
    const { listener } = await listening();
    const { fields } = await answerOf(listener.endpoint, call([], grpcMessage(Buffer.from('\x0a\x05a'))));
    expect(fields).toMatchObject({
      'grpc-status': '13',
      'grpc-message': expect.stringMatching(/^grpc: error unmarshalling request: malformed etcdserverpb.RangeRequest/),
    });
  });
});

/** Sends the frames, and resolves with the response on stream 1. */
function answerOf(endpoint: string, frames: readonly Buffer[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(endpoint);
    const socket = createConnection(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    const cutter = new FrameCutter();
    const blocks = new BlockReader();
    const fields: Record<string, string> = {};
    const parts: Buffer[] = [];
    let ended = false;
    socket.on('data', (bytes) => {
      for (const { name, flags, streamId, payload } of cutter.push(bytes)) {
        if (name === 'GOAWAY') reject(new Error(`GOAWAY, ${payload.toString('latin1')}`));
        if (streamId !== 1) continue;
        if (name === 'RST_STREAM') resolve({ fields, reset: errorName(payload.readUInt32BE(0)) });
        if (name === 'HEADERS') ended ||= (flags & FLAG.END_STREAM) !== 0;
        if (name !== 'HEADERS' && name !== 'CONTINUATION') continue;
        parts.push(payload);
        if ((flags & FLAG.END_HEADERS) === 0) continue;
        for (const field of blocks.read(Buffer.concat(parts.splice(0))))
          if (field.kind !== 'table size') fields[field.name] = field.value;
        if (ended) resolve({ fields, reset: undefined });
      }
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed the connection')));
    socket.write(Buffer.concat([Buffer.from(PREFACE), settings(), ...frames]));
  });
}

function call(extra: readonly Field[], message: Buffer = KEY_A): Buffer[] {
  return [headers(1, requestBlock(extra)), data(1, message, { endStream: true })];
}

function stream(path: string, bytes: Buffer): Buffer[] {
  return [headers(1, requestBlock([], path)), data(1, bytes, { endStream: true })];
}

function unknownMethod(length: number): Buffer[] {
  const block = requestBlock([], `/etcdserverpb.KV/${'x'.repeat(length)}`);
  return [headers(1, block.subarray(0, 16_384), { open: true }), continuation(1, block.subarray(16_384))];
}
