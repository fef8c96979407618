import { describe, expect, test } from 'vitest';
import { errorOf } from '../../support/errors.js';
import { answerAll, CREATE_WATCH, put, putBytes, range, watch } from '../../support/http2-calls.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// In these tests, the runtime has noticed the end of a connection, but has not told the client yet. The runtime sends
// nothing that the client writes in the meantime.

/** Refuses all connections but the first. */
function refuseFurther(connection: PeerConnection, index: number): void {
  if (index > 0) queueMicrotask(() => connection.lose('connect ECONNREFUSED'));
}

describe('a call whose request is written after the connection has ended', () => {
  test('is sent on a new connection, although the call is a write', async () => {
    const peer = new Http2Peer({ play: (each, index) => index > 0 && answerAll(each, 9) });
    const sent = range(peer);
    await turn();
    const { connection } = peer;
    connection.hasEnded = true;
    const calls = [put(peer), put(peer, 10_000), range(peer)];
    await turn();
    calls.push(put(peer));
    connection.lose('read ECONNRESET');
    expect(await errorOf(sent)).toMatchObject({ problem: 'read ECONNRESET', outcome: 'unknown' });
    expect(await Promise.all(calls)).toMatchObject([{}, {}, { count: 9n }, {}]);
    expect(connection.streamIds).toEqual([1]);
    expect(peer.connection.streamIds).toEqual([1, 3, 5, 7]);
    expect(peer.connection.request(3).body.length).toBe(putBytes(10_000));
  });

  test('ends with outcome "not-sent" if no further connection opens', async () => {
    const peer = new Http2Peer({ play: refuseFurther });
    void range(peer);
    await turn();
    peer.connection.hasEnded = true;
    const call = put(peer);
    await turn();
    peer.connection.lose();
    expect(await errorOf(call)).toMatchObject({ reason: 'ConnectFailed', outcome: 'not-sent' });
  });

  test('ends with outcome "not-sent" if it is a streaming call', async () => {
    const peer = new Http2Peer();
    void range(peer);
    await turn();
    peer.connection.hasEnded = true;
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.lose();
    expect(open.end?.error).toMatchObject({ reason: 'ConnectionLost', outcome: 'not-sent' });
  });
});

test('a write whose HEADERS frame was sent ends with outcome "unknown", although the rest of its request was not sent', async () => {
  const peer = new Http2Peer({ greeting: { INITIAL_WINDOW_SIZE: 0 }, play: refuseFurther });
  const call = put(peer);
  await turn();
  peer.connection.hasEnded = true;
  const refused = put(peer);
  await turn();
  peer.connection.lose();
  expect(await errorOf(refused)).toMatchObject({ outcome: 'not-sent' });
  expect(await errorOf(call)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
});
