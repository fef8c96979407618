import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PeerLimits } from '../../../src/wire/http2/flow-control.js';
import { errorOf } from '../../support/errors.js';
import { ANSWER_FIELDS, CREATE_WATCH, put, range, rangeAnswer, watch } from '../../support/http2-calls.js';
import {
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
import { VirtualClock } from '../../support/virtual-clock.js';

// In these tests, the peer sends floods of useless frames, that is, of frames that advance no call. The peer reads the
// answers to its frames.

// Some floods take seconds on a busy machine, so these tests need a longer time limit.
vi.setConfig({ testTimeout: 30_000 });

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

const WIDER = settings({ INITIAL_WINDOW_SIZE: 65_536 });
const NARROWER = settings({ INITIAL_WINDOW_SIZE: 65_535 });
const PRIORITY = frame('PRIORITY', 0, 1, Buffer.alloc(5));

describe('a connection', () => {
  test.for([
    ['WINDOW_UPDATE that enlarges the connection window by 1 byte', windowUpdate(0, 1)],
    ['WINDOW_UPDATE that enlarges a stream window by 1 byte', windowUpdate(3, 1)],
    ['WINDOW_UPDATE on a closed stream', windowUpdate(1, 1)],
    ['RST_STREAM on a closed stream', rstStream(1, 'CANCEL')],
    ['HEADERS on a closed stream', headers(1, block(ANSWER_FIELDS))],
    ['interim HEADERS on an open stream', headers(3, block([[':status', '103']]))],
    ['DATA of one byte on a closed stream', data(1, Buffer.alloc(1))],
    ['empty DATA that ends a closed stream', data(1, Buffer.alloc(0), { endStream: true })],
    ['PRIORITY', PRIORITY],
    ['frames of an unknown type', frame(0xfe, 0, 0)],
    ['unsolicited SETTINGS with ACK', settingsAck],
    ['unsolicited PING with ACK', ping(words(0, 7), FLAG.ACK)],
    ['SETTINGS that change the initial window', Buffer.concat([WIDER, NARROWER])],
  ] as const)('is closed when the peer floods it with %s', async ([, flood]) => {
    const { connection, call } = await withClosedStream();
    let frames = 0;
    const chunk = Buffer.concat(Array<Buffer>(100).fill(flood));
    for (; frames < 1_000_000 && !connection.closed; frames += 100) {
      connection.send(chunk);
      if (frames % 10_000 === 0) await turn();
    }
    await turn();
    expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
    expect([connection.goAwayCode, frames <= 60_000]).toEqual(['ENHANCE_YOUR_CALM', true]);
  });

  test.for([
    ['WINDOW_UPDATE', windowUpdate(3, 1)],
    ['PRIORITY', PRIORITY],
    ['SETTINGS that change the initial window', Buffer.concat([WIDER, NARROWER])],
  ] as const)('stays open when the peer sends %s 400 times per second', async ([, each]) => {
    const { connection, call } = await withClosedStream();
    for (let seconds = 0; seconds < 300; seconds += 1) {
      for (let frames = 0; frames < 400; frames += 1) connection.send(each);
      await clock.pass(1_000);
    }
    connection.send(rangeAnswer(3, 5));
    expect(await call).toMatchObject({ count: 5n });
  });

  test('is closed after fewer than 500 changes of SETTINGS_INITIAL_WINDOW_SIZE when 5,000 streams are open', async () => {
    const peer = new Http2Peer();
    for (let calls = 0; calls < 5_000; calls += 1) void range(peer);
    await turn();
    const { connection } = peer;
    let changes = 0;
    for (; changes < 10_000 && !connection.closed; changes += 2) connection.send(WIDER, NARROWER);
    expect(connection.goAwayCode).toBe('ENHANCE_YOUR_CALM');
    expect(changes).toBeLessThan(500);
  });

  test('stays open when the peer enlarges its windows step by step while 5,000 streams are open', async () => {
    const peer = new Http2Peer();
    for (let calls = 0; calls < 5_000; calls += 1) void range(peer);
    await turn();
    const { connection } = peer;
    let sizes = 0;
    for (let size = 65_535; size < 2 ** 31 - 1; size = 2 * size + 1) {
      connection.send(settings({ INITIAL_WINDOW_SIZE: size }), windowUpdate(0, 100_000));
      sizes += 1;
    }
    await turn();
    expect(connection.closed).toBe(false);
    // The client has applied every change: it acknowledges each SETTINGS frame, and its windows are larger.
    expect(connection.sent('SETTINGS').filter(({ flags }) => flags === FLAG.ACK).length).toBe(1 + sizes);
    void put(peer, 200_000);
    await turn();
    const last = connection.sent('DATA').at(-1);
    expect([last?.streamId, (last?.flags ?? 0) & FLAG.END_STREAM]).toEqual([10_001, FLAG.END_STREAM]);
  });

  test('stays open when the peer enlarges the stream window and the connection window for each message', async () => {
    const peer = new Http2Peer();
    const { stream } = watch(peer);
    await turn();
    const { connection } = peer;
    for (let rounds = 0; rounds < 300; rounds += 1) {
      for (let messages = 0; messages < 100; messages += 1) stream.send(CREATE_WATCH);
      await turn();
      for (let messages = 0; messages < 100; messages += 1) connection.send(windowUpdate(0, 10), windowUpdate(1, 10));
      await clock.pass(1_000);
    }
    expect(connection.closed).toBe(false);
  });

  test('stays open when the peer sends two WINDOW_UPDATE frames for each of a million calls', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 1_000_000; calls += 1) {
      limits.called();
      limits.sent(20);
      for (let frames = 0; frames < 2; frames += 1) limits.useless('WINDOW_UPDATE');
    }
    expect(() => limits.useless('WINDOW_UPDATE')).not.toThrow();
  });

  test('stays open when the peer answers 50,000 calls after the calls have timed out', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 50_000; calls += 1) limits.called();
    const late = (): void => {
      for (let frames = 0; frames < 2; frames += 1) limits.useless('WINDOW_UPDATE');
      for (let frames = 0; frames < 2; frames += 1) limits.useless('late HEADERS', 1.4);
      limits.useless('RST_STREAM');
    };
    for (let calls = 0; calls < 50_000; calls += 1) late();
    expect(late).not.toThrow();
  });

  test('is closed when the peer floods it with RST_STREAM after ten million canceled calls', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 10_000_000; calls += 1) limits.called();
    let frames = 0;
    const flood = (): void => {
      for (; frames < 2_000_000; frames += 1) limits.useless('RST_STREAM');
    };
    expect(flood).toThrow();
    expect(frames).toBeLessThanOrEqual(1_000_010);
  });

  test('is closed when the peer enlarges the window for a long request by one byte at a time', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 0 } });
    const call = put(peer, 1_000_000);
    await turn();
    const { connection } = peer;
    connection.send(Buffer.concat(Array<Buffer>(45_000).fill(PRIORITY)));
    expect(connection.closed).toBe(false);
    let frames = 0;
    for (; frames < 10_000 && !connection.closed; frames += 1) {
      connection.send(windowUpdate(1, 1));
      if (frames % 1_000 === 0) await turn();
    }
    expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
    expect(frames).toBeGreaterThan(4_000);
  });
});

/** Returns a connection whose stream 1 is closed and whose stream 3 waits for its response. */
async function withClosedStream(): Promise<{ connection: PeerConnection; call: Promise<unknown> }> {
  const peer = new Http2Peer();
  const closed = range(peer);
  const call = range(peer);
  await turn();
  peer.connection.send(rangeAnswer(1));
  await closed;
  return { connection: peer.connection, call };
}
