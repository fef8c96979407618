import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import { errorOf } from '../../support/errors.js';
import { CREATE_WATCH, put, putBytes, range, rangeAnswer, watch } from '../../support/http2-calls.js';
import { FLAG, rstStream, SETTING, settings, windowUpdate } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// These tests check the flow control of sent data: RFC 9113, sections 5.2 and 6.9. The scripted peer fails a test if
// the client sends a byte beyond a window.

const PREFIX_BYTES = 5;
const LARGEST_WINDOW = 2 ** 31 - 1;

describe('a request larger than the window of its stream', () => {
  test('is sent up to the size of the window, and continues after each WINDOW_UPDATE', async () => {
    const { connection } = await putting(50, { INITIAL_WINDOW_SIZE: 10 });
    const sizes = [connection.request().body.length];
    for (const increment of [1, 20, 3]) {
      connection.send(windowUpdate(1, increment));
      await turn();
      sizes.push(connection.request().body.length);
    }
    expect(sizes).toEqual([10, 11, 31, 34]);
    expect(connection.request().ended).toBe(false);
    connection.send(windowUpdate(1, 1_000));
    await turn();
    expectPut(connection, 1, 50);
  });

  test('is sent byte by byte when the window never exceeds one byte', async () => {
    const { connection } = await putting(20, { INITIAL_WINDOW_SIZE: 1 });
    for (let sent = 1; sent < putBytes(20); sent += 1) {
      expect([connection.request().body.length, connection.request().ended]).toEqual([sent, false]);
      connection.send(windowUpdate(1, 1));
      await turn();
    }
    expectPut(connection, 1, 20);
  });

  test('waits while the window is 0', async () => {
    const { connection } = await putting(20, { INITIAL_WINDOW_SIZE: 0 });
    expect(connection.sent('DATA')).toEqual([]);
    connection.send(windowUpdate(1, LARGEST_WINDOW));
    await turn();
    expectPut(connection, 1, 20);
  });

  test('continues when SETTINGS enlarge the window of every stream (6.9.2)', async () => {
    const { peer, connection } = await putting(20, { INITIAL_WINDOW_SIZE: 4 });
    void put(peer, 30);
    await turn();
    connection.send(settings({ INITIAL_WINDOW_SIZE: 1_000 }));
    await turn();
    expectPut(connection, 1, 20);
    expectPut(connection, 3, 30);
  });

  test('waits until a window that SETTINGS made negative is positive again (6.9.2)', async () => {
    const { connection } = await putting(200, { INITIAL_WINDOW_SIZE: 100 });
    connection.send(settings({ INITIAL_WINDOW_SIZE: 30 }));
    // The window is now -70 bytes.
    const sizes = [];
    for (const increment of [50, 20, 1]) {
      connection.send(windowUpdate(1, increment));
      await turn();
      sizes.push(connection.request().body.length);
    }
    expect(sizes).toEqual([100, 100, 101]);
    connection.send(settings({ INITIAL_WINDOW_SIZE: 40 }));
    await turn();
    expect(connection.request().body.length).toBe(111);
    connection.send(windowUpdate(1, 10_000));
    await turn();
    expectPut(connection, 1, 200);
  });

  test('is sent up to the last of several window sizes in one SETTINGS frame (6.5.3)', async () => {
    const { connection } = await putting(20, { INITIAL_WINDOW_SIZE: 0 });
    connection.send(
      settings([
        [SETTING.INITIAL_WINDOW_SIZE, 50_000],
        [SETTING.INITIAL_WINDOW_SIZE, 6],
      ]),
    );
    await turn();
    expect(connection.request().body.length).toBe(6);
  });
});

test('the client acknowledges SETTINGS before it sends the data that the SETTINGS allow (6.5.3)', async () => {
  const { connection } = await putting(20, { INITIAL_WINDOW_SIZE: 0 });
  const before = connection.frames.length;
  connection.send(settings({ INITIAL_WINDOW_SIZE: 7 }));
  await turn();
  expect(connection.frames.slice(before).map(({ name, flags }) => [name, flags])).toEqual([
    ['SETTINGS', FLAG.ACK],
    ['DATA', 0],
  ]);
});

describe('the window of the connection', () => {
  test('is 65,535 bytes for all streams together, and does not depend on SETTINGS', async () => {
    const { peer, connection } = await putting(50_000, { INITIAL_WINDOW_SIZE: 1_000_000 });
    void put(peer, 50_000);
    await turn();
    const first = putBytes(50_000);
    expect([1, 3].map((id) => connection.request(id).body.length)).toEqual([first, 65_535 - first]);
    connection.send(settings({ INITIAL_WINDOW_SIZE: 2_000_000 }));
    await turn();
    expect(connection.request(3).body.length).toBe(65_535 - first);
    connection.send(windowUpdate(0, 100_000));
    await turn();
    expectPut(connection, 3, 50_000);
  });

  test('is shared equally among the streams of large requests', async () => {
    const { peer, connection } = await putting(100_000, { INITIAL_WINDOW_SIZE: 1_000_000 });
    for (const _ of [3, 5]) void put(peer, 100_000);
    await turn();
    const progress = (): number[] => [1, 3, 5].map((id) => connection.request(id).body.length);
    const before = progress();
    for (let frame = 0; frame < 6; frame += 1) {
      connection.send(windowUpdate(0, 16_384));
      await turn();
    }
    // Each stream has sent two frames.
    expect(progress().map((now, index) => now - (before[index] as number))).toEqual([32_768, 32_768, 32_768]);
    connection.send(windowUpdate(0, 400_000));
    await turn();
    for (const id of [1, 3, 5]) expectPut(connection, id, 100_000);
  });

  test('is available to other streams while one stream waits for its own window', async () => {
    const { peer, connection } = await putting(20, { INITIAL_WINDOW_SIZE: 0 });
    void put(peer, 30);
    await turn();
    connection.send(windowUpdate(3, 1_000));
    await turn();
    expectPut(connection, 3, 30);
    expect(connection.request(1).body.length).toBe(0);
  });

  test('grows by a WINDOW_UPDATE that arrives before the first request', async () => {
    const peer = new Http2Peer({ greeting: false });
    void put(peer, 300_000);
    await turn();
    peer.connection.send(settings({ INITIAL_WINDOW_SIZE: 400_000 }), windowUpdate(0, 300_000));
    await turn();
    expectPut(peer.connection, 1, 300_000);
  });
});

describe('a request of 1 MB', () => {
  test.each([16_384, 20_000, 2 ** 24 - 1])(
    'is sent in frames of at most %i bytes when SETTINGS_MAX_FRAME_SIZE has this value',
    async (largest) => {
      const { connection } = await putting(1_000_000, { INITIAL_WINDOW_SIZE: LARGEST_WINDOW, MAX_FRAME_SIZE: largest });
      connection.send(windowUpdate(0, 2_000_000));
      await turn();
      expectPut(connection, 1, 1_000_000);
      expect(Math.max(...connection.sent('DATA').map(({ payload }) => payload.length))).toBeLessThanOrEqual(largest);
    },
  );
});

describe('messages of a streaming call', () => {
  test('are sent in order through windows of three bytes, with END_STREAM on the last frame', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 3 } });
    const { stream } = watch(peer);
    const progress = (id: number) =>
      ({ requestUnion: { case: 'cancelRequest', value: { watchId: BigInt(id) } } }) as const;
    for (const id of [1, 2, 3]) stream.send(progress(id));
    await turn();
    stream.send(progress(4));
    stream.end();
    stream.send(progress(5));
    for (let windows = 0; windows < 20; windows += 1) {
      peer.connection.send(windowUpdate(1, 3));
      await turn();
    }
    expect(messagesOf(peer.connection.request().body)).toEqual([1, 2, 3, 4].map(progress));
    expect(peer.connection.request().ended).toBe(true);
  });

  test('are followed by an empty frame with END_STREAM when they have used up the window', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 5 + 5 } });
    const { stream } = watch(peer);
    stream.send(CREATE_WATCH);
    await turn();
    expect(peer.connection.request().body.length).toBe(5 + 5);
    stream.end();
    await turn();
    const last = peer.connection.sent('DATA').at(-1);
    expect([last?.payload.length, last?.flags]).toEqual([0, FLAG.END_STREAM]);
  });

  test('are not required before the client half-closes the stream', async () => {
    const peer = new Http2Peer();
    watch(peer).stream.end();
    await turn();
    expect([peer.connection.request().body.length, peer.connection.request().ended]).toEqual([0, true]);
  });
});

describe('a request that waits for a window', () => {
  test('is reset when it is canceled, and other requests continue', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 4 } });
    const stop = new AbortController();
    const call = range(peer, { signal: stop.signal });
    void put(peer, 30);
    await turn();
    stop.abort();
    expect(await errorOf(call)).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
    peer.connection.send(windowUpdate(1, 1_000), windowUpdate(3, 1_000));
    await turn();
    expect([peer.connection.request(1).reset, peer.connection.request(1).body.length]).toEqual(['CANCEL', 4]);
    expectPut(peer.connection, 3, 30);
  });

  test('is not sent any further after the peer has reset its stream', async () => {
    const { peer, connection } = await putting(30, { INITIAL_WINDOW_SIZE: 4 });
    connection.send(rstStream(1, 'INTERNAL_ERROR'), windowUpdate(1, 1_000), windowUpdate(0, 1_000));
    void put(peer, 30);
    await turn();
    connection.send(windowUpdate(3, 1_000));
    await turn();
    expect(connection.request(1).body.length).toBe(4);
    expectPut(connection, 3, 30);
  });

  test('is reset, and not sent completely, when the response arrives first (8.1)', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 4 } });
    const call = range(peer);
    await turn();
    peer.connection.send(rangeAnswer(1, 6));
    expect((await call).count).toBe(6n);
    peer.connection.send(windowUpdate(1, 1_000));
    await turn();
    expect([peer.connection.request().reset, peer.connection.request().body.length]).toEqual(['CANCEL', 4]);
  });
});

/** Starts a put with a value of this many bytes. The peer sends these settings when the connection opens. */
async function putting(
  bytes: number,
  greeting: Parameters<typeof settings>[0] & object,
): Promise<{ readonly peer: Http2Peer; readonly connection: PeerConnection }> {
  const peer = new Http2Peer({ greeting: greeting as never });
  void put(peer, bytes);
  await turn();
  return { peer, connection: peer.connection };
}

/** Expects that the peer has received END_STREAM and a whole put with a value of `bytes` bytes on the stream. */
function expectPut(connection: PeerConnection, streamId: number, bytes: number): void {
  const { body, ended } = connection.request(streamId);
  expect(ended).toBe(true);
  expect([body[0], body.readUInt32BE(1)]).toEqual([0, body.length - PREFIX_BYTES]);
  const { value } = decode(methods.kv.put.request, body, PREFIX_BYTES);
  expect(Buffer.from(value).equals(Buffer.alloc(bytes, 7))).toBe(true);
}

function messagesOf(body: Buffer): unknown[] {
  const messages: unknown[] = [];
  for (let at = 0; at < body.length; ) {
    const end = at + PREFIX_BYTES + body.readUInt32BE(at + 1);
    messages.push(decode(methods.watch.watch.request, body, at + PREFIX_BYTES, end));
    at = end;
  }
  return messages;
}
