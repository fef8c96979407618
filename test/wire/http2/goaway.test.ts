import { describe, expect, test } from 'vitest';
import { errorOf } from '../../support/errors.js';
import {
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  put,
  putBytes,
  range,
  rangeAnswer,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, goAway, settings, windowUpdate } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// The peer sends GOAWAY to announce that it will close the connection: RFC 9113, section 6.8. The frame contains the
// identifier of the last stream that the peer processes. The client can safely resend the calls on streams with a
// greater identifier.

describe('a client that receives GOAWAY', () => {
  test('waits until the streams up to the last stream of GOAWAY end, and then closes the connection', async () => {
    const peer = new Http2Peer();
    const calls = [range(peer), range(peer)];
    await turn();
    const { connection } = peer;
    connection.send(goAway(3), rangeAnswer(3, 3));
    expect((await calls[1])?.count).toBe(3n);
    await turn();
    expect(connection.closed).toBe(false);
    connection.send(rangeAnswer(1, 1));
    expect((await calls[0])?.count).toBe(1n);
    await turn();
    expect([connection.closed, peer.connections.length]).toEqual([true, 1]);
  });

  test('moves the calls above the last stream of GOAWAY to a new connection, and sends each of them there once', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 9) });
    const [covered, ...moved] = [range(peer), put(peer), range(peer)];
    await turn();
    const [first] = peer.connections as [PeerConnection];
    first.send(goAway(1));
    expect(await Promise.all(moved)).toMatchObject([{}, { count: 9n }]);
    expect(peer.connection.streamIds).toEqual([1, 3]);
    expect(peer.connection.request(1).body.length).toBe(putBytes(1));
    first.send(rangeAnswer(1, 1));
    expect((await covered)?.count).toBe(1n);
  });

  test('makes new calls on a new connection at once, while the old connection finishes its streams', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 9) });
    const old = range(peer);
    await turn();
    const [first] = peer.connections as [PeerConnection];
    first.send(goAway(2 ** 31 - 1));
    expect((await range(peer)).count).toBe(9n);
    expect([first.streamIds, first.closed, peer.connections.length]).toEqual([[1], false, 2]);
    first.send(rangeAnswer(1, 1));
    expect((await old).count).toBe(1n);
  });

  test('ignores a GOAWAY that repeats the last stream, but closes the connection after many GOAWAY frames', async () => {
    const peer = new Http2Peer();
    const covered = watch(peer);
    await turn();
    const { connection } = peer;
    for (let again = 0; again < 5; again += 1) connection.send(goAway(2 ** 31 - 1));
    await turn();
    expect([covered.leavings, connection.closed]).toEqual([1, false]);
    for (let again = 0; again < 10; again += 1) connection.send(goAway(2 ** 31 - 2 - again));
    await turn();
    expect([connection.goAwayCode, connection.closed]).toEqual(['ENHANCE_YOUR_CALM', true]);
  });

  test('notifies the streams up to the last stream of GOAWAY, and these streams continue', async () => {
    const peer = new Http2Peer();
    const [covered, canceled] = [watch(peer), watch(peer)];
    await turn();
    canceled.stream.cancel();
    peer.connection.send(goAway(2 ** 31 - 1));
    await turn();
    expect([covered.leavings, covered.end, canceled.leavings]).toEqual([1, undefined, 0]);
    peer.connection.send(answerHeaders(1), data(1, watchMessage(7)));
    await turn();
    expect(covered.messages).toEqual([7n]);
  });

  test('closes a connection without open streams, and opens a new connection for the next call', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each, 9) });
    await range(peer);
    peer.connection.send(goAway(1));
    await turn();
    expect([peer.connection.closed, peer.connections.length]).toEqual([true, 1]);
    expect((await range(peer)).count).toBe(9n);
    expect(peer.connections.length).toBe(2);
  });

  test('moves more calls to a new connection when a second GOAWAY names a lower last stream', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 9) });
    const calls = [range(peer), range(peer), range(peer)];
    await turn();
    const [first] = peer.connections as [PeerConnection];
    first.send(goAway(2 ** 31 - 1));
    await turn();
    expect(peer.connections.length).toBe(1);
    first.send(goAway(1));
    expect(await Promise.all(calls.slice(1))).toMatchObject([{ count: 9n }, { count: 9n }]);
    first.send(rangeAnswer(1, 1), rangeAnswer(3, 5));
    expect((await calls[0])?.count).toBe(1n);
    expect(peer.connection.streamIds).toEqual([1, 3]);
  });

  test('sends the rest of a request whose stream is not above the last stream of GOAWAY', async () => {
    const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 10 } });
    const call = put(peer, 100);
    await turn();
    peer.connection.send(goAway(1));
    await turn();
    peer.connection.send(settings({ INITIAL_WINDOW_SIZE: 20 }), windowUpdate(1, 1_000));
    await turn();
    expect(peer.connection.request()).toMatchObject({ ended: true, reset: undefined });
    peer.connection.send(rangeAnswer(1));
    await call;
  });

  test('moves the calls that wait for a free stream to a new connection', async () => {
    const peer = new Http2Peer({
      greeting: { MAX_CONCURRENT_STREAMS: 1 },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    const calls = [range(peer), range(peer)];
    await turn();
    const [first] = peer.connections as [PeerConnection];
    first.send(goAway(1));
    expect((await calls[1])?.count).toBe(9n);
    expect(first.streamIds).toEqual([1]);
    first.send(rangeAnswer(1, 1));
    expect((await calls[0])?.count).toBe(1n);
  });

  test('moves the first call to the next connection when GOAWAY arrives together with the first SETTINGS', async () => {
    const peer = new Http2Peer({ greeting: false, play: (each, index) => index > 0 && answerAll(each, 9) });
    const call = range(peer);
    await turn();
    peer.connection.send(settings(), goAway(0, 'NO_ERROR', 'too many clients'));
    await turn();
    peer.connection.send(settings());
    expect((await call).count).toBe(9n);
    expect(peer.connections.length).toBe(2);
  });

  test('fails a call with outcome "rejected" when the peer sends GOAWAY on one connection after another', async () => {
    const peer = new Http2Peer({
      play: (connection) => {
        connection.onRequest = () => connection.send(goAway(0, 'ENHANCE_YOUR_CALM', 'too_many_pings'));
      },
    });
    expect(await errorOf(put(peer))).toMatchObject({
      code: 'Unavailable',
      reason: 'StreamRefused',
      outcome: 'rejected',
      problem: 'the peer ends the connection with GOAWAY, ENHANCE_YOUR_CALM (too_many_pings)',
    });
    expect(peer.connections.length).toBeLessThan(10);
  });
});

describe('a client that loses the connection after GOAWAY', () => {
  test('fails the calls up to the last stream with outcome "unknown", and makes the other calls on a new connection', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 9) });
    const calls = [put(peer), put(peer)];
    await turn();
    const [first] = peer.connections as [PeerConnection];
    first.send(goAway(1, 'INTERNAL_ERROR', 'out of memory'));
    first.lose();
    expect(await errorOf(calls[0] as Promise<unknown>)).toMatchObject({
      code: 'Unavailable',
      reason: 'ConnectionLost',
      outcome: 'unknown',
    });
    await calls[1];
    expect(peer.connections.length).toBe(2);
  });
});

describe('a streaming call', () => {
  test('continues when its stream is not above the last stream of GOAWAY', async () => {
    const peer = new Http2Peer();
    const { stream, messages } = watch(peer);
    stream.send(CREATE_WATCH);
    await turn();
    const { connection } = peer;
    connection.send(answerHeaders(1), goAway(1), data(1, watchMessage(1)));
    stream.send(CREATE_WATCH);
    await turn();
    connection.send(data(1, watchMessage(2)));
    expect([messages, connection.closed]).toEqual([[1n, 2n], false]);
    expect(connection.sent('DATA').length).toBe(2);
  });

  test('ends with outcome "rejected" when its stream is above the last stream of GOAWAY', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.send(goAway(0));
    expect(open.end?.error).toMatchObject({ code: 'Unavailable', reason: 'StreamRefused', outcome: 'rejected' });
    await turn();
    expect(peer.connections.length).toBe(1);
  });

  test('opens on the next connection with all its messages when GOAWAY arrives before the call opens a stream', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    watch(peer);
    const { stream } = watch(peer);
    stream.send(CREATE_WATCH);
    await turn();
    stream.send(CREATE_WATCH);
    peer.connection.send(goAway(1));
    stream.send(CREATE_WATCH);
    stream.end();
    await turn();
    expect(peer.connections.length).toBe(2);
    const { body, ended } = peer.connection.request();
    expect([body.length, ended]).toEqual([3 * (5 + 5), true]);
  });
});

test('an error message truncates the debug data of GOAWAY, and omits the control characters of the debug data', async () => {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  peer.connection.send(goAway(1, 0x1234, `evil\n\x1b[31m${'x'.repeat(5_000)}`));
  peer.connection.lose('gone');
  const { message } = await errorOf(call);
  expect(message).not.toMatch(/[^\x20-\x7e]/);
  expect(message.length).toBeLessThan(500);
});
