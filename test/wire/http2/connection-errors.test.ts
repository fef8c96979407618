import { describe, expect, test } from 'vitest';
import { errorOf } from '../../support/errors.js';
import { answerAll, answerHeaders, range, rangeAnswer, rangeMessage } from '../../support/http2-calls.js';
import {
  continuation,
  data,
  type ErrorName,
  FLAG,
  frame,
  goAway,
  headers,
  ping,
  rstStream,
  settings,
  windowUpdate,
  words,
} from '../../support/http2-frames.js';
import { block } from '../../support/http2-hpack.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// These tests check violations of HTTP/2 that end the connection: RFC 9113, section 5.4.1. In each case, stream 1 is
// open, and the client has sent a whole request on it.

const PLAIN = block([[':status', '200']]);
const BYTES = new Uint8Array(20);

type Case = readonly [what: string, code: ErrorName, ...frames: readonly Buffer[]];

const LENGTHS: readonly Case[] = [
  ...[0, 7, 9].map(
    (length): Case => [`PING of ${length} bytes (6.7)`, 'FRAME_SIZE_ERROR', ping(new Uint8Array(length))],
  ),
  ['PING with ACK and a payload of 4 bytes', 'FRAME_SIZE_ERROR', ping(new Uint8Array(4), FLAG.ACK)],
  ...[1, 5, 7].map(
    (length): Case => [
      `SETTINGS of ${length} bytes (6.5)`,
      'FRAME_SIZE_ERROR',
      frame('SETTINGS', 0, 0, new Uint8Array(length)),
    ],
  ),
  ['SETTINGS with ACK and a payload (6.5)', 'FRAME_SIZE_ERROR', frame('SETTINGS', FLAG.ACK, 0, new Uint8Array(6))],
  ...[0, 3, 5].map(
    (length): Case => [
      `RST_STREAM of ${length} bytes (6.4)`,
      'FRAME_SIZE_ERROR',
      frame('RST_STREAM', 0, 1, new Uint8Array(length)),
    ],
  ),
  ...[0, 3, 5].flatMap((length): readonly Case[] =>
    [0, 1].map((streamId) => [
      `WINDOW_UPDATE of ${length} bytes on stream ${streamId} (6.9)`,
      'FRAME_SIZE_ERROR',
      frame('WINDOW_UPDATE', 0, streamId, new Uint8Array(length)),
    ]),
  ),
  ...[0, 7].map(
    (length): Case => [
      `GOAWAY of ${length} bytes (6.8)`,
      'FRAME_SIZE_ERROR',
      frame('GOAWAY', 0, 0, new Uint8Array(length)),
    ],
  ),
  ['DATA of 16,385 bytes (4.2)', 'FRAME_SIZE_ERROR', data(1, new Uint8Array(16_385))],
  ['a frame of an unknown type with 16,385 bytes (4.2)', 'FRAME_SIZE_ERROR', frame(0x42, 0, 0, new Uint8Array(16_385))],
  ['DATA with the flag PADDED but no payload (6.1)', 'FRAME_SIZE_ERROR', frame('DATA', FLAG.PADDED, 1)],
  [
    'HEADERS with the flag PADDED but no payload (6.2)',
    'FRAME_SIZE_ERROR',
    frame('HEADERS', FLAG.PADDED | FLAG.END_HEADERS, 1),
  ],
  [
    'HEADERS with the flag PRIORITY but too few bytes for it (4.2)',
    'FRAME_SIZE_ERROR',
    frame('HEADERS', FLAG.PRIORITY | FLAG.END_HEADERS, 1, new Uint8Array(4)),
  ],
  [
    'DATA with padding as long as the payload (6.1)',
    'PROTOCOL_ERROR',
    frame('DATA', FLAG.PADDED, 1, Buffer.of(3, 0, 0)),
  ],
  ['DATA with padding longer than the payload', 'PROTOCOL_ERROR', frame('DATA', FLAG.PADDED, 1, Buffer.of(255, 0, 0))],
  [
    'HEADERS with padding as long as the payload (6.2)',
    'PROTOCOL_ERROR',
    frame('HEADERS', FLAG.PADDED | FLAG.END_HEADERS, 1, Buffer.of(3, 0, 0)),
  ],
];

const STREAMS: readonly Case[] = [
  ['DATA on stream 0 (6.1)', 'PROTOCOL_ERROR', data(0, BYTES)],
  ['HEADERS on stream 0 (6.2)', 'PROTOCOL_ERROR', headers(0, PLAIN)],
  ['PRIORITY on stream 0 (6.3)', 'PROTOCOL_ERROR', frame('PRIORITY', 0, 0, new Uint8Array(5))],
  ['RST_STREAM on stream 0 (6.4)', 'PROTOCOL_ERROR', rstStream(0, 'CANCEL')],
  ['CONTINUATION on stream 0 (6.10)', 'PROTOCOL_ERROR', continuation(0, PLAIN)],
  ['SETTINGS on stream 1 (6.5)', 'PROTOCOL_ERROR', frame('SETTINGS', 0, 1)],
  ['SETTINGS with ACK on stream 1', 'PROTOCOL_ERROR', frame('SETTINGS', FLAG.ACK, 1)],
  ['PING on stream 1 (6.7)', 'PROTOCOL_ERROR', frame('PING', 0, 1, new Uint8Array(8))],
  ['GOAWAY on stream 1 (6.8)', 'PROTOCOL_ERROR', frame('GOAWAY', 0, 1, words(1, 0))],
  ['PUSH_PROMISE while push is disabled (6.6)', 'PROTOCOL_ERROR', frame('PUSH_PROMISE', FLAG.END_HEADERS, 1, words(2))],
  // Stream 3 is idle. Streams with even identifiers belong to the server.
  ...[2, 3, 2 ** 31 - 1].flatMap((streamId): readonly Case[] => [
    [`DATA on the idle stream ${streamId} (5.1)`, 'PROTOCOL_ERROR', data(streamId, BYTES)],
    [`HEADERS on the idle stream ${streamId}`, 'PROTOCOL_ERROR', headers(streamId, PLAIN)],
    [`RST_STREAM on the idle stream ${streamId}`, 'PROTOCOL_ERROR', rstStream(streamId, 'CANCEL')],
    [`WINDOW_UPDATE on the idle stream ${streamId}`, 'PROTOCOL_ERROR', windowUpdate(streamId, 1)],
    [`WINDOW_UPDATE with increment 0 on the idle stream ${streamId}`, 'PROTOCOL_ERROR', windowUpdate(streamId, 0)],
  ]),
];

const open = headers(1, PLAIN, { open: true });
const BLOCKS: readonly Case[] = [
  ['CONTINUATION without HEADERS (6.10)', 'PROTOCOL_ERROR', continuation(1, PLAIN)],
  ['CONTINUATION after a header block that has ended', 'PROTOCOL_ERROR', answerHeaders(1), continuation(1, PLAIN)],
  ...(
    [
      ['CONTINUATION of another stream', continuation(3, PLAIN)],
      ['HEADERS', headers(1, PLAIN)],
      ['DATA', data(1, BYTES)],
      ['PING', ping(new Uint8Array(8))],
      ['SETTINGS', settings()],
      ['WINDOW_UPDATE', windowUpdate(0, 1)],
      ['GOAWAY', goAway(1)],
      ['PRIORITY', frame('PRIORITY', 0, 1, new Uint8Array(5))],
      ['a frame of an unknown type', frame(0x42, 0, 0)],
    ] as const
  ).map(([what, bytes]): Case => [`${what} within a header block (6.2)`, 'PROTOCOL_ERROR', open, bytes]),
  ['a header block with an index beyond the tables (4.3)', 'COMPRESSION_ERROR', headers(1, Buffer.of(0xff, 0x40))],
  ['a header block that ends within a field', 'COMPRESSION_ERROR', headers(1, PLAIN.subarray(0, -1))],
];

const VALUES: readonly Case[] = [
  ['WINDOW_UPDATE with increment 0 on the connection (6.9)', 'PROTOCOL_ERROR', windowUpdate(0, 0)],
  ['WINDOW_UPDATE with increment 0 and the reserved bit set', 'PROTOCOL_ERROR', windowUpdate(0, 0x8000_0000)],
  [
    'WINDOW_UPDATE that raises the connection window above 2^31 - 1 (6.9.1)',
    'FLOW_CONTROL_ERROR',
    windowUpdate(0, 2 ** 31 - 1),
  ],
  [
    'SETTINGS that raise a stream window above 2^31 - 1 (6.9.2)',
    'FLOW_CONTROL_ERROR',
    windowUpdate(1, 1_000_000),
    settings({ INITIAL_WINDOW_SIZE: 2 ** 31 - 1 }),
  ],
  ['SETTINGS_INITIAL_WINDOW_SIZE of 2^31 (6.5.2)', 'FLOW_CONTROL_ERROR', settings({ INITIAL_WINDOW_SIZE: 2 ** 31 })],
  ['SETTINGS_MAX_FRAME_SIZE of 16,383 (6.5.2)', 'PROTOCOL_ERROR', settings({ MAX_FRAME_SIZE: 16_383 })],
  ['SETTINGS_MAX_FRAME_SIZE of 2^24 (6.5.2)', 'PROTOCOL_ERROR', settings({ MAX_FRAME_SIZE: 2 ** 24 })],
  ['SETTINGS_ENABLE_PUSH of 1 from a server (6.5.2)', 'PROTOCOL_ERROR', settings({ ENABLE_PUSH: 1 })],
  ['SETTINGS_ENABLE_PUSH of 2', 'PROTOCOL_ERROR', settings({ ENABLE_PUSH: 2 })],
];

describe.each([
  ['an invalid frame length', LENGTHS],
  ['a frame on a wrong stream', STREAMS],
  ['an error in a header block', BLOCKS],
  ['an invalid value', VALUES],
] as const)('the client closes the connection on %s, such as', (_, cases) => {
  test.for(cases)('%s, and sends GOAWAY with %s', async ([, code, ...frames]) => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 5) });
    const call = range(peer);
    await turn();
    const { connection } = peer;
    connection.send(...frames);
    expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', code: 'Unavailable', outcome: 'unknown' });
    await turn();
    expect([connection.goAwayCode, connection.closed]).toEqual([code, true]);
    expect((await range(peer)).count).toBe(5n);
    expect(peer.connections.length).toBe(2);
  });
});

test('the client closes the connection on an invalid header block even if the block belongs to a canceled call', async () => {
  const peer = new Http2Peer();
  const stop = new AbortController();
  const [canceled, call] = [range(peer, { signal: stop.signal }), range(peer)];
  await turn();
  stop.abort();
  expect((await errorOf(canceled)).reason).toBe('Canceled');
  peer.connection.send(headers(1, Buffer.of(0xff, 0x40)));
  expect((await errorOf(call)).reason).toBe('ProtocolError');
  await turn();
  expect(peer.connection.goAwayCode).toBe('COMPRESSION_ERROR');
});

describe('a connection that the client closes after a protocol violation', () => {
  test('fails its calls with an error that names the violation', async () => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    peer.connection.send(frame('SETTINGS', 0, 1));
    expect((await errorOf(call)).problem).toBe('HTTP/2 protocol error: SETTINGS on stream 1 (PROTOCOL_ERROR)');
  });

  test('ignores the frames that follow the violation in the same chunk', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each) });
    const call = range(peer);
    await turn();
    peer.connection.send(frame('SETTINGS', 0, 1), rangeAnswer(1), ping(new Uint8Array(8)));
    expect((await errorOf(call)).reason).toBe('ProtocolError');
    await turn();
    expect(peer.connections[0]?.sent('PING')).toEqual([]);
  });

  test('delivers the responses that arrived before the violation', async () => {
    const peer = new Http2Peer();
    const [first, second] = [range(peer), range(peer)];
    await turn();
    peer.connection.send(rangeAnswer(1, 3), answerHeaders(3), data(3, rangeMessage()), frame('SETTINGS', 0, 1));
    expect((await first).count).toBe(3n);
    expect(await errorOf(second)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
  });
});

describe('a client whose peer does not send SETTINGS first (3.4)', () => {
  test.each([
    ['PING', ping(new Uint8Array(8))],
    ['SETTINGS with ACK', frame('SETTINGS', FLAG.ACK, 0)],
    ['a response', rangeAnswer(1)],
    ['GOAWAY', goAway(0)],
    ['a frame of an unknown type', frame(0x42, 0, 0)],
    ['an HTTP/1.1 response', Buffer.from('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')],
    ['a TLS alert', Buffer.of(0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46, 0x00, 0x00)],
  ])('sends no request, and fails the call with outcome "not-sent", when the peer first sends %s', async (_, bytes) => {
    const peer = new Http2Peer({ greeting: false });
    const call = range(peer);
    await turn();
    peer.connection.send(bytes);
    expect(await errorOf(call)).toMatchObject({
      reason: 'ConnectFailed',
      code: 'Unavailable',
      outcome: 'not-sent',
      method: '/etcdserverpb.KV/Range',
    });
    await turn();
    expect(peer.connection.closed).toBe(true);
    expect(peer.connection.streamIds).toEqual([]);
  });
});
