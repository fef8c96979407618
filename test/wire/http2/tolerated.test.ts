import { describe, expect, test } from 'vitest';
import {
  ANSWER_FIELDS,
  answerHeaders,
  range,
  rangeAnswer,
  rangeMessage,
  TRAILER_FIELDS,
  trailers,
} from '../../support/http2-calls.js';
import {
  continuation,
  data,
  FLAG,
  frame,
  headers,
  ping,
  rstStream,
  settings,
  settingsAck,
  windowUpdate,
  words,
} from '../../support/http2-frames.js';
import { block } from '../../support/http2-hpack.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// RFC 9113 requires a client to accept these unusual responses. Every case is a response to a get call. The `count` in
// the response is 4.

const MESSAGE = rangeMessage(4);

describe('the client reads a response', () => {
  test.for<[string, ...Buffer[]]>([
    ['in its usual form', rangeAnswer(1, 4)],
    ['with frames of unknown types on stream 0 (5.5)', ...mixedWith(frame(0x42, 0xff, 0, Buffer.from('?')))],
    ['with frames of unknown types on its own stream', ...mixedWith(frame(0xff, 0xff, 1))],
    ['with frames of unknown types on idle streams', ...mixedWith(frame(0x0a, 0, 77))],
    [
      'with unknown settings (6.5.2)',
      ...mixedWith(
        settings([
          [0x10, 1],
          [0xffff, 2 ** 32 - 1],
        ]),
      ),
    ],
    ['with PRIORITY on its own stream (6.3)', ...mixedWith(frame('PRIORITY', 0, 1, Buffer.of(0, 0, 0, 0, 9)))],
    ['with PRIORITY on an idle stream', ...mixedWith(frame('PRIORITY', 0, 7, new Uint8Array(5)))],
    ['with an unsolicited PING with ACK (6.7)', ...mixedWith(ping(words(7, 7), FLAG.ACK))],
    ['with unsolicited SETTINGS with ACK', ...mixedWith(settingsAck)],
    [
      'with undefined flags',
      frame('HEADERS', 0xd2 | FLAG.END_HEADERS, 1, block(ANSWER_FIELDS)),
      data(1, MESSAGE),
      frame('HEADERS', 0xd2 | FLAG.END_HEADERS | FLAG.END_STREAM, 1, block(TRAILER_FIELDS)),
    ],
    ['with reserved bits set (4.1, 6.9)', ...mixedWith(windowUpdate(0x8000_0001, 0x8000_0001))],
    [
      'with a priority in HEADERS (6.2)',
      headers(1, block(ANSWER_FIELDS), { priority: true }),
      data(1, MESSAGE),
      headers(1, block(TRAILER_FIELDS), { priority: true, padding: 3, endStream: true }),
    ],
    [
      'with padding (6.1, 6.2)',
      headers(1, block(ANSWER_FIELDS), { padding: 255 }),
      data(1, MESSAGE, { padding: 200 }),
      headers(1, block(TRAILER_FIELDS), { padding: 0, endStream: true }),
    ],
    [
      'with frames that contain only padding',
      answerHeaders(1),
      data(1, new Uint8Array(), { padding: 9 }),
      data(1, MESSAGE, { padding: 0 }),
      data(1, new Uint8Array(), { padding: 0 }),
      trailers(1),
    ],
    [
      'with an empty DATA frame in the middle of the message',
      answerHeaders(1),
      data(1, MESSAGE.subarray(0, 3)),
      data(1, new Uint8Array()),
      data(1, MESSAGE.subarray(3)),
      trailers(1),
    ],
    [
      'with a DATA frame for each byte',
      answerHeaders(1),
      ...bytesOf(MESSAGE).map((byte) => data(1, byte)),
      trailers(1),
    ],
    [
      'with fields in CONTINUATION frames (6.10)',
      ...inPieces(block(ANSWER_FIELDS), 3),
      data(1, MESSAGE),
      ...inPieces(block(TRAILER_FIELDS), 4, true),
    ],
    [
      'with an empty header block before CONTINUATION',
      headers(1, Buffer.alloc(0), { open: true }),
      continuation(1, Buffer.alloc(0), false),
      continuation(1, block(ANSWER_FIELDS)),
      data(1, MESSAGE),
      trailers(1),
    ],
    [
      'with padded HEADERS before CONTINUATION',
      headers(1, block(ANSWER_FIELDS).subarray(0, 5), { open: true, padding: 7 }),
      continuation(1, block(ANSWER_FIELDS).subarray(5)),
      data(1, MESSAGE),
      trailers(1),
    ],
    [
      'after interim responses (8.1)',
      ...['100', '102', '103'].map((status) =>
        headers(
          1,
          block([
            [':status', status],
            ['link', 'x'],
          ]),
        ),
      ),
      rangeAnswer(1, 4),
    ],
    [
      'with fields that gRPC does not define',
      headers(1, block([...ANSWER_FIELDS, ['server', 'x'], ['set-cookie', 'a'], ['set-cookie', 'b']])),
      data(1, MESSAGE),
      headers(1, block([['x-trace-bin', 'AAE='], ...TRAILER_FIELDS]), { endStream: true }),
    ],
    [
      'after SETTINGS with the maximum windows and frame size',
      settings({ INITIAL_WINDOW_SIZE: 2 ** 31 - 1, MAX_FRAME_SIZE: 2 ** 24 - 1, ENABLE_PUSH: 0 }),
      windowUpdate(0, 2 ** 31 - 1 - 65_535),
      rangeAnswer(1, 4),
    ],
    ['followed by RST_STREAM(NO_ERROR) (8.1)', rangeAnswer(1, 4), rstStream(1, 'NO_ERROR')],
    [
      'with a content-length',
      headers(1, block([...ANSWER_FIELDS, ['content-length', `${MESSAGE.length}`]])),
      data(1, MESSAGE),
      trailers(1),
    ],
  ])('%s', async ([, ...frames]) => {
    await expectAnswer((connection) => connection.send(...frames));
    await expectAnswer((connection) => {
      const bytes = Buffer.concat(frames);
      connection.sendSplit(bytes, bytes.keys());
    });
  });
});

describe('a response', () => {
  const bytes = Buffer.concat([
    headers(1, block(ANSWER_FIELDS).subarray(0, 9), { open: true, padding: 2 }),
    continuation(1, block(ANSWER_FIELDS).subarray(9)),
    data(1, MESSAGE.subarray(0, 2), { padding: 3 }),
    windowUpdate(0, 1),
    data(1, MESSAGE.subarray(2)),
    trailers(1),
  ]);

  test.for([...bytes.keys()])('is read when it arrives in two chunks and the first chunk has %i bytes', async (end) => {
    await expectAnswer((connection) => connection.sendSplit(bytes, [end]));
  });

  test('is read when it arrives in six chunks, each in its own turn of the event loop', async () => {
    const ends = [1, 2, 3, 4, 5].map((part) => Math.floor((bytes.length * part) / 6));
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    let start = 0;
    for (const end of [...ends, bytes.length]) {
      peer.connection.send(bytes.subarray(start, end));
      start = end;
      await turn();
    }
    expect((await call).count).toBe(4n);
  });
});

test('responses are read correctly when the runtime reuses the same buffer for every read', async () => {
  const peer = new Http2Peer({ play: (connection) => Object.assign(connection, { givesBuffers: true }) });
  for (const streamId of [1, 3, 5]) {
    const call = range(peer);
    await turn();
    const fields = block(ANSWER_FIELDS);
    peer.connection.send(headers(streamId, fields.subarray(0, 9), { open: true }));
    peer.connection.send(continuation(streamId, fields.subarray(9)));
    peer.connection.send(data(streamId, MESSAGE.subarray(0, 3)));
    peer.connection.send(data(streamId, MESSAGE.subarray(3)));
    peer.connection.send(trailers(streamId));
    expect((await call).count).toBe(4n);
  }
});

test('a connection opens when the first SETTINGS frame arrives byte by byte', async () => {
  const peer = new Http2Peer({ greeting: false });
  const call = range(peer);
  await turn();
  const greeting = Buffer.concat([settings({ MAX_CONCURRENT_STREAMS: 9 }), settingsAck, windowUpdate(0, 1_000)]);
  peer.connection.sendSplit(greeting, greeting.keys());
  await turn();
  peer.connection.send(rangeAnswer(1, 4));
  expect((await call).count).toBe(4n);
});

describe('on a closed stream (5.1), the client', () => {
  test.for<[string, Buffer]>([
    ['DATA', data(1, MESSAGE)],
    ['HEADERS', answerHeaders(1)],
    ['trailers', trailers(1)],
    ['RST_STREAM', rstStream(1, 'CANCEL')],
    ['WINDOW_UPDATE', windowUpdate(1, 5)],
    ['WINDOW_UPDATE with increment 0', windowUpdate(1, 0)],
    ['PRIORITY', frame('PRIORITY', 0, 1, new Uint8Array(5))],
  ])('ignores %s', async ([, bytes]) => {
    const peer = new Http2Peer();
    const first = range(peer);
    await turn();
    peer.connection.send(rangeAnswer(1, 4), bytes);
    expect((await first).count).toBe(4n);
    const second = range(peer);
    await turn();
    peer.connection.send(bytes, rangeAnswer(3, 5));
    expect((await second).count).toBe(5n);
    expect(peer.connection.sent('RST_STREAM')).toEqual([]);
  });
});

/** Returns a response with the given frame before and after each of its frames. */
function mixedWith(bytes: Buffer): Buffer[] {
  return [
    bytes,
    answerHeaders(1),
    bytes,
    data(1, MESSAGE.subarray(0, 4)),
    bytes,
    data(1, MESSAGE.subarray(4)),
    bytes,
    trailers(1),
    bytes,
  ];
}

function inPieces(fields: Buffer, size: number, endStream = false): Buffer[] {
  const pieces = [headers(1, fields.subarray(0, size), { open: true, endStream })];
  for (let at = size; at < fields.length; at += size) {
    pieces.push(continuation(1, fields.subarray(at, at + size), at + size >= fields.length));
  }
  return pieces;
}

function bytesOf(bytes: Buffer): Buffer[] {
  return [...bytes.keys()].map((index) => bytes.subarray(index, index + 1));
}

/**
 * Makes a get call, to which `answer` sends the response. Expects that the `count` in the response is 4 and that the
 * connection stays open.
 */
async function expectAnswer(answer: (connection: PeerConnection) => void): Promise<void> {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  answer(peer.connection);
  expect((await call).count).toBe(4n);
  await turn();
  expect([peer.connection.closed, peer.connection.request(1).reset]).toEqual([false, undefined]);
}
