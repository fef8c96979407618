import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { TRANSPORT_DEFAULTS } from '../../../src/wire/transport.js';
import { errorOf } from '../../support/errors.js';
import {
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  type OpenWatch,
  put,
  putBytes,
  range,
  rangeAnswer,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, FLAG, ping, windowUpdate } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// These tests simulate a slow link with a large buffer: bytes flow all the time, but the answer to a PING waits behind
// them, or the PING waits behind a large request. The client must tell such a link from a dead one.
// test/faults/slow-links.test.ts does the same with etcd and a proxy.

const { pingIntervalMs, pingTimeoutMs } = TRANSPORT_DEFAULTS;
const PINGING = { pingIntervalMs, pingTimeoutMs };
/** How long the peer may stay silent after a request before the client sends a PING. */
const SILENCE_MS = 1_000;
/** How long the peer may stay silent after a PING before new calls use another connection. */
const SUSPECT_MS = 1_000;
/** A time that is longer than the time that the client waits for bytes that have arrived but were not read. */
const GRACE_MS = 100;
/** While only a few bytes arrive, the client waits for the answer to a PING for this many ping timeouts. */
const MAX_TIMEOUTS = 3;
/** The length of the smallest request behind which a PING may wait. */
const LARGE_BYTES = 65_536;
const LARGE_WINDOW = 2 ** 24;
/** The rate in bytes per millisecond at which the client assumes that large requests reach the peer: 32 KiB/s. */
const SLOWEST_BYTES_PER_MS = 32.768;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

describe('a connection on which the bytes of a response delay the answer to a PING', () => {
  test('stays open and delivers the response, however long the bytes take', async () => {
    const { peer, connection, answerPing } = lateAnswers();
    const call = range(peer, { deadline: clock.now + 200_000 });
    await sendSlowly(connection, 1, 60_000, 4_096);
    expect([connection().closed, peer.connections.length, connection().sent('PING').length]).toEqual([false, 1, 1]);
    answerPing();
    connection().send(trailers(1));
    // The response is shorter than its prefix states.
    expect((await errorOf(call)).reason).toBe('MalformedMessage');
  });

  test('carries no new calls after the answer is later than `pingTimeoutMs`', async () => {
    const { peer, connection } = lateAnswers();
    void range(peer);
    await sendSlowly(connection, 1, pingIntervalMs + pingTimeoutMs - 500, 4_096);
    void range(peer);
    await turn();
    expect(peer.connections.length).toBe(1);
    await sendSlowly(connection, undefined, 500 + GRACE_MS, 4_096);
    void range(peer);
    await turn();
    expect(peer.connections.length).toBe(2);
  });

  test('is closed after the ping timeout when the bytes stop', async () => {
    const { peer, connection } = lateAnswers();
    void range(peer);
    await sendSlowly(connection, 1, 60_000, 4_096);
    await clock.pass(pingTimeoutMs + GRACE_MS);
    expect([connection().closed, peer.connections.length]).toEqual([true, 1]);
  });

  test('is closed after three ping timeouts when the peer sends only one byte a second', async () => {
    const { peer, connection } = lateAnswers();
    const timeoutMs = 5_000;
    const call = range(peer, { timeoutMs, deadline: clock.now + timeoutMs });
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await sendSlowly(connection, 1, timeoutMs, 1, 1_000);
    expect((await errorOf(call)).reason).toBe('DeadlineExceeded');
    await sendSlowly(connection, 3, pingIntervalMs - timeoutMs + MAX_TIMEOUTS * pingTimeoutMs + GRACE_MS, 1, 1_000);
    expect([connection().closed, open.end?.error?.reason]).toEqual([true, 'ConnectionLost']);
  });
});

describe('a connection on which a large request delays a PING', () => {
  test('stays open until a link of 32 KiB/s has carried the request, and the peer answers', async () => {
    const { peer, connection, answerPing } = lateAnswers();
    const bytes = 1_200_000;
    const { call } = await putAll(peer, bytes);
    await clock.pass(bytes / SLOWEST_BYTES_PER_MS - 1);
    expect([connection().closed, peer.connections.length]).toEqual([false, 1]);
    answerPing();
    connection().send(rangeAnswer(1));
    await call;
  });

  test('is closed when a link of 32 KiB/s would have carried all large requests, and the peer is still silent', async () => {
    const { peer, connection } = lateAnswers();
    const calls = [await putAll(peer, 400_000), await putAll(peer, 800_000)];
    await clock.pass((putBytes(400_000) + putBytes(800_000)) / SLOWEST_BYTES_PER_MS - GRACE_MS);
    expect(connection().closed).toBe(false);
    await clock.pass(2 * GRACE_MS);
    expect(connection().closed).toBe(true);
    for (const { call } of calls)
      expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
  });

  test('lets new calls and long-lived streams leave as early as any other silent connection', async () => {
    const { peer, connection } = lateAnswers();
    const open = await answeredWatch(peer, connection);
    await putAll(peer, 1_200_000);
    await clock.pass(SILENCE_MS + SUSPECT_MS + GRACE_MS);
    void range(peer);
    await turn();
    expect([peer.connections.length, open.leavings]).toEqual([2, 0]);
    await clock.pass(pingTimeoutMs - SUSPECT_MS);
    expect([open.leavings, peer.connections[0]?.closed]).toEqual([1, false]);
  });

  test('is closed as early as any other silent connection once the peer has answered the request', async () => {
    const { peer, connection, answerPing } = lateAnswers();
    const { call } = await putAll(peer, 1_200_000);
    await clock.pass(SILENCE_MS);
    answerPing();
    connection().send(rangeAnswer(1));
    await call;
    void range(peer);
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect(connection().closed).toBe(true);
  });

  test.for([
    [10, 100_000, 60],
    [8, 120_000, 64],
    [6, 100_000, 60],
  ] as const)(
    'survives %i puts of %i bytes that a link of %i bytes a ms carries and answers in turn',
    async ([count, bytes, bytesPerMs]) => {
      const { peer, connection } = lateAnswers();
      const calls: Promise<unknown>[] = [];
      for (let index = 0; index < count; index += 1) calls.push((await putAll(peer, bytes)).call);
      const results = Promise.allSettled(calls);
      for (let index = 0; index < count && !connection().closed; index += 1) {
        for (let leftMs = bytes / bytesPerMs; leftMs > 0; leftMs -= SILENCE_MS)
          await clock.pass(Math.min(SILENCE_MS, leftMs));
        connection().send(rangeAnswer(1 + 2 * index));
        await turn();
      }
      expect(new Set((await results).map(({ status }) => status))).toEqual(new Set(['fulfilled']));
    },
  );

  test('is closed as early as any other silent connection when many small requests are unanswered', async () => {
    const { peer, connection } = lateAnswers();
    for (let calls = 0; calls < 20; calls += 1) await putAll(peer, LARGE_BYTES / 2);
    await clock.pass(SILENCE_MS + pingTimeoutMs + GRACE_MS);
    expect(connection().closed).toBe(true);
  });
});

test('a stream that its owner cancels as unresponsive is followed by a new connection', async () => {
  const peer = new Http2Peer({ ...PINGING, play: (each, index) => index > 0 && answerAll(each, 9) });
  const [kept, canceled] = [watch(peer), watch(peer)];
  await turn();
  canceled.stream.cancel('unresponsive');
  expect((await range(peer)).count).toBe(9n);
  expect([peer.connections.length, peer.connections[0]?.closed, kept.end]).toEqual([2, false, undefined]);
});

/** Returns a peer that answers a PING only when the test calls `answerPing`. */
function lateAnswers(): { peer: Http2Peer; connection: () => PeerConnection; answerPing: () => void } {
  let late: Buffer | undefined;
  const peer = new Http2Peer({
    ...PINGING,
    greeting: { INITIAL_WINDOW_SIZE: LARGE_WINDOW },
    play: (each, index) => {
      if (index > 0) return;
      each.onPing = (payload) => {
        late = ping(payload, FLAG.ACK);
      };
    },
  });
  const connection = (): PeerConnection => peer.connections[0] as PeerConnection;
  return { peer, connection, answerPing: () => connection().send(late as Buffer) };
}

/**
 * Sends a part of a response of `bytes` bytes every `everyMs` milliseconds, for `ms` milliseconds. If `streamId` is
 * undefined, continues the response of stream 1.
 */
async function sendSlowly(
  connection: () => PeerConnection,
  streamId: number | undefined,
  ms: number,
  bytes: number,
  everyMs = 500,
): Promise<void> {
  await turn();
  if (streamId !== undefined)
    connection().send(answerHeaders(streamId), data(streamId, Buffer.from([0, 0, 0x30, 0, 0])));
  for (let passed = 0; passed < ms; passed += everyMs) {
    if (!connection().closed) connection().send(data(streamId ?? 1, Buffer.alloc(bytes)));
    await clock.pass(Math.min(everyMs, ms - passed));
  }
}

/** Starts a put, and gives the client windows that let it send the whole request. */
async function putAll(peer: Http2Peer, bytes: number): Promise<{ readonly call: Promise<unknown> }> {
  const call = put(peer, bytes);
  await turn();
  peer.connection.send(windowUpdate(0, bytes + 100));
  await turn();
  return { call };
}

/** Opens a watch. The peer answers the watch request, so that the client no longer waits for a response. */
async function answeredWatch(peer: Http2Peer, connection: () => PeerConnection): Promise<OpenWatch> {
  const open = watch(peer);
  open.stream.send(CREATE_WATCH);
  await turn();
  connection().send(answerHeaders(1), data(1, watchMessage(0)));
  return open;
}
