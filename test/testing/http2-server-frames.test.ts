import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../src/testing/memory/clock.js';
import { StatusError } from '../../src/testing/memory/service.js';
import {
  continuation,
  data,
  FLAG,
  frame,
  grpcMessage,
  headers,
  ping,
  rstStream,
  settings,
  windowUpdate,
  words,
} from '../support/http2-frames.js';
import { block } from '../support/http2-hpack.js';
import { turn } from '../support/http2-peer.js';
import { RawClient, type RawClientOptions, requestBlock } from '../support/http2-raw-client.js';

// These tests check the frames that the HTTP/2 server sends to a client that obeys RFC 9113.

const WATCH = requestBlock([], '/etcdserverpb.Watch/Watch');
/** An encoded WatchRequest that creates a watch. */
const CREATE = grpcMessage(Buffer.from('\x0a\x00'));

function rangeMessage(key: string): Buffer {
  return grpcMessage(Buffer.concat([Buffer.from([0x0a, key.length]), Buffer.from(key)]));
}

/** Returns the frames of a complete Range call. */
function range(streamId: number, key = 'a'): Buffer {
  return Buffer.concat([headers(streamId, requestBlock()), data(streamId, rangeMessage(key), { endStream: true })]);
}

/** Sends a Range call on each stream, and checks that all are answered. */
async function expectAnswers(client: RawClient, ...streamIds: readonly number[]): Promise<void> {
  for (const id of streamIds) client.send(range(id));
  await turn();
  for (const id of streamIds) expect(client.fields(id)['grpc-status']).toBe('0');
  client.expectNoBreach();
}

describe('a request to the HTTP/2 server', () => {
  const [head, tail] = [requestBlock().subarray(0, 20), requestBlock().subarray(20)];
  const message = rangeMessage('a');
  test.for([
    ['in one frame of each kind', range(1)],
    [
      'with padding',
      Buffer.concat([headers(1, requestBlock(), { padding: 255 }), data(1, message, { endStream: true, padding: 9 })]),
    ],
    [
      'with priority',
      Buffer.concat([
        headers(1, requestBlock(), { priority: true, padding: 3 }),
        data(1, message, { endStream: true }),
      ]),
    ],
    [
      'with CONTINUATION',
      Buffer.concat([headers(1, head, { open: true }), continuation(1, tail), data(1, message, { endStream: true })]),
    ],
    [
      'whose END_STREAM is in an empty frame',
      Buffer.concat([headers(1, requestBlock()), data(1, message), data(1, new Uint8Array(), { endStream: true })]),
    ],
    [
      'with trailers',
      Buffer.concat([
        headers(1, requestBlock()),
        data(1, message),
        headers(1, block([['a', 'b']]), { endStream: true }),
      ]),
    ],
    [
      'with content-length',
      Buffer.concat([headers(1, requestBlock([['content-length', '8']])), data(1, message, { endStream: true })]),
    ],
    [
      'whose message is split over many frames',
      Buffer.concat([
        headers(1, requestBlock()),
        ...[...message].map((byte, index) => data(1, Buffer.from([byte]), { endStream: index === message.length - 1 })),
      ]),
    ],
  ] as const)('%s is answered, even if it arrives byte by byte', async ([, bytes]) => {
    const [whole, slow] = [new RawClient(), new RawClient()];
    whole.send(bytes);
    slow.sendSlowly(bytes);
    await turn();
    for (const client of [whole, slow]) {
      expect(client.data(1)).toEqual(grpcMessage(Buffer.from('\x12\x03\x0a\x01a\x20\x01')));
      expect(client.fields(1)).toEqual({
        ':status': '200',
        'content-type': 'application/grpc',
        'grpc-status': '0',
        'grpc-message': '',
      });
      client.expectNoBreach();
    }
  });
});

describe('the first frames of the HTTP/2 server', () => {
  test('announce its limits', async () => {
    const client = new RawClient({ maxConcurrentStreams: 7 });
    await turn();
    expect(client.sent('SETTINGS')[0]?.payload).toEqual(
      settings([
        [3, 7],
        [4, 4_194_304],
        [6, 65_536],
      ]).subarray(9),
    );
    expect(client.allowed(0)).toBe(16 * 1024 * 1024 - 65_535);
    expect(client.acknowledged).toBe(1);
  });
});

describe("the HTTP/2 server's flow control", () => {
  /** Opens a watch on stream 1, and lets the server send this many messages of 1,000 bytes. */
  async function sending(count: number, options: RawClientOptions): Promise<RawClient> {
    const client = new RawClient(options);
    client.send(headers(1, WATCH));
    for (let sent = 0; sent < count; sent += 1)
      client.served.service.watch.responses.send({ cancelReason: 'x'.repeat(1_000 - 5 - 3) });
    await turn();
    return client;
  }

  test('holds data back while the window of the stream is used up', async () => {
    const client = await sending(5, { greeting: { INITIAL_WINDOW_SIZE: 1_500 } });
    expect(client.data(1).length).toBe(1_500);
    client.send(windowUpdate(1, 100));
    await turn();
    expect(client.data(1).length).toBe(1_600);
    client.send(windowUpdate(1, 10_000));
    await turn();
    expect(client.data(1).length).toBe(5_000);
    client.expectNoBreach();
  });

  test('holds data back while the window of the connection is used up', async () => {
    const client = await sending(100, { greeting: { INITIAL_WINDOW_SIZE: 1_000_000 } });
    expect(client.data(1).length).toBe(65_535);
    client.send(windowUpdate(0, 1_000_000));
    await turn();
    expect(client.data(1).length).toBe(100_000);
    client.expectNoBreach();
  });

  test('sends the trailers only after the data that it has held back', async () => {
    const client = await sending(5, { greeting: { INITIAL_WINDOW_SIZE: 0 } });
    client.served.service.watch.responses.end(new StatusError('NotFound', 'gone'));
    await turn();
    expect(client.fields(1)['grpc-status']).toBeUndefined();
    client.send(windowUpdate(1, 4_999));
    await turn();
    expect(client.fields(1)['grpc-status']).toBeUndefined();
    client.send(windowUpdate(1, 1));
    await turn();
    expect(client.fields(1)).toMatchObject({ 'grpc-status': '5', 'grpc-message': 'gone' });
    expect(client.data(1).length).toBe(5_000);
    client.expectNoBreach();
  });

  test('sends headers and trailers although the windows are used up', async () => {
    const client = await sending(0, { greeting: { INITIAL_WINDOW_SIZE: 0 } });
    client.served.service.watch.responses.end();
    await turn();
    expect(client.fields(1)['grpc-status']).toBe('0');
  });

  test('applies a change of the initial window to open streams', async () => {
    const client = await sending(5, { greeting: { INITIAL_WINDOW_SIZE: 2_000 } });
    client.send(settings({ INITIAL_WINDOW_SIZE: 500 }), windowUpdate(1, 1_500));
    await turn();
    expect(client.data(1).length).toBe(2_000);
    client.send(settings({ INITIAL_WINDOW_SIZE: 1_500 }));
    await turn();
    expect(client.data(1).length).toBe(3_000);
    client.expectNoBreach();
  });

  test('shares the window of the connection among streams', async () => {
    const client = new RawClient({ greeting: { INITIAL_WINDOW_SIZE: 1_000_000 } });
    client.send(headers(1, WATCH), headers(3, WATCH));
    for (const { responses } of client.served.service.watches) responses.send({ cancelReason: 'x'.repeat(100_000) });
    await turn();
    client.send(windowUpdate(0, 60_000));
    await turn();
    expect(client.data(1).length).toBeGreaterThan(65_535);
    expect(client.data(3).length).toBeGreaterThan(16_000);
    expect(client.data(1).length + client.data(3).length).toBe(125_535);
    client.expectNoBreach();
  });

  test('uses frames of up to the size that the client accepts', async () => {
    const client = await sending(50, { greeting: { MAX_FRAME_SIZE: 40_000, INITIAL_WINDOW_SIZE: 0 } });
    client.send(windowUpdate(1, 65_535));
    await turn();
    expect(Math.max(...client.sent('DATA').map(({ payload }) => payload.length))).toBe(1_000);
    client.served.service.watch.responses.send({ cancelReason: 'x'.repeat(60_000) });
    client.send(windowUpdate(0, 100_000), windowUpdate(1, 100_000));
    await turn();
    expect(Math.max(...client.sent('DATA').map(({ payload }) => payload.length))).toBe(40_000);
    client.expectNoBreach();
  });

  test('lets the client send more, on the stream and on the connection, when half of a window is consumed', async () => {
    const client = new RawClient();
    client.send(headers(1, WATCH));
    const before = client.allowed(0);
    const part = data(1, Buffer.concat(Array.from({ length: 2_340 }, () => CREATE)));
    // 130 parts are more than half of the stream's window, and 530 parts are more than half of the connection's window.
    for (let sent = 0; sent < 130; sent += 1) client.send(part);
    await turn();
    expect(client.allowed(1)).toBeGreaterThanOrEqual(2_097_152);
    for (let sent = 130; sent < 530; sent += 1) client.send(part);
    await turn();
    expect(client.allowed(0) - before).toBeGreaterThanOrEqual(8_388_608);
  });

  test('sends no data while the byte stream has a long backlog', async () => {
    const client = await sending(1, {});
    client.roomy = false;
    const { responses } = client.served.service.watch;
    responses.send({ cancelReason: 'x' });
    await turn();
    const before = client.data(1).length;
    responses.send({ cancelReason: 'x'.repeat(1_000) });
    await turn();
    expect(client.data(1).length).toBe(before);
    client.drain();
    await turn();
    expect(client.data(1).length).toBeGreaterThan(before + 1_000);
    client.expectNoBreach();
  });
});

describe("the HTTP/2 server's header compression", () => {
  test.for([0, 40, 100, 4_096, 65_536])('respects a header table of %d bytes', async (bytes) => {
    const client = new RawClient({ greeting: { HEADER_TABLE_SIZE: bytes } });
    await expectAnswers(client, 1, 3, 5);
    client.send(settings({ HEADER_TABLE_SIZE: 50 }), settings({ HEADER_TABLE_SIZE: 4_096 }));
    await expectAnswers(client, 7, 9);
  });

  test('makes the headers and trailers of a later response short', async () => {
    const client = new RawClient();
    await expectAnswers(client, 1, 3);
    expect(client.sent('HEADERS', 3).map(({ payload }) => payload.length)).toEqual([2, 16]);
  });

  test('splits trailers that are longer than a frame', async () => {
    const client = new RawClient();
    client.send(headers(1, WATCH));
    const text = `ä${'x'.repeat(40_000)}`;
    client.served.service.watch.responses.end(new StatusError('Unknown', text));
    await turn();
    expect(client.sent('CONTINUATION', 1).length).toBe(2);
    expect(decodeURIComponent(client.fields(1)['grpc-message'] ?? '')).toBe(text);
    client.expectNoBreach();
  });
});

describe('a response of the HTTP/2 server that ends before the request', () => {
  test('is followed by RST_STREAM with NO_ERROR', async () => {
    const client = new RawClient();
    client.send(headers(1, WATCH));
    client.served.service.watch.responses.end();
    await turn();
    expect(client.resetCode(1)).toBe('NO_ERROR');
    client.send(data(1, CREATE), data(1, CREATE, { endStream: true }));
    await expectAnswers(client, 3);
  });
});

describe('a PING to the HTTP/2 server', () => {
  const PING = ping(words(1, 2));

  test('is answered with its payload', async () => {
    const client = new RawClient();
    client.send(PING);
    await turn();
    expect(client.sent('PING')).toMatchObject([{ flags: FLAG.ACK, payload: words(1, 2) }]);
  });

  test('closes the connection, as in etcd, when more than two pings come too early', async () => {
    const clock = new ManualClock();
    const client = new RawClient({ clock });
    client.send(headers(1, WATCH));
    for (const seconds of [0, 5, 5, 4, 4]) {
      clock.advance(seconds * 1_000);
      client.send(PING);
    }
    expect(client.closed).toBe(false);
    clock.advance(4_999);
    client.send(PING);
    await turn();
    expect(client).toMatchObject({ closed: true, goAway: { code: 'ENHANCE_YOUR_CALM', debug: 'too_many_pings' } });
    expect(client.served.service.watch.ends).toEqual(['canceled']);
  });

  test('needs an interval of two hours on a connection without streams', async () => {
    const clock = new ManualClock();
    const client = new RawClient({ clock });
    for (let pings = 0; pings < 4; pings += 1) {
      client.send(PING);
      clock.advance(7_199_999);
    }
    await turn();
    expect(client.goAway).toMatchObject({ code: 'ENHANCE_YOUR_CALM' });
  });

  test('is allowed after each response', async () => {
    const client = new RawClient({ clock: new ManualClock() });
    for (let id = 1; id < 100; id += 2) {
      client.send(PING);
      await expectAnswers(client, id);
    }
  });

  test('is allowed at any time when the interval is 0', async () => {
    const client = new RawClient({ minPingIntervalMs: 0 });
    for (let pings = 0; pings < 100; pings += 1) client.send(PING);
    await expectAnswers(client, 1);
    expect(client.sent('PING').length).toBe(100);
  });
});

describe('a graceful shutdown of the HTTP/2 server', () => {
  test('accepts streams until the client has acknowledged the PING, and closes the connection after the last stream', async () => {
    const client = new RawClient();
    client.send(headers(1, WATCH));
    client.served.server.leave();
    client.served.server.leave();
    await turn();
    expect(client.goAway).toEqual({ lastStreamId: 2 ** 31 - 1, code: 'NO_ERROR', debug: 'graceful_stop' });
    await expectAnswers(client, 3);
    const payload = client.sent('PING')[0]?.payload ?? Buffer.alloc(8);
    client.send(ping(words(9, 9), FLAG.ACK));
    await turn();
    expect(client.sent('GOAWAY').length).toBe(1);
    client.send(ping(payload, FLAG.ACK), range(5), headers(7, WATCH));
    await turn();
    expect(client.goAway).toEqual({ lastStreamId: 3, code: 'NO_ERROR', debug: 'graceful_stop' });
    expect(client.fields(5)).toEqual({});
    expect([client.closed, client.served.service.watches.length]).toEqual([false, 1]);
    client.send(data(1, CREATE));
    client.served.service.watch.responses.end();
    await turn();
    expect(client.fields(1)['grpc-status']).toBe('0');
    expect(client).toMatchObject({ closed: true });
    client.expectNoBreach();
  });

  test('closes a connection without streams when the client has acknowledged the PING', async () => {
    const client = new RawClient();
    client.served.server.leave();
    await turn();
    expect(client.closed).toBe(false);
    client.send(ping(client.sent('PING')[0]?.payload ?? Buffer.alloc(8), FLAG.ACK));
    await turn();
    expect(client.closed).toBe(true);
  });
});

describe('the deadline of a call to the HTTP/2 server', () => {
  test('resets the stream with CANCEL, as grpc-go does', async () => {
    const clock = new ManualClock();
    const client = new RawClient({ clock });
    client.send(headers(1, requestBlock([['grpc-timeout', '2S']])), data(1, rangeMessage('held'), { endStream: true }));
    clock.advance(1_999);
    await turn();
    expect(client.resetCode(1)).toBeUndefined();
    clock.advance(1);
    await turn();
    expect(client.resetCode(1)).toBe('CANCEL');
    client.served.service.held[0]?.answer();
    await expectAnswers(client, 3);
    expect(client.fields(1)).toEqual({});
  });
});

describe('at the HTTP/2 server, a flood', () => {
  test.for([
    ['PRIORITY', (id: number) => frame('PRIORITY', 0, id, new Uint8Array(5))],
    ['frames of an unknown type', (id: number) => frame(0x42, 0, id)],
    ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
    ['SETTINGS with ACK', () => frame('SETTINGS', FLAG.ACK, 0)],
    ['streams that the client resets', (id: number) => Buffer.concat([headers(id, WATCH), rstStream(id, 'CANCEL')])],
    ['malformed requests', (id: number) => headers(id, block([['A', 'b']]))],
  ] as const)('of %s closes the connection', async ([, frameOf]) => {
    const client = new RawClient();
    for (let id = 1; id < 400_000 && !client.closed; id += 2) client.send(frameOf(id));
    await turn();
    expect(client).toMatchObject({ closed: true, goAway: { code: 'ENHANCE_YOUR_CALM' } });
  });

  test.for([
    ['PING', () => ping(words(1, 2))],
    ['SETTINGS', () => settings()],
    ['requests', (id: number) => headers(id, requestBlock([], '/a.B/C'), { endStream: true })],
  ] as const)('of %s closes the connection when the client does not read the answers', async ([, frameOf]) => {
    const client = new RawClient({ minPingIntervalMs: 0 });
    await turn();
    client.roomy = false;
    for (let id = 1; id < 400_000 && !client.closed; id += 2) {
      client.send(frameOf(id));
      if (id % 100 === 1) await turn();
    }
    expect(client).toMatchObject({ closed: true, goAway: { code: 'ENHANCE_YOUR_CALM' } });
    expect(client.received).toBeLessThan(2_000_000);
  });
});
