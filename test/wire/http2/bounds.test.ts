import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';
import { monotonicMs } from '../../../src/base/timers.js';
import { methods } from '../../../src/gen/methods.js';
import { encode } from '../../../src/wire/protobuf/writer.js';
import { errorOf } from '../../support/errors.js';
import { ANSWER_FIELDS, answerHeaders, range, rangeAnswer, TRAILER_FIELDS } from '../../support/http2-calls.js';
import { continuation, data, grpcMessage, headers } from '../../support/http2-frames.js';
import { block } from '../../support/http2-hpack.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

test('each of several calls with different deadlines times out', async () => {
  const peer = new Http2Peer();
  // Open the connection first, so that a slow machine cannot delay the requests past their time limits.
  const first = range(peer);
  await turn();
  peer.connection.send(rangeAnswer(1, 1));
  await first;
  const calls = [50, 100, 150].map((timeoutMs) => range(peer, { timeoutMs, deadline: monotonicMs() + timeoutMs }));
  for (const call of calls)
    expect(await errorOf(call)).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
});

test('calls that share a signal add a single listener to the signal, and remove the listener when the calls end', async () => {
  const peer = new Http2Peer();
  const { signal } = new AbortController();
  const calls = [range(peer, { signal }), range(peer, { signal })];
  await turn();
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  peer.connection.send(rangeAnswer(1, 1));
  peer.connection.send(rangeAnswer(3, 1));
  await Promise.all(calls);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

test('the client tolerates empty DATA frames when DATA frames with content arrive between them', async () => {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  const { connection } = peer;
  connection.send(answerHeaders(1));
  const message = grpcMessage(encode(methods.kv.range.response, { count: 5n }));
  for (const byte of message) {
    for (let frames = 0; frames < 500; frames += 1) connection.send(data(1, new Uint8Array(0)));
    connection.send(data(1, Uint8Array.of(byte)));
  }
  expect(connection.closed).toBe(false);
  connection.send(headers(1, block(TRAILER_FIELDS), { endStream: true }));
  expect((await call).count).toBe(5n);
});

test('the client closes the connection when a header block exceeds 64 KiB', async () => {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  const { connection } = peer;
  connection.send(headers(1, block(ANSWER_FIELDS), { open: true }));
  for (let frames = 0; frames < 4; frames += 1) connection.send(continuation(1, new Uint8Array(16_384), false));
  expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
  expect(connection.goAwayCode).toBe('ENHANCE_YOUR_CALM');
});
