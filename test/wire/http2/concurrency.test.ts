import { describe, expect, test, vi } from 'vitest';
import { monotonicMs } from '../../../src/base/timers.js';
import { errorOf } from '../../support/errors.js';
import {
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  range,
  rangeAnswer,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, rstStream, settings } from '../../support/http2-frames.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// These tests check that the client respects the peer's limit on open streams: RFC 9113, section 5.1.2. The scripted
// peer fails a test if the client opens a stream beyond the limit.

describe('a client whose peer sets SETTINGS_MAX_CONCURRENT_STREAMS', () => {
  test('sends calls one after another, in the order in which they were made, when the limit is 1', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const calls = ['a', 'b', 'c'].map((token) => range(peer, { metadata: { token } }));
    for (const [index, token] of ['a', 'b', 'c'].entries()) {
      await turn();
      const id = 2 * index + 1;
      expect(peer.connection.streamIds.at(-1)).toBe(id);
      expect(peer.connection.request(id).headers.token).toBe(token);
      peer.connection.send(rangeAnswer(id, index));
      expect((await calls[index])?.count).toBe(BigInt(index));
    }
  });

  // A keepalive stream that waits behind other calls could lose its leases.
  test('opens streams, and unary calls marked as urgent, before other calls that wait', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    for (const token of ['a', 'b', 'c']) void range(peer, { metadata: { token } });
    await turn();
    void range(peer, { metadata: { token: 'urgent' }, urgent: true });
    watch(peer);
    const paths: (string | undefined)[] = [];
    for (const id of [1, 3, 5]) {
      await turn();
      const { headers } = peer.connection.request(id);
      paths.push(headers.token ?? headers[':path']);
      peer.connection.send(rangeAnswer(id));
    }
    expect(paths).toEqual(['a', 'urgent', '/etcdserverpb.Watch/Watch']);
  });

  test('sends no calls while the limit is 0, but sends them when the peer raises the limit to 1', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 0 } });
    const calls = [range(peer), range(peer)];
    await turn();
    expect(peer.connection.streamIds).toEqual([]);
    peer.connection.send(settings({ MAX_CONCURRENT_STREAMS: 1 }));
    await turn();
    expect(peer.connection.streamIds).toEqual([1]);
    answerAll(peer.connection, 1);
    peer.connection.send(rangeAnswer(1, 1));
    expect(await Promise.all(calls)).toMatchObject([{ count: 1n }, { count: 1n }]);
  });

  test('opens streams for waiting calls up to the new limit when the peer raises the limit', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    for (let calls = 0; calls < 6; calls += 1) void range(peer);
    await turn();
    peer.connection.send(settings({ MAX_CONCURRENT_STREAMS: 4 }));
    await turn();
    expect(peer.connection.streamIds).toEqual([1, 3, 5, 7]);
  });

  test('keeps open streams when the peer lowers the limit, and opens new streams only below the new limit', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 3 } });
    for (let calls = 0; calls < 4; calls += 1) void range(peer);
    await turn();
    peer.connection.send(settings({ MAX_CONCURRENT_STREAMS: 1 }));
    const opened = [];
    for (const id of [1, 3, 5]) {
      peer.connection.send(rangeAnswer(id));
      await turn();
      opened.push(peer.connection.streamIds.length);
    }
    expect(opened).toEqual([3, 3, 4]);
  });

  test('keeps the limit when the peer sends SETTINGS without SETTINGS_MAX_CONCURRENT_STREAMS', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    for (let calls = 0; calls < 2; calls += 1) void range(peer);
    await turn();
    peer.connection.send(settings({ MAX_FRAME_SIZE: 20_000 }), settings());
    await turn();
    expect(peer.connection.streamIds).toEqual([1]);
  });

  test('counts the stream of a streaming call toward the limit until the stream is closed', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const { stream } = watch(peer);
    stream.send(CREATE_WATCH);
    const call = range(peer);
    await turn();
    stream.end();
    await turn();
    expect(peer.connection.streamIds).toEqual([1]);
    stream.cancel();
    await turn();
    peer.connection.send(rangeAnswer(3, 3));
    expect((await call).count).toBe(3n);
  });

  test('opens another stream after the peer or the client has reset a stream', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const stop = new AbortController();
    const calls = [range(peer), range(peer, { signal: stop.signal }), range(peer)];
    await turn();
    peer.connection.send(rstStream(1, 'INTERNAL_ERROR'));
    await turn();
    expect(peer.connection.streamIds).toEqual([1, 3]);
    stop.abort();
    await turn();
    expect(peer.connection.streamIds).toEqual([1, 3, 5]);
    peer.connection.send(rangeAnswer(5, 5));
    expect((await calls[2])?.count).toBe(5n);
  });
});

describe('a call that waits for a free stream', () => {
  test('opens no stream when it is canceled, and the next waiting call opens a stream instead', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const stop = new AbortController();
    const calls = [range(peer), range(peer, { signal: stop.signal }), range(peer)];
    await turn();
    stop.abort();
    expect(await errorOf(calls[1] as Promise<unknown>)).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
    peer.connection.send(rangeAnswer(1));
    await turn();
    expect(peer.connection.streamIds).toEqual([1, 3]);
    peer.connection.send(rangeAnswer(3, 3));
    expect((await calls[2])?.count).toBe(3n);
  });

  test('times out at its deadline with outcome "not-sent"', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
    try {
      const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
      void range(peer);
      const call = range(peer, { deadline: monotonicMs() + 50, timeoutMs: 50 });
      await turn();
      await vi.advanceTimersByTimeAsync(50);
      expect(await errorOf(call)).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'not-sent' });
      peer.connection.send(rangeAnswer(1));
      await turn();
      expect(peer.connection.streamIds).toEqual([1]);
    } finally {
      vi.useRealTimers();
    }
  });

  test('tells its observer that it is sent only when its stream opens', async () => {
    const peer = new Http2Peer({ greeting: { MAX_CONCURRENT_STREAMS: 1 } });
    const sent: string[] = [];
    for (const name of ['first', 'second']) void range(peer, { observer: { sent: () => void sent.push(name) } });
    expect(sent).toEqual([]);
    await turn();
    expect(sent).toEqual(['first']);
    peer.connection.send(rangeAnswer(1));
    await turn();
    expect(sent).toEqual(['first', 'second']);
  });

  test('is sent on a new connection when the first connection is lost', async () => {
    const peer = new Http2Peer({
      greeting: { MAX_CONCURRENT_STREAMS: 1 },
      play: (each, index) => index > 0 && answerAll(each, 9),
    });
    const calls = [range(peer), range(peer), range(peer)];
    await turn();
    peer.connection.lose();
    expect(await errorOf(calls[0] as Promise<unknown>)).toMatchObject({ reason: 'ConnectionLost', outcome: 'unknown' });
    expect(await Promise.all(calls.slice(1))).toMatchObject([{ count: 9n }, { count: 9n }]);
    expect(peer.connections.length).toBe(2);
  });
});

test('each of a thousand concurrent calls gets its own response', async () => {
  const peer = new Http2Peer({
    greeting: { MAX_CONCURRENT_STREAMS: 100, INITIAL_WINDOW_SIZE: 5 },
    play: (connection) => {
      connection.onRequest = ({ id, headers }) => connection.send(rangeAnswer(id, Number(headers.token)));
    },
  });
  const tokens = Array.from({ length: 1_000 }, (_, index) => index);
  const counts = Promise.all(
    tokens.map(async (token) => (await range(peer, { metadata: { token: `${token}` } })).count),
  );
  await turn();
  // Each SETTINGS frame enlarges the windows by less than a request needs, so the streams do not end in the order in
  // which they opened.
  for (let size = 6; size <= 8; size += 1) {
    peer.connection.send(settings({ INITIAL_WINDOW_SIZE: size }));
    await turn();
  }
  expect(await counts).toEqual(tokens.map(BigInt));
});

test('a watch continues on its stream while the peer answers thousands of calls in reverse order', async () => {
  const peer = new Http2Peer();
  const open = watch(peer);
  open.stream.send(CREATE_WATCH);
  await turn();
  const { connection } = peer;
  connection.send(answerHeaders(1));
  for (let rounds = 1; rounds <= 3; rounds += 1) {
    const before = connection.streamIds.length;
    const calls = Array.from({ length: 1_500 }, () => range(peer));
    await turn();
    const ids = connection.streamIds.slice(before).reverse();
    for (const id of ids) connection.send(rangeAnswer(id, id));
    expect((await Promise.all(calls)).map(({ count }) => Number(count))).toEqual(ids.reverse());
    connection.send(data(1, watchMessage(rounds)));
    expect(open.messages.length).toBe(rounds);
  }
  open.stream.cancel();
  await turn();
  expect(connection.request(1).reset).toBe('CANCEL');
});
