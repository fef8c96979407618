import { describe, expect, test } from 'vitest';
import {
  answerHeaders,
  CREATE_WATCH,
  type OpenWatch,
  range,
  rangeAnswer,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, SETTING, settingPairs } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// These tests check the flow control of received data: RFC 9113, sections 5.2 and 6.9.

const DEFAULT_WINDOW_BYTES = 65_535;
/** The maximum size of a DATA payload in bytes. `FULL` is a gRPC message that fills such a payload. */
const FRAME_BYTES = 16_384;
const FULL = watchMessage(1, 'x'.repeat(FRAME_BYTES - 5 - 2 - 3));

test('the client enlarges its receive windows before the first request', async () => {
  const { connection } = await watching();
  expect(streamWindow(connection)).toBeGreaterThanOrEqual(1024 * 1024);
  expect(connection.allowed(0) + DEFAULT_WINDOW_BYTES).toBeGreaterThan(streamWindow(connection));
  expect(FULL.length).toBe(FRAME_BYTES);
});

test('the option `windowBytes` sets the receive window of each stream, and of the streams that pause', async () => {
  const { connection, open } = await watching(undefined, 20_000);
  expect(streamWindow(connection)).toBe(20_000);
  connection.send(data(1, FULL));
  await turn();
  expect([open.messages.length, connection.allowed(1)]).toEqual([1, FRAME_BYTES]);
  open.stream.pause();
  connection.send(data(1, FULL), data(1, FULL.subarray(0, 20_000 - FRAME_BYTES)));
  await turn();
  expect([open.messages.length, connection.allowed(1), open.end]).toEqual([1, FRAME_BYTES, undefined]);
  open.stream.resume();
  await turn();
  expect([open.messages.length, connection.allowed(1)]).toEqual([2, FRAME_BYTES + 20_000]);
});

describe('a stream that is read without pauses', () => {
  test('never blocks a peer that obeys the flow-control windows', async () => {
    const { connection, open } = await watching();
    const total = 3 * (streamWindow(connection) + DEFAULT_WINDOW_BYTES + connection.allowed(0));
    let sent = 0;
    for (; sent < total; sent += FRAME_BYTES) {
      if (left(connection, 1, sent) < FRAME_BYTES || left(connection, 0, sent) < FRAME_BYTES) await turn();
      expect(left(connection, 1, sent)).toBeGreaterThanOrEqual(FRAME_BYTES);
      expect(left(connection, 0, sent)).toBeGreaterThanOrEqual(FRAME_BYTES);
      connection.send(data(1, FULL));
    }
    expect([open.messages.length, open.end]).toEqual([sent / FRAME_BYTES, undefined]);
  });

  test('causes few WINDOW_UPDATE frames', async () => {
    const { connection } = await watching();
    const before = connection.sent('WINDOW_UPDATE').length;
    for (let frames = 0; frames < 100; frames += 1) {
      connection.send(data(1, FULL));
      await turn();
    }
    expect(connection.sent('WINDOW_UPDATE').length - before).toBeLessThan(10);
  });

  test('is credited with the bytes of padding as well as the bytes of data (6.1)', async () => {
    const { connection, open } = await watching();
    const frame = data(1, watchMessage(1), { padding: 255 });
    const bytes = frame.length - 9;
    const chunk = Buffer.concat(Array<Buffer>(500).fill(frame));
    let sent = 0;
    for (; sent < 2 * streamWindow(connection); sent += 500 * bytes) {
      expect(left(connection, 1, sent)).toBeGreaterThan(500 * bytes);
      connection.send(chunk);
      await turn();
    }
    expect([open.messages.length * bytes, open.end]).toEqual([sent, undefined]);
  });
});

describe('a stream whose reader pauses', () => {
  test('exhausts only its own window, not the window of the connection', async () => {
    const { connection, open } = await watching();
    open.stream.pause();
    const window = streamWindow(connection);
    const before = connection.allowed(0);
    for (let sent = 0; sent < window; sent += FRAME_BYTES) connection.send(data(1, FULL));
    await turn();
    expect([open.messages.length, connection.allowed(1)]).toEqual([0, 0]);
    // The client enlarges the connection's window only after half of the window has been consumed.
    expect(connection.allowed(0) - before + (DEFAULT_WINDOW_BYTES + before) / 2).toBeGreaterThanOrEqual(window);
    open.stream.resume();
    await turn();
    expect(open.messages.length).toBe(window / FRAME_BYTES);
    expect(connection.allowed(1)).toBe(window);
  });

  test('is reset when the peer sends more than the window of the stream allows (6.9)', async () => {
    const { peer, connection, open } = await watching();
    open.stream.pause();
    for (let sent = 0; sent < streamWindow(connection); sent += FRAME_BYTES) connection.send(data(1, FULL));
    expect(open.end).toBeUndefined();
    connection.send(data(1, Buffer.of(0)));
    expect(open.end?.error).toMatchObject({ reason: 'ProtocolError', code: 'Internal' });
    await turn();
    expect(connection.request().reset).toBe('FLOW_CONTROL_ERROR');
    const call = range(peer);
    await turn();
    connection.send(rangeAnswer(3, 2));
    expect((await call).count).toBe(2n);
  });

  test('delivers one message for each `resume()` when its reader pauses after every message', async () => {
    const { connection, open } = await watching((_, { stream }) => stream.pause());
    connection.send(data(1, Buffer.concat([watchMessage(1), watchMessage(2), watchMessage(3)])));
    connection.send(data(1, watchMessage(4).subarray(0, 3)), data(1, watchMessage(4).subarray(3)));
    const seen = [[...open.messages]];
    for (let times = 0; times < 4; times += 1) {
      open.stream.resume();
      seen.push([...open.messages]);
    }
    expect(seen).toEqual([[1n], [1n, 2n], [1n, 2n, 3n], [1n, 2n, 3n, 4n], [1n, 2n, 3n, 4n]]);
  });

  test('delivers, after `resume()`, 200,000 small messages that arrived during the pause', async () => {
    const { connection, open } = await watching();
    open.stream.pause();
    const chunk = Buffer.concat(Array<Buffer>(1_000).fill(data(1, watchMessage(1))));
    for (let chunks = 0; chunks < 200; chunks += 1) connection.send(chunk);
    connection.send(trailers(1));
    expect(open.messages.length).toBe(0);
    open.stream.resume();
    expect([open.messages.length, open.end]).toEqual([200_000, { error: undefined }]);
  });

  test('ends after its reader has received the messages that arrived before the trailers', async () => {
    const { connection, open } = await watching((_, { stream }) => stream.pause());
    connection.send(data(1, Buffer.concat([watchMessage(1), watchMessage(2)])), trailers(1));
    expect([open.messages, open.end]).toEqual([[1n], undefined]);
    open.stream.resume();
    expect([open.messages, open.end]).toEqual([[1n, 2n], { error: undefined }]);
  });

  test('ends after its reader has received the messages that arrived before the connection was lost', async () => {
    const { connection, open } = await watching();
    open.stream.pause();
    connection.send(data(1, watchMessage(1)));
    connection.lose();
    expect(open.end).toBeUndefined();
    open.stream.resume();
    expect([open.messages, open.end?.error?.reason]).toEqual([[1n], 'ConnectionLost']);
  });

  test('ends before its reader resumes when no message is left to deliver', async () => {
    const { connection, open } = await watching();
    open.stream.pause();
    connection.send(trailers(1));
    expect(open.end).toEqual({ error: undefined });
  });

  test('delivers no more messages after it is canceled, even if its reader resumes', async () => {
    const { connection, open } = await watching();
    open.stream.pause();
    connection.send(data(1, watchMessage(1)));
    open.stream.cancel();
    open.stream.resume();
    connection.send(data(1, watchMessage(2)), trailers(1));
    await turn();
    expect([open.messages, open.end, connection.request().reset]).toEqual([[], undefined, 'CANCEL']);
  });

  test('can be paused before it opens, and can be paused and resumed while it delivers a message', async () => {
    const peer = new Http2Peer();
    const open = watch(peer, {}, (_, { stream }) => {
      stream.pause();
      stream.resume();
    });
    open.stream.pause();
    await turn();
    peer.connection.send(answerHeaders(1), data(1, Buffer.concat([watchMessage(1), watchMessage(2)])));
    expect(open.messages).toEqual([]);
    open.stream.resume();
    expect(open.messages).toEqual([1n, 2n]);
  });
});

describe('data for a stream that is closed', () => {
  test('is credited back to the window of the connection (5.1)', async () => {
    const { connection, open } = await watching();
    open.stream.cancel();
    const before = connection.allowed(0);
    const window = DEFAULT_WINDOW_BYTES + before;
    for (let sent = 0; sent < window; sent += FRAME_BYTES) connection.send(data(1, FULL));
    await turn();
    expect(connection.allowed(0) - before).toBeGreaterThanOrEqual(window / 2);
    expect(connection.allowed(1)).toBe(0);
  });
});

/** Opens a watch on a scripted peer. The peer answers with response headers. */
async function watching(
  onMessage?: Parameters<typeof watch>[2],
  windowBytes?: number,
): Promise<{
  readonly peer: Http2Peer;
  readonly connection: PeerConnection;
  readonly open: OpenWatch;
}> {
  const peer = new Http2Peer({ windowBytes });
  const open = watch(peer, {}, onMessage);
  open.stream.send(CREATE_WATCH);
  await turn();
  peer.connection.send(answerHeaders(1));
  return { peer, connection: peer.connection, open };
}

/** Returns the client's initial window for each stream, from its SETTINGS. */
function streamWindow(connection: PeerConnection): number {
  const [first] = connection.sent('SETTINGS');
  const pairs = new Map(settingPairs(first?.payload ?? Buffer.alloc(0)));
  return pairs.get(SETTING.INITIAL_WINDOW_SIZE) ?? DEFAULT_WINDOW_BYTES;
}

/**
 * Returns the number of bytes that the peer may still send on the stream, or on the connection if `streamId` is 0,
 * after it has sent `sent` bytes.
 */
function left(connection: PeerConnection, streamId: number, sent: number): number {
  const initial = streamId === 0 ? DEFAULT_WINDOW_BYTES : streamWindow(connection);
  return initial + connection.allowed(streamId) - sent;
}
