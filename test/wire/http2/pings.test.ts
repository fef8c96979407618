import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { errorOf } from '../../support/errors.js';
import {
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  range,
  rangeAnswer,
  trailers,
  watch,
} from '../../support/http2-calls.js';
import { FLAG, goAway, ping, words } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';
import { answerProbe, passes, probes } from '../../support/http2-pings.js';

// These tests check the PING frames of the peer and of the client, on a simulated clock: RFC 9113, section 6.7. A PING
// by which the client checks that the peer still answers is called a probe.

const INTERVAL_MS = 10_000;
const TIMEOUT_MS = 3_000;
/** How long, in milliseconds, the peer may stay silent after a request before the client sends a probe. */
const SILENCE_MS = 1_000;
/** The maximum time in milliseconds for which an answer to a PING waits for a request. */
const ANSWER_MS = 10;
/**
 * A time in milliseconds that is longer than the client's grace time. After a probe has timed out, the client waits for
 * the grace time, because an answer may have arrived that the client has not read yet.
 */
const GRACE_MS = 1_000;
const PINGING = { pingIntervalMs: INTERVAL_MS, pingTimeoutMs: TIMEOUT_MS };

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

describe('a PING of the peer', () => {
  test.each([1, 8])('is answered with its own octets when it arrives in pieces of %i bytes', async (size) => {
    const peer = new Http2Peer();
    void range(peer);
    await turn();
    const bytes = Buffer.concat([ping(words(0xdead_beef, 0x0102_0304)), ping(words(0, 2 ** 32 - 1))]);
    peer.connection.sendSplit(
      bytes,
      Array.from({ length: bytes.length / size - 1 }, (_, index) => (index + 1) * size),
    );
    await passes(ANSWER_MS);
    expect(peer.connection.sent('PING').map(({ flags, payload }) => [flags, payload.toString('hex')])).toEqual([
      [FLAG.ACK, 'deadbeef01020304'],
      [FLAG.ACK, '00000000ffffffff'],
    ]);
  });

  test('is answered when no stream is open', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer);
    peer.connection.send(ping(words(1, 2)));
    await passes(ANSWER_MS);
    expect(peer.connection.sent('PING').length).toBe(1);
  });

  test('is answered right before the next request, so that both leave in one write', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer);
    const { connection } = peer;
    const earlier = connection.frames.length;
    connection.send(ping(words(1, 2)));
    await turn();
    expect(connection.frames.length).toBe(earlier);
    await range(peer);
    expect(connection.frames.slice(earlier).map(({ name }) => name)).toEqual(['PING', 'HEADERS', 'DATA']);
    await passes(10 * ANSWER_MS);
    expect(connection.frames.length).toBe(earlier + 3);
  });

  test('is answered at once when an earlier answer waits, so that a peer cannot collect answers', async () => {
    const peer = new Http2Peer({ play: (each) => answerAll(each) });
    await range(peer);
    peer.connection.send(ping(words(1, 2)), ping(words(3, 4)));
    await turn();
    expect(peer.connection.sent('PING').length).toBe(2);
  });
});

// Rule S41 (docs/semantics.md): The client tests the connection if a call times out without a response.
describe('a connection without open streams', () => {
  test('is probed with PING when a call timed out and no byte has arrived since the call was made', async () => {
    const peer = new Http2Peer(PINGING);
    const error = errorOf(range(peer, { deadline: performance.now() + SILENCE_MS / 2 }));
    await turn();
    await passes(SILENCE_MS / 2);
    expect(await error).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(probes(peer.connection)).toBe(1);
  });
});

describe('a connection with open streams', () => {
  test('is probed with PING one interval after the answer to the previous PING', async () => {
    const { peer, connection } = await busy();
    for (let round = 1; round <= 3; round += 1) {
      await passes(INTERVAL_MS - 1);
      expect(probes(connection)).toBe(round - 1);
      await passes(1);
      expect(probes(connection)).toBe(round);
      await passes(TIMEOUT_MS / 2);
      answerProbe(connection);
    }
    expect(peer.connections.length).toBe(1);
  });

  test('is closed when the peer does not answer a PING, and its calls fail with outcome "unknown"', async () => {
    const peer = new Http2Peer({ ...PINGING, play: (each, index) => index > 0 && answerAll(each, 9) });
    const call = range(peer);
    await turn();
    await passes(SILENCE_MS + TIMEOUT_MS - 1);
    expect(peer.connection.closed).toBe(false);
    await passes(1 + GRACE_MS);
    const error = await errorOf(call);
    expect(error).toMatchObject({ code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
    expect(error.problem).toBe(`no answer to PING within pingTimeoutMs = ${TIMEOUT_MS}`);
    expect(peer.connections[0]?.closed).toBe(true);
    expect((await range(peer)).count).toBe(9n);
  });

  test('stays open when the peer answers the PING in time', async () => {
    const { connection } = await busy();
    await passes(INTERVAL_MS + TIMEOUT_MS - 1);
    answerProbe(connection);
    await passes(INTERVAL_MS - 1);
    expect([connection.closed, probes(connection)]).toEqual([false, 1]);
  });

  test('is closed when other PING frames arrive instead of the answer to the PING', async () => {
    const { connection, open } = await busy();
    await passes(INTERVAL_MS);
    connection.send(ping(words(7, 7), FLAG.ACK), ping(words(7, 7)));
    await passes(TIMEOUT_MS + GRACE_MS);
    expect([connection.closed, open.end?.error?.reason]).toEqual([true, 'ConnectionLost']);
  });
});

describe('a connection whose streams are all closed', () => {
  test('is not probed with PING, because etcd treats such PING frames as abuse', async () => {
    const peer = new Http2Peer({ ...PINGING, play: (each) => answerAll(each) });
    await range(peer);
    await passes(100 * INTERVAL_MS);
    expect([probes(peer.connection), peer.connection.closed]).toEqual([0, false]);
  });

  test('is probed with PING before a new stream opens, and then one interval later', async () => {
    const peer = new Http2Peer({ ...PINGING, play: (each) => answerAll(each) });
    await range(peer);
    await passes(5 * INTERVAL_MS);
    const { connection } = peer;
    Object.assign(connection, { onRequest: undefined, onPing: () => answerProbe(connection) });
    await answeredWatch(peer);
    await passes(INTERVAL_MS - 1);
    expect(probes(connection)).toBe(1);
    await passes(1);
    expect(probes(connection)).toBe(2);
  });

  test('is probed with PING at most once per ping interval when new streams repeatedly open and close', async () => {
    const peer = new Http2Peer(PINGING);
    const times: number[] = [];
    const passesAnswered = async (ms: number): Promise<void> => {
      for (let left = ms; left > 0; left -= 100) {
        await passes(Math.min(100, left));
        if (probes(peer.connection) === times.length) continue;
        times.push(performance.now());
        answerProbe(peer.connection);
      }
    };
    for (let call = 0; call < 100; call += 1) {
      await answeredWatch(peer);
      await passesAnswered(0.31 * INTERVAL_MS);
      peer.connection.send(trailers(2 * call + 1));
      await passesAnswered(0.07 * INTERVAL_MS);
    }
    expect(times.length).toBeGreaterThan(5);
    const gaps = times.slice(1).map((time, index) => time - (times[index] as number));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(INTERVAL_MS);
  });

  test('is closed when the peer does not answer the last PING', async () => {
    const peer = new Http2Peer(PINGING);
    const call = range(peer);
    await turn();
    await passes(SILENCE_MS);
    peer.connection.send(rangeAnswer(1));
    await call;
    await passes(TIMEOUT_MS + GRACE_MS);
    expect(peer.connection.closed).toBe(true);
  });
});

describe('a peer that refuses PINGs as too many', () => {
  test('gets PINGs on later connections after twice the interval each time', async () => {
    const peer = new Http2Peer(PINGING);
    let intervalMs = INTERVAL_MS;
    for (let connections = 1; connections <= 6; connections += 1) {
      await answeredWatch(peer);
      expect(peer.connections.length).toBe(connections);
      const connection = peer.connections.at(-1) as PeerConnection;
      await passes(intervalMs - 1);
      expect(probes(connection)).toBe(0);
      await passes(1);
      expect(probes(connection)).toBe(1);
      connection.send(goAway(2 ** 31 - 1, 'ENHANCE_YOUR_CALM', 'too_many_pings'));
      connection.lose();
      await turn();
      intervalMs *= 2;
    }
  });

  test('doubles the interval once when it sends several GOAWAY frames on one connection', async () => {
    const peer = new Http2Peer(PINGING);
    await answeredWatch(peer);
    for (const last of [2 ** 31 - 1, 3, 1]) peer.connection.send(goAway(last, 'ENHANCE_YOUR_CALM', 'too_many_pings'));
    peer.connection.lose();
    await turn();
    await answeredWatch(peer);
    await passes(2 * INTERVAL_MS);
    expect(probes(peer.connections.at(-1) as PeerConnection)).toBe(1);
  });

  test('does not change the interval when it sends GOAWAY for another reason', async () => {
    const peer = new Http2Peer(PINGING);
    await answeredWatch(peer);
    peer.connection.send(goAway(2 ** 31 - 1, 'NO_ERROR', 'maintenance'));
    peer.connection.lose();
    await turn();
    await answeredWatch(peer);
    await passes(INTERVAL_MS);
    expect(probes(peer.connections.at(-1) as PeerConnection)).toBe(1);
  });
});

describe('a process', () => {
  test('is kept alive by a connection as long as the connection has open streams', async () => {
    const peer = new Http2Peer();
    const call = range(peer);
    expect(peer.connection.held).toBe(true);
    await turn();
    expect(peer.connection.held).toBe(true);
    peer.connection.send(rangeAnswer(1));
    await call;
    expect(peer.connection.held).toBe(false);
    const { stream } = watch(peer);
    await turn();
    expect(peer.connection.held).toBe(true);
    stream.cancel();
    expect(peer.connection.held).toBe(false);
  });

  test('is kept alive by calls that wait for a free stream', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 0 } });
    const stop = new AbortController();
    void range(peer, { signal: stop.signal });
    const call = range(peer, { signal: stop.signal });
    await turn();
    expect(peer.connection.held).toBe(true);
    stop.abort();
    await errorOf(call);
    expect(peer.connection.held).toBe(false);
    void range(peer);
    await turn();
    expect(peer.connection.held).toBe(true);
  });

  test('is kept alive by a call when GOAWAY has excluded a stream in the background and another call ends', async () => {
    const peer = new Http2Peer();
    const [ending, pending] = [range(peer), range(peer)];
    await turn();
    const { stream } = watch(peer);
    await turn();
    stream.keepProcessAlive?.(false);
    peer.connection.send(goAway(3), rangeAnswer(1));
    await ending;
    expect(peer.connection.held).toBe(true);
    peer.connection.send(rangeAnswer(3));
    await pending;
  });

  test('is not kept alive when GOAWAY leaves only streams in the background', async () => {
    const peer = new Http2Peer();
    const { stream } = watch(peer);
    await turn();
    stream.keepProcessAlive?.(false);
    const excluded = watch(peer);
    await turn();
    expect(peer.connection.held).toBe(true);
    peer.connection.send(goAway(1));
    expect(excluded.end?.error).toMatchObject({ reason: 'StreamRefused' });
    expect(peer.connection.held).toBe(false);
  });

  test('is not kept alive when the only call is canceled before the connection opens', async () => {
    const peer = new Http2Peer();
    const stop = new AbortController();
    void range(peer, { signal: stop.signal });
    stop.abort();
    await turn();
    expect(peer.connection.held).toBe(false);
  });
});

async function busy(): Promise<{ peer: Http2Peer; connection: PeerConnection; open: ReturnType<typeof watch> }> {
  const peer = new Http2Peer(PINGING);
  const open = await answeredWatch(peer);
  return { peer, connection: peer.connection, open };
}

/** Opens a watch. The peer answers with headers, so that the client no longer waits for a response. */
async function answeredWatch(peer: Http2Peer): Promise<ReturnType<typeof watch>> {
  const open = watch(peer);
  open.stream.send(CREATE_WATCH);
  await turn();
  peer.connection.send(answerHeaders(peer.connection.streamIds.at(-1) as number));
  return open;
}

test('a stream no longer keeps the process alive after `keepProcessAlive(false)`, but another call on the connection does', async () => {
  const peer = new Http2Peer();
  const { stream } = watch(peer);
  stream.send(CREATE_WATCH);
  await turn();
  const { connection } = peer;
  expect(connection.held).toBe(true);
  stream.keepProcessAlive?.(false);
  expect(connection.held).toBe(false);
  const call = range(peer);
  await turn();
  expect(connection.held).toBe(true);
  connection.send(rangeAnswer(3));
  await call;
  expect(connection.held).toBe(false);
  stream.keepProcessAlive?.(true);
  expect(connection.held).toBe(true);
  stream.keepProcessAlive?.(false);
  stream.cancel();
  await turn();
  expect(connection.held).toBe(false);
  // A new call keeps the process alive only if the client no longer counts the canceled stream as idle, as it
  // did after `keepProcessAlive(false)`.
  void range(peer);
  await turn();
  expect(connection.held).toBe(true);
});
