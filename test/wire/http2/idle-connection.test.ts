import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { errorOf } from '../../support/errors.js';
import { answerAll, answerHeaders, CREATE_WATCH, range, trailers, watch } from '../../support/http2-calls.js';
import { FLAG, ping } from '../../support/http2-frames.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';
import { answerProbe, passes, probes } from '../../support/http2-pings.js';

// Rule S43 (docs/semantics.md): The client tests a connection that has been silent for 4 s before it sends a request.
// The clocks are simulated. A PING by which the client tests the connection is called a probe.

const TRUST_MS = 4_000;
const CONFIRM_MS = 550;
const INTERVAL_MS = 10_000;
const PINGING = { pingIntervalMs: INTERVAL_MS, pingTimeoutMs: 3_000 };

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout', 'Date'] }));
afterEach(() => void vi.useRealTimers());

describe('a connection from which bytes have arrived in the last 4 s', () => {
  test('sends a request at once', async () => {
    const { peer, connection } = await idleFor(TRUST_MS);
    expect((await range(peer)).count).toBe(1n);
    expect(probes(connection)).toBe(0);
  });
});

describe('a connection from which no byte has arrived for more than 4 s', () => {
  test('sends no bytes and has no timer until the next request', async () => {
    const { connection } = await idleFor(0);
    // One timer ends calls at their deadlines. It may fire after all calls have ended.
    const timers = vi.getTimerCount();
    const sent = connection.frames.length;
    await passes(1_000 * TRUST_MS);
    expect(connection.frames.length).toBe(sent);
    expect(vi.getTimerCount()).toBeLessThanOrEqual(timers);
  });

  test('sends a PING and no request until the peer answers the PING', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    const calls = [range(peer), range(peer)];
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([1, [1]]);
    answerProbe(connection);
    expect((await Promise.all(calls)).map(({ count }) => count)).toEqual([1n, 1n]);
    expect([probes(connection), connection.streamIds, peer.connections.length]).toEqual([1, [1, 3, 5], 1]);
    await range(peer);
    expect(probes(connection)).toBe(1);
  });

  test('leaves its waiting calls to another connection when the peer does not answer the PING', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    const calls = [range(peer), range(peer)];
    const { stream } = watch(peer);
    stream.send(CREATE_WATCH);
    await passes(CONFIRM_MS);
    expect((await Promise.all(calls)).map(({ count }) => count)).toEqual([2n, 2n]);
    expect([connection.streamIds, peer.connection.streamIds]).toEqual([[1], [1, 3, 5]]);
    await passes(PINGING.pingTimeoutMs);
    expect(connection.closed).toBe(true);
  });

  test('sends no request for bytes that arrive instead of the answer to the PING', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    const call = range(peer);
    await turn();
    connection.send(ping(Buffer.alloc(8)), ping(Buffer.alloc(8, 7), FLAG.ACK));
    await turn();
    expect(connection.streamIds).toEqual([1]);
    answerProbe(connection);
    await call;
  });

  test('ends a call with outcome "not-sent" when the call is canceled before the answer', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    const stop = new AbortController();
    const call = errorOf(range(peer, { signal: stop.signal }));
    await turn();
    stop.abort();
    expect(await call).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
    answerProbe(connection);
    expect([connection.streamIds, connection.closed]).toEqual([[1], false]);
  });

  test('is replaced without a PING when etcd would count the PING as a strike', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    for (const _ of ['no strike', 'first strike']) {
      const stop = new AbortController();
      const call = errorOf(range(peer, { signal: stop.signal }));
      await turn();
      stop.abort();
      expect(await call).toMatchObject({ outcome: 'not-sent' });
      answerProbe(connection);
      await passes(TRUST_MS + 1);
    }
    expect((await range(peer)).count).toBe(2n);
    expect([probes(connection), connection.closed]).toEqual([2, true]);
  });

  test('sends a request without a PING when the client never gives a silent peer up', async () => {
    const { peer, connection } = await idleFor(100 * TRUST_MS, { pingTimeoutMs: Number.POSITIVE_INFINITY });
    expect((await range(peer)).count).toBe(1n);
    expect(probes(connection)).toBe(0);
  });
});

describe('a connection of a process that was frozen', () => {
  test('sends a PING before a request although bytes from before the freeze have just been read', async () => {
    const { peer, connection } = await watchingFor(TRUST_MS + 1);
    // The kernel kept these bytes while the process was frozen.
    connection.send(ping(Buffer.alloc(8)), ping(Buffer.alloc(8, 1)));
    void range(peer);
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([1, [1, 3]]);
  });

  test('sends a PING before a request although it has read two pieces of bytes from before the freeze', async () => {
    const { peer, connection } = await watchingFor(TRUST_MS + 1);
    // The client reads these bytes one after the other, as it reads the records of TLS.
    connection.send(ping(Buffer.alloc(8)));
    await turn();
    connection.send(ping(Buffer.alloc(8, 1)));
    await turn();
    void range(peer);
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([1, [1, 3]]);
  });

  test('sends a PING before a request although it has read bytes from before the freeze after an unanswered PING', async () => {
    const { peer, connection } = await watchingFor(INTERVAL_MS);
    connection.send(ping(Buffer.alloc(8)));
    await turn();
    void range(peer);
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([2, [1, 3]]);
    answerProbe(connection);
    await turn();
    expect(connection.streamIds).toEqual([1, 3, 5]);
  });

  test('sends another PING before a request when an earlier PING is unanswered', async () => {
    const { peer, connection } = await watchingFor(INTERVAL_MS);
    const [first] = connection.sent('PING');
    void range(peer);
    await turn();
    expect(probes(connection)).toBe(2);
    connection.send(ping(first?.payload ?? Buffer.alloc(8), FLAG.ACK));
    await turn();
    expect(connection.streamIds).toEqual([1, 3]);
    answerProbe(connection);
    await turn();
    expect(connection.streamIds).toEqual([1, 3, 5]);
  });
});

describe('a connection of a machine that was suspended', () => {
  test('sends a PING before a request although the monotonic clock stood still', async () => {
    const { peer, connection } = await idleFor(0);
    vi.setSystemTime(Date.now() + 60_000);
    const call = range(peer);
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([1, [1]]);
    answerProbe(connection);
    expect((await call).count).toBe(1n);
  });

  test('sends another PING before a request when the suspension began after an earlier PING', async () => {
    const { peer, connection } = await idleFor(TRUST_MS + 1);
    const calls = [range(peer)];
    await turn();
    vi.setSystemTime(Date.now() + 60_000);
    calls.push(range(peer));
    await turn();
    const [first] = connection.sent('PING').filter(({ flags }) => flags === 0);
    connection.send(ping(first?.payload ?? Buffer.alloc(8), FLAG.ACK));
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([2, [1]]);
    answerProbe(connection);
    expect((await Promise.all(calls)).map(({ count }) => count)).toEqual([1n, 1n]);
  });

  test('sends another PING before a request when a stream ends after the suspension, and then an earlier PING is answered', async () => {
    const { peer, connection } = await watchingFor(TRUST_MS + 1);
    const first = connection.sent('PING').filter(({ flags }) => flags === 0).length;
    void range(peer);
    await turn();
    const [probe] = connection
      .sent('PING')
      .filter(({ flags }) => flags === 0)
      .slice(first);
    vi.setSystemTime(Date.now() + 60_000);
    // The end of the watch lets the client look at the waiting request.
    connection.send(trailers(3));
    await turn();
    connection.send(ping(probe?.payload ?? Buffer.alloc(8), FLAG.ACK));
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([2, [1, 3]]);
    answerProbe(connection);
    await turn();
    expect(connection.streamIds).toEqual([1, 3, 5]);
  });

  test('sends a PING before a request although the process was stopped between its last reads of the two clocks', async () => {
    const { peer, connection } = await idleFor(0);
    const [stopMs, suspensionMs] = [3_000, 3_000];
    vi.spyOn(Date, 'now').mockImplementationOnce(() => {
      vi.advanceTimersByTime(stopMs);
      return Date.now();
    });
    // Nothing waits for the answer to the PING, so the client reads the clocks again only after the suspension.
    const stop = new AbortController();
    const canceled = range(peer, { signal: stop.signal });
    stop.abort();
    await expect(canceled).rejects.toThrow();
    answerProbe(connection);
    await turn();
    vi.setSystemTime(Date.now() + suspensionMs);
    const call = range(peer);
    await turn();
    expect([probes(connection), connection.streamIds]).toEqual([2, [1]]);
    answerProbe(connection);
    await call;
  });

  test('sends no PING when the wall clock was set back or was corrected by less than 1 s', async () => {
    const { peer, connection } = await idleFor(0);
    for (const ms of [-3_600_000, 500, 500, 500]) {
      vi.setSystemTime(Date.now() + ms);
      await range(peer);
    }
    expect(probes(connection)).toBe(0);
  });
});

/** Makes a call, and lets time pass after its answer. Connection number n answers each range with the count n. */
async function idleFor(
  ms: number,
  options: { readonly pingTimeoutMs?: number } = {},
): Promise<{ peer: Http2Peer; connection: PeerConnection }> {
  const peer = new Http2Peer({ ...PINGING, ...options, play: (each, index) => answerAll(each, index + 1) });
  await range(peer);
  await passes(ms);
  return { peer, connection: peer.connection };
}

/** Makes a call, opens a watch, and lets time pass. The peer answers no further call. */
async function watchingFor(ms: number): Promise<{ peer: Http2Peer; connection: PeerConnection }> {
  const { peer, connection } = await idleFor(0);
  connection.onRequest = undefined;
  const { stream } = watch(peer);
  stream.send(CREATE_WATCH);
  await turn();
  connection.send(answerHeaders(3));
  await passes(ms);
  return { peer, connection };
}
