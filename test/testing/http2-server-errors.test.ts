import { describe, expect, test } from 'vitest';
import {
  continuation,
  data,
  type ErrorName,
  frame,
  goAway,
  grpcMessage,
  headers,
  ping,
  rstStream,
  settings,
  settingsAck,
  windowUpdate,
  words,
} from '../support/http2-frames.js';
import { block, type Field, tableSize } from '../support/http2-hpack.js';
import { turn } from '../support/http2-peer.js';
import { RawClient, requestBlock, requestFields } from '../support/http2-raw-client.js';

// In these tests, a client violates RFC 9113. The server must answer with the error code of the RFC, and a stream error
// must not disturb the other streams.

const NOTHING = new Uint8Array();
/** An encoded RangeRequest for the key "a". */
const REQUEST = grpcMessage(Buffer.from('\x0a\x01a'));
const HELD = grpcMessage(Buffer.from('\x0a\x04held'));
const WATCH = requestBlock([], '/etcdserverpb.Watch/Watch');

/** Opens stream 1 with a call that stays open. */
const OPEN = headers(1, WATCH);
/** A call on stream 1 that the server answers. */
const ANSWERED = Buffer.concat([headers(1, requestBlock()), data(1, REQUEST, { endStream: true })]);

type Case = readonly [what: string, code: ErrorName, ...frames: readonly Buffer[]];

const CONNECTION_ERRORS: readonly Case[] = [
  ['a frame of 16,385 bytes (4.2)', 'FRAME_SIZE_ERROR', frame('DATA', 0, 1, new Uint8Array(16_385))],
  ['SETTINGS of 5 bytes (6.5)', 'FRAME_SIZE_ERROR', frame('SETTINGS', 0, 0, new Uint8Array(5))],
  ['SETTINGS with ACK and a payload (6.5)', 'FRAME_SIZE_ERROR', frame('SETTINGS', 1, 0, new Uint8Array(6))],
  ['SETTINGS on a stream (6.5)', 'PROTOCOL_ERROR', frame('SETTINGS', 0, 1)],
  ['ENABLE_PUSH of 2 (6.5.2)', 'PROTOCOL_ERROR', settings({ ENABLE_PUSH: 2 })],
  ['INITIAL_WINDOW_SIZE of 2^31 (6.5.2)', 'FLOW_CONTROL_ERROR', settings({ INITIAL_WINDOW_SIZE: 2 ** 31 })],
  ['MAX_FRAME_SIZE of 16,383 (6.5.2)', 'PROTOCOL_ERROR', settings({ MAX_FRAME_SIZE: 16_383 })],
  ['MAX_FRAME_SIZE of 2^24 (6.5.2)', 'PROTOCOL_ERROR', settings({ MAX_FRAME_SIZE: 2 ** 24 })],
  [
    'INITIAL_WINDOW_SIZE that raises the window of an open stream above 2^31 - 1 (6.9.2)',
    'FLOW_CONTROL_ERROR',
    OPEN,
    windowUpdate(1, 1),
    settings({ INITIAL_WINDOW_SIZE: 2 ** 31 - 1 }),
  ],
  ['DATA on stream 0 (6.1)', 'PROTOCOL_ERROR', data(0, REQUEST)],
  ['HEADERS on stream 0 (6.2)', 'PROTOCOL_ERROR', headers(0, requestBlock())],
  ['PRIORITY on stream 0 (6.3)', 'PROTOCOL_ERROR', frame('PRIORITY', 0, 0, new Uint8Array(5))],
  ['RST_STREAM on stream 0 (6.4)', 'PROTOCOL_ERROR', rstStream(0, 'CANCEL')],
  ['DATA on an idle stream (5.1)', 'PROTOCOL_ERROR', data(1, REQUEST)],
  ['RST_STREAM on an idle stream (6.4)', 'PROTOCOL_ERROR', rstStream(1, 'CANCEL')],
  ['WINDOW_UPDATE on an idle stream (5.1)', 'PROTOCOL_ERROR', windowUpdate(1, 1)],
  ['CONTINUATION on an idle stream (6.10)', 'PROTOCOL_ERROR', continuation(1, requestBlock())],
  ['HEADERS on an even stream (5.1.1)', 'PROTOCOL_ERROR', headers(2, requestBlock())],
  [
    'HEADERS on a lower stream than before (5.1.1)',
    'PROTOCOL_ERROR',
    headers(3, requestBlock()),
    headers(1, requestBlock()),
  ],
  ['HEADERS on a closed stream (5.1.1)', 'PROTOCOL_ERROR', ANSWERED, headers(1, requestBlock())],
  ['RST_STREAM of 3 bytes (6.4)', 'FRAME_SIZE_ERROR', OPEN, frame('RST_STREAM', 0, 1, new Uint8Array(3))],
  ['PUSH_PROMISE (8.4)', 'PROTOCOL_ERROR', OPEN, frame('PUSH_PROMISE', 4, 1, words(2))],
  ['PING of 7 bytes (6.7)', 'FRAME_SIZE_ERROR', ping(new Uint8Array(7))],
  ['PING on a stream (6.7)', 'PROTOCOL_ERROR', frame('PING', 0, 1, new Uint8Array(8))],
  ['GOAWAY of 7 bytes (6.8)', 'FRAME_SIZE_ERROR', frame('GOAWAY', 0, 0, new Uint8Array(7))],
  ['GOAWAY on a stream (6.8)', 'PROTOCOL_ERROR', frame('GOAWAY', 0, 1, new Uint8Array(8))],
  ['WINDOW_UPDATE of 5 bytes (6.9)', 'FRAME_SIZE_ERROR', frame('WINDOW_UPDATE', 0, 0, new Uint8Array(5))],
  ['WINDOW_UPDATE by 0 on the connection (6.9)', 'PROTOCOL_ERROR', windowUpdate(0, 0)],
  [
    'a WINDOW_UPDATE that raises the connection window above 2^31 - 1 (6.9.1)',
    'FLOW_CONTROL_ERROR',
    windowUpdate(0, 2 ** 31 - 1),
  ],
  ['padding as long as its frame (6.1)', 'PROTOCOL_ERROR', OPEN, frame('DATA', 8, 1, Buffer.from([3, 0, 0]))],
  ['a padded frame without the length of its padding (6.1)', 'FRAME_SIZE_ERROR', OPEN, frame('DATA', 8, 1)],
  ['HEADERS too short for their priority (6.2)', 'FRAME_SIZE_ERROR', frame('HEADERS', 0x24, 1, new Uint8Array(4))],
  ['CONTINUATION after a complete header block (6.10)', 'PROTOCOL_ERROR', OPEN, continuation(1, NOTHING as Buffer)],
  ['a frame within a header block (6.10)', 'PROTOCOL_ERROR', headers(1, WATCH, { open: true }), ping(words(0, 0))],
  [
    'CONTINUATION on another stream (6.10)',
    'PROTOCOL_ERROR',
    headers(1, WATCH, { open: true }),
    continuation(3, WATCH),
  ],
  [
    'a header block of 17 frames',
    'ENHANCE_YOUR_CALM',
    headers(1, WATCH, { open: true }),
    ...Array.from({ length: 16 }, () => continuation(1, NOTHING as Buffer, false)),
  ],
  [
    'a header block of more than 64 KiB',
    'ENHANCE_YOUR_CALM',
    headers(1, WATCH, { open: true }),
    ...Array.from({ length: 5 }, () => continuation(1, Buffer.alloc(16_384), false)),
  ],
  [
    'a header block with an index that does not exist (4.3)',
    'COMPRESSION_ERROR',
    headers(1, Buffer.from([0xff, 0x20])),
  ],
  ['a header block with a table of 4,097 bytes (4.3)', 'COMPRESSION_ERROR', headers(1, tableSize(4_097))],
  ['a truncated header block (4.3)', 'COMPRESSION_ERROR', headers(1, requestBlock().subarray(0, -1))],
];

const STREAM_ERRORS: readonly Case[] = [
  ['WINDOW_UPDATE by 0 (6.9)', 'PROTOCOL_ERROR', OPEN, windowUpdate(1, 0)],
  [
    'a WINDOW_UPDATE that raises the window above 2^31 - 1 (6.9.1)',
    'FLOW_CONTROL_ERROR',
    OPEN,
    windowUpdate(1, 2 ** 31 - 1),
  ],
  ['PRIORITY of 4 bytes (6.3)', 'FRAME_SIZE_ERROR', OPEN, frame('PRIORITY', 0, 1, new Uint8Array(4))],
  [
    'DATA after END_STREAM (5.1)',
    'STREAM_CLOSED',
    headers(1, requestBlock()),
    data(1, HELD, { endStream: true }),
    data(1, NOTHING),
  ],
  [
    'HEADERS after END_STREAM (5.1)',
    'STREAM_CLOSED',
    headers(1, requestBlock()),
    data(1, HELD, { endStream: true }),
    headers(1, requestBlock(), { endStream: true }),
  ],
  ['trailers that do not end the stream (8.1)', 'PROTOCOL_ERROR', OPEN, headers(1, block([['a', 'b']]))],
  ['trailers with a pseudo-header field (8.1)', 'PROTOCOL_ERROR', OPEN, trailers([':path', '/'])],
  ['trailers with an invalid field (8.1)', 'PROTOCOL_ERROR', OPEN, trailers(['A', 'b'])],
  [
    'less data than content-length (8.1.1)',
    'PROTOCOL_ERROR',
    open([['content-length', '9']]),
    data(1, REQUEST.subarray(0, 3), { endStream: true }),
  ],
  ['no data with a content-length (8.1.1)', 'PROTOCOL_ERROR', open([['content-length', '9']], true)],
  [
    'trailers before the data that content-length announces (8.1.1)',
    'PROTOCOL_ERROR',
    open([['content-length', '9']]),
    trailers(['a', 'b']),
  ],
  ['a header list of more than 64 KiB', 'FRAME_SIZE_ERROR', ...large(1)],
];

const FIELDS: readonly (readonly [what: string, fields: readonly Field[]])[] = [
  ['without :method (8.3.1)', requestFields().filter(([name]) => name !== ':method')],
  ['without :scheme (8.3.1)', requestFields().filter(([name]) => name !== ':scheme')],
  ['without :path (8.3.1)', requestFields().filter(([name]) => name !== ':path')],
  ['with an empty :path (8.3.1)', requestFields([[':path', '']])],
  ['without any field', []],
  ['with two :path fields (8.3)', [[':path', '/'], ...requestFields()]],
  ['with two :authority fields (8.3)', [[':authority', 'a'], ...requestFields()]],
  ['with a pseudo-header after another field (8.3)', [['a', 'b'], ...requestFields()]],
  ['with a pseudo-header of responses (8.3)', [[':status', '200'], ...requestFields()]],
  ['with an unknown pseudo-header (8.3)', [[':new', '1'], ...requestFields()]],
  ['with te other than trailers (8.2.2)', requestFields([['te', 'gzip']])],
  ['with a content-length that is not a number', requestFields([['content-length', '1x']])],
  ['with upper case in a name (8.2.1)', requestFields([['Token', 'a']])],
  ['with an empty name (8.2.1)', requestFields([['', 'a']])],
  ['with a line break in a value (8.2.1)', requestFields([['token', 'a\nb']])],
  ...['connection', 'proxy-connection', 'keep-alive', 'transfer-encoding', 'upgrade'].map(
    (name) => [`with the HTTP/1.1 field ${name} (8.2.2)`, requestFields([[name, 'x']])] as const,
  ),
];

describe('the HTTP/2 server closes the connection', () => {
  test.for(CONNECTION_ERRORS)('after %s, with %s', async ([, code, ...frames]) => {
    const client = new RawClient();
    client.send(...frames);
    await turn();
    expect(client).toMatchObject({ closed: true, goAway: { code } });
    expect(client.served.server.connections).toBe(0);
    for (const { ends } of client.served.service.watches) expect(ends).toEqual(['canceled']);
    client.expectNoBreach();
  });

  test.for([
    ['an HTTP/1.1 request', Buffer.from('GET / HTTP/1.1\r\nhost: a\r\n\r\n')],
    ['one wrong byte in the preface (3.4)', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r')],
    ['no SETTINGS after the preface (3.4)', Buffer.concat([preface(), ping(words(0, 0))])],
    ['SETTINGS with ACK as the first frame (3.4)', Buffer.concat([preface(), settingsAck])],
  ] as const)('after %s, with PROTOCOL_ERROR', async ([, bytes]) => {
    const client = new RawClient({ greeting: false });
    client.send(bytes);
    await turn();
    expect(client).toMatchObject({ closed: true, goAway: { code: 'PROTOCOL_ERROR' } });
  });

  test('and reports the last stream that it has processed', async () => {
    const client = new RawClient();
    client.send(headers(1, WATCH), headers(5, WATCH), ping(new Uint8Array(7)));
    await turn();
    expect(client.goAway).toMatchObject({ lastStreamId: 5, code: 'FRAME_SIZE_ERROR' });
  });

  test('and ignores what follows the violation in the same chunk', async () => {
    // The client sends the same request after a valid WINDOW_UPDATE, and after one with the invalid increment 0.
    for (const increment of [1, 0]) {
      const client = new RawClient();
      client.send(windowUpdate(0, increment), headers(1, WATCH));
      await turn();
      expect(client.served.service.watches.length).toBe(increment);
      expect(client.goAway).toEqual(
        increment === 1 ? undefined : expect.objectContaining({ lastStreamId: 0, code: 'PROTOCOL_ERROR' }),
      );
    }
  });
});

describe('the HTTP/2 server resets the stream', () => {
  test.for(STREAM_ERRORS)('after %s, with %s', async ([, code, ...frames]) => {
    await expectReset(code, frames);
  });

  test.for(FIELDS)('after headers %s, with PROTOCOL_ERROR', async ([, fields]) => {
    await expectReset('PROTOCOL_ERROR', [headers(1, block(fields))]);
  });

  test('that exceeds the limit of open streams, with REFUSED_STREAM', async () => {
    const client = new RawClient({ maxConcurrentStreams: 2 });
    client.send(headers(1, WATCH), headers(3, WATCH), headers(5, WATCH));
    await turn();
    expect([1, 3, 5].map((id) => client.resetCode(id))).toEqual([undefined, undefined, 'REFUSED_STREAM']);
    client.send(rstStream(1, 'CANCEL'), headers(7, WATCH));
    await turn();
    expect(client.resetCode(7)).toBeUndefined();
    expect(client.served.service.watches.length).toBe(3);
    client.expectNoBreach();
  });

  test('whose response headers are larger than the client accepts, with INTERNAL_ERROR', async () => {
    const client = new RawClient({ greeting: { MAX_HEADER_LIST_SIZE: 150 } });
    client.send(ANSWERED, headers(3, requestBlock([], `/etcdserverpb.KV/${'x'.repeat(150)}`)));
    await turn();
    expect(client.fields(1)['grpc-status']).toBe('0');
    expect(client.resetCode(3)).toBe('INTERNAL_ERROR');
    client.expectNoBreach();
  });
});

describe('the HTTP/2 server tolerates', () => {
  test.for([
    ['an unknown frame type (5.5)', frame(0x42, 0xff, 7, Buffer.from('abc'))],
    ['unknown settings (6.5.2)', settings([[0x99, 7]])],
    ['ENABLE_PUSH of 1 (6.5.2)', settings({ ENABLE_PUSH: 1 })],
    ['PRIORITY on an idle stream (5.3.2)', frame('PRIORITY', 0, 9, new Uint8Array(5))],
    ['GOAWAY from the client (6.8)', goAway(0)],
    ['PING with ACK that answers no PING', ping(words(1, 2), 1)],
    ['SETTINGS with ACK', settingsAck],
    ['DATA on a closed stream (5.1)', Buffer.concat([ANSWERED, data(1, REQUEST)])],
    ['WINDOW_UPDATE on a closed stream (5.1)', Buffer.concat([ANSWERED, windowUpdate(1, 1)])],
    ['RST_STREAM on a closed stream (5.1)', Buffer.concat([ANSWERED, rstStream(1, 'CANCEL')])],
  ] as const)('%s', async ([, bytes]) => {
    const client = new RawClient();
    client.send(bytes, headers(3, requestBlock()), data(3, REQUEST, { endStream: true }));
    await turn();
    expect(client.fields(3)['grpc-status']).toBe('0');
    expect(client.closed).toBe(false);
    client.expectNoBreach();
  });
});

async function expectReset(code: ErrorName, frames: readonly Buffer[]): Promise<void> {
  const client = new RawClient();
  client.send(...frames);
  await turn();
  expect(client.resetCode(1)).toBe(code);
  for (const { ends } of client.served.service.watches) expect(ends).toEqual(['canceled']);
  client.send(headers(3, requestBlock()), data(3, REQUEST, { endStream: true }));
  await turn();
  expect(client.fields(3)['grpc-status']).toBe('0');
  expect(client.closed).toBe(false);
  client.expectNoBreach();
}

function preface(): Buffer {
  return Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
}

function open(extra: readonly Field[], endStream = false): Buffer {
  return headers(1, requestBlock(extra), { endStream });
}

function trailers(...fields: readonly Field[]): Buffer {
  return headers(1, block(fields), { endStream: true });
}

/** Returns the frames of a header block that is not too long, but whose indexed fields expand to more than 64 KiB. */
function large(streamId: number): Buffer[] {
  const first = block([['token', 'x'.repeat(3_000)]], 'with indexing');
  // Index 62 is the newest entry of the dynamic table.
  return [headers(streamId, Buffer.concat([requestBlock(), first, Buffer.alloc(30, 0x80 | 62)]))];
}
