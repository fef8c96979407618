import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { EtcdError } from '../../../src/base/etcd-error.js';
import { errorOf } from '../../support/errors.js';
import { answerAll, CREATE_WATCH, put, range, rangeAnswer, watch } from '../../support/http2-calls.js';
import { goAway, rstStream, settings } from '../../support/http2-frames.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// These tests check what happens to calls that wait for a free stream (RFC 9113, section 5.1.2) when many calls end in
// one turn of the event loop. The client must not send the waiting calls if they end in the same turn.

/** The number of streams that the peer allows, and so the number of calls that are sent before any call ends. */
const IN_FLIGHT = 10;
const CALLS = 100;
const WAITING = CALLS - IN_FLIGHT;
const TIMEOUT_MS = 1_000;

let clock: VirtualClock;

beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => clock.restore());

describe('calls that wait for a free stream', () => {
  test('are not sent when the client closes', async () => {
    const peer = saturated();
    const calls = Array.from({ length: CALLS }, () => put(peer));
    await turn();
    await peer.transport.close();
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
    expect(peer.connection.streamIds.length).toBe(IN_FLIGHT);
  });

  test('are not sent when they time out together with the calls in flight', async () => {
    const peer = saturated();
    const calls = Array.from({ length: CALLS }, () => range(peer, timeLimit()));
    await turn();
    await clock.pass(TIMEOUT_MS);
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
    expect(peer.connection.streamIds.length).toBe(IN_FLIGHT);
  });

  test('are not sent when one signal aborts all calls', async () => {
    const peer = saturated();
    const stop = new AbortController();
    const calls = Array.from({ length: CALLS }, () => range(peer, { signal: stop.signal }));
    await turn();
    stop.abort();
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
    expect(peer.connection.streamIds.length).toBe(IN_FLIGHT);
  });

  test('are not sent when the separate signals of all calls abort in the same turn of the event loop', async () => {
    const peer = saturated();
    const stops = Array.from({ length: CALLS }, () => new AbortController());
    const calls = stops.map(({ signal }) => range(peer, { signal }));
    await turn();
    for (const stop of stops) stop.abort();
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
  });

  test('are not sent past their deadline when a response frees a stream before the delayed timers fire', async () => {
    const peer = saturated();
    const calls = Array.from({ length: CALLS }, () => range(peer, timeLimit()));
    await turn();
    clock.block(TIMEOUT_MS);
    peer.connection.send(rangeAnswer(1, 1));
    await turn();
    expect(peer.connection.streamIds.length).toBe(IN_FLIGHT);
    await clock.pass(1);
    expect(await outcomes(calls)).toEqual({ ok: 1, unknown: IN_FLIGHT - 1, 'not-sent': WAITING });
  });

  test('are not sent past their deadline when SETTINGS allow more streams before the delayed timers fire', async () => {
    const peer = saturated();
    const calls = Array.from({ length: CALLS }, () => range(peer, timeLimit()));
    await turn();
    clock.block(TIMEOUT_MS);
    peer.connection.send(settings({ MAX_CONCURRENT_STREAMS: CALLS }));
    await clock.pass(1);
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
  });

  test('are not sent past their deadline when a congested connection drains before the delayed timers fire', async () => {
    const peer = new Http2Peer();
    void range(peer);
    await turn();
    peer.connection.roomy = false;
    peer.connection.send(settings());
    await turn();
    const calls = Array.from({ length: CALLS }, () => range(peer, timeLimit()));
    clock.block(TIMEOUT_MS);
    peer.connection.drain();
    await clock.pass(1);
    expect(await outcomes(calls)).toEqual({ 'not-sent': CALLS });
    expect(peer.connection.streamIds).toEqual([1]);
  });

  test('are not sent past their deadline when the connection opens after the deadline', async () => {
    const peer = new Http2Peer({ greeting: false });
    const call = range(peer, timeLimit());
    await turn();
    clock.block(TIMEOUT_MS);
    peer.connection.send(settings());
    expect(await errorOf(call)).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
    expect(peer.connection.streamIds).toEqual([]);
  });

  test('are not sent when an abort frees streams before the abort listeners of the waiting calls run', async () => {
    const peer = saturated();
    const stop = new AbortController();
    const calls = Array.from({ length: IN_FLIGHT }, () => range(peer, { signal: stop.signal }));
    // By the time the first listener on `stop` runs, the signal that AbortSignal.any derived from `stop` is already
    // aborted.
    const follower = range(peer, { signal: AbortSignal.any([stop.signal]) });
    await turn();
    stop.abort();
    expect(await outcomes([...calls, follower])).toEqual({ unknown: IN_FLIGHT, 'not-sent': 1 });
  });

  test('are not sent past their deadline when the peer sends GOAWAY', async () => {
    const peer = new Http2Peer({
      greeting: { MAX_CONCURRENT_STREAMS: IN_FLIGHT },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    const before = Array.from({ length: IN_FLIGHT }, () => range(peer));
    const calls = Array.from({ length: WAITING }, () => range(peer, timeLimit()));
    await turn();
    const first = peer.connection;
    clock.block(TIMEOUT_MS);
    first.send(goAway(2 * IN_FLIGHT - 1));
    await turn();
    expect(await outcomes(calls)).toEqual({ 'not-sent': WAITING });
    for (const id of first.streamIds) first.send(rangeAnswer(id, 1));
    expect(await outcomes(before)).toEqual({ ok: IN_FLIGHT });
    expect(peer.connections.flatMap(({ streamIds }) => streamIds).length).toBe(IN_FLIGHT);
  });

  test('are not sent past their deadline when their connection is lost', async () => {
    const peer = new Http2Peer({
      greeting: { MAX_CONCURRENT_STREAMS: IN_FLIGHT },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    const calls = Array.from({ length: CALLS }, () => range(peer, timeLimit()));
    await turn();
    clock.block(TIMEOUT_MS);
    peer.connection.lose();
    await turn();
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT, 'not-sent': WAITING });
    expect(peer.connections.flatMap(({ streamIds }) => streamIds).length).toBe(IN_FLIGHT);
  });

  test('open exactly as many streams as the peer has reset', async () => {
    const peer = saturated();
    const calls = Array.from({ length: CALLS }, () => range(peer));
    await turn();
    const { connection } = peer;
    for (const id of connection.streamIds.slice(0, 3)) connection.send(rstStream(id, 'INTERNAL_ERROR'));
    await turn();
    expect(connection.streamIds.length).toBe(IN_FLIGHT + 3);
    await peer.transport.close();
    expect(await outcomes(calls)).toEqual({ unknown: IN_FLIGHT + 3, 'not-sent': WAITING - 3 });
  });

  test('are sent before a call that starts in the turn of the event loop when a stream becomes free', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    void range(peer, { metadata: { token: 'first' } });
    void range(peer, { metadata: { token: 'waiting' } });
    await turn();
    peer.connection.send(rangeAnswer(1));
    void range(peer, { metadata: { token: 'late' } });
    await turn();
    peer.connection.send(rangeAnswer(3));
    await turn();
    expect([...peer.connection.rules.requests.values()].map(({ headers }) => headers.token)).toEqual([
      'first',
      'waiting',
      'late',
    ]);
  });
});

test('a call is sent synchronously when a stream is free', async () => {
  const peer = new Http2Peer({ play: (each) => answerAll(each) });
  await range(peer);
  const sent: string[] = [];
  void range(peer, { observer: { sent: () => void sent.push('call') } });
  expect(sent).toEqual(['call']);
});

test('a streaming call that waits for a free stream ends with outcome "not-sent" when the client closes', async () => {
  const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
  const [opened, waiting] = [watch(peer), watch(peer)];
  for (const { stream } of [opened, waiting]) stream.send(CREATE_WATCH);
  await turn();
  await peer.transport.close();
  expect([opened.end?.error?.outcome, waiting.end?.error?.outcome]).toEqual(['unknown', 'not-sent']);
  expect(peer.connection.streamIds).toEqual([1]);
});

/** Returns a peer on which at most `IN_FLIGHT` calls can be open at a time. */
function saturated(): Http2Peer {
  return new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: IN_FLIGHT } });
}

function timeLimit(): { timeoutMs: number; deadline: number } {
  return { timeoutMs: TIMEOUT_MS, deadline: clock.now + TIMEOUT_MS };
}

/** Returns the number of calls for each outcome. `ok` counts the calls that succeeded. */
async function outcomes(calls: readonly Promise<unknown>[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const call of calls) {
    const outcome = await call.then(
      () => 'ok',
      (error: EtcdError) => error.outcome,
    );
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}
