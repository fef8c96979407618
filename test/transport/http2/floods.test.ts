import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { PeerLimits } from '../../../src/transport/http2/peer-limits.js';
import { errorOf } from '../../support/errors.js';
import { ANSWER_FIELDS, CREATE_WATCH, put, range, rangeAnswer, watch } from '../../support/http2-calls.js';
import {
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

// A peer that sends frames which bring no call further, and reads what it is answered.

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

const WIDER = settings({ INITIAL_WINDOW_SIZE: 65_536 });
const NARROWER = settings({ INITIAL_WINDOW_SIZE: 65_535 });
const PRIORITY = frame('PRIORITY', 0, 1, Buffer.alloc(5));

describe('a peer', () => {
  test.for([
    ['WINDOW_UPDATE of the connection by 1', windowUpdate(0, 1)],
    ['WINDOW_UPDATE of a stream by 1', windowUpdate(3, 1)],
    ['WINDOW_UPDATE of a closed stream', windowUpdate(1, 1)],
    ['RST_STREAM of a closed stream', rstStream(1, 'CANCEL')],
    ['HEADERS of a closed stream', headers(1, block(ANSWER_FIELDS))],
    ['PRIORITY', PRIORITY],
    ['frames of a type that nobody knows', frame(0xfe, 0, 0)],
    ['acknowledgements of SETTINGS', settingsAck],
    ['answers to PINGs that nobody sent', ping(words(0, 7), FLAG.ACK)],
    ['SETTINGS that change its windows', Buffer.concat([WIDER, NARROWER])],
  ] as const)('is left when it floods the client with %s', async ([, flood]) => {
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
    ['SETTINGS that change its windows', Buffer.concat([WIDER, NARROWER])],
  ] as const)('is not left when it sends 400 %s frames each second', async ([, each]) => {
    const { connection, call } = await withClosedStream();
    for (let seconds = 0; seconds < 300; seconds += 1) {
      for (let frames = 0; frames < 400; frames += 1) connection.send(each);
      await clock.pass(1_000);
    }
    connection.send(rangeAnswer(3, 5));
    expect(await call).toMatchObject({ count: 5n });
  });

  test('is left the sooner when SETTINGS change its windows, the more streams they touch', {
    timeout: 30_000,
  }, async () => {
    const peer = new Http2Peer();
    for (let calls = 0; calls < 5_000; calls += 1) void range(peer);
    await turn();
    const { connection } = peer;
    let changes = 0;
    for (; changes < 10_000 && !connection.closed; changes += 2) connection.send(WIDER, NARROWER);
    expect(connection.goAwayCode).toBe('ENHANCE_YOUR_CALM');
    expect(changes).toBeLessThan(500);
  });

  test('is not left when its windows grow with each estimate of the bandwidth, with 5,000 streams open', async () => {
    const peer = new Http2Peer();
    for (let calls = 0; calls < 5_000; calls += 1) void range(peer);
    await turn();
    for (let size = 65_535; size < 2 ** 31 - 1; size = 2 * size + 1) {
      peer.connection.send(settings({ INITIAL_WINDOW_SIZE: size }), windowUpdate(0, 1));
    }
    await turn();
    expect(peer.connection.closed).toBe(false);
  });

  test('is not left when it opens both windows after each frame of data', { timeout: 30_000 }, async () => {
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

  test('is not left when calls by the million, each with both windows opened for it, are answered', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 1_000_000; calls += 1) {
      limits.opened();
      limits.sent(20);
      for (let frames = 0; frames < 2; frames += 1) limits.useless('WINDOW_UPDATE');
      limits.received();
    }
    expect(() => limits.useless('WINDOW_UPDATE')).not.toThrow();
  });

  test('is not left when it answers 50,000 calls that all timed out before', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 50_000; calls += 1) limits.reset();
    const late = (): void => {
      for (let frames = 0; frames < 2; frames += 1) limits.useless('WINDOW_UPDATE');
      for (let frames = 0; frames < 2; frames += 1) limits.lateHeaders(100);
      limits.useless('RST_STREAM');
    };
    for (let calls = 0; calls < 50_000; calls += 1) late();
    expect(late).not.toThrow();
  });

  test('is left when the calls that it floods had once been given up by the million', () => {
    const limits = new PeerLimits();
    for (let calls = 0; calls < 10_000_000; calls += 1) limits.reset();
    let frames = 0;
    const flood = (): void => {
      for (; frames < 2_000_000; frames += 1) limits.useless('RST_STREAM');
    };
    expect(flood).toThrow();
    expect(frames).toBeLessThanOrEqual(1_000_010);
  });

  test('is left when it lets a long request go out byte by byte', async () => {
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

/** A connection whose stream 1 is closed, and whose stream 3 waits for its answer. */
async function withClosedStream(): Promise<{ connection: PeerConnection; call: Promise<unknown> }> {
  const peer = new Http2Peer();
  const closed = range(peer);
  const call = range(peer);
  await turn();
  peer.connection.send(rangeAnswer(1));
  await closed;
  return { connection: peer.connection, call };
}
