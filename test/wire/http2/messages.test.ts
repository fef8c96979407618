import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { encode } from '../../../src/wire/protobuf/writer.js';
import { errorOf } from '../../support/errors.js';
import {
  answerHeaders,
  CREATE_WATCH,
  range,
  rangeMessage,
  trailers,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { data, grpcMessage, words } from '../../support/http2-frames.js';
import { ENDPOINT, Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// These tests check how the client reads gRPC messages from the DATA frames of a stream.

describe('gRPC messages', () => {
  const MESSAGES = [1, 2, 300, 70_000].map((id) => watchMessage(id));
  const ALL = Buffer.concat([...MESSAGES, grpcMessage(new Uint8Array())]);
  const IDS = [1n, 2n, 300n, 70_000n, 0n];

  test('are read when several messages share a DATA frame', async () => {
    expect(await watchIds((connection) => connection.send(data(1, ALL)))).toEqual(IDS);
  });

  test.for([...ALL.keys()].slice(1))('are read when they are split after %i bytes into two DATA frames', async (at) => {
    expect(await watchIds((each) => each.send(data(1, ALL.subarray(0, at)), data(1, ALL.subarray(at))))).toEqual(IDS);
    expect(
      await watchIds((each) => {
        each.send(data(1, ALL.subarray(0, at), { padding: 5 }));
        each.send(data(1, ALL.subarray(at)));
      }),
    ).toEqual(IDS);
  });

  test('are read when each byte arrives in a DATA frame of its own', async () => {
    expect(
      await watchIds((connection) => {
        for (const at of ALL.keys()) connection.send(data(1, ALL.subarray(at, at + 1)));
      }),
    ).toEqual(IDS);
  });

  test('are read when the frames of two streams alternate', async () => {
    const peer = new Http2Peer();
    const opened = [watch(peer), watch(peer)];
    await turn();
    peer.connection.send(answerHeaders(1), answerHeaders(3));
    for (const at of ALL.keys()) {
      for (const id of [1, 3]) peer.connection.send(data(id, ALL.subarray(at, at + 1)));
    }
    expect(opened.map(({ messages }) => messages)).toEqual([IDS, IDS]);
  });

  test('of 1 MB or more are read, and so are the short messages after them', async () => {
    const peer = new Http2Peer();
    const texts: string[] = [];
    watch(peer, {}, ({ cancelReason }) => texts.push(cancelReason));
    await turn();
    const sent = ['x'.repeat(1_000_000), 'y', 'z'.repeat(1_500_000), ''];
    const bytes = Buffer.concat(sent.map((text) => watchMessage(1, text)));
    peer.connection.send(answerHeaders(1));
    for (let at = 0; at < bytes.length; at += 16_384) peer.connection.send(data(1, bytes.subarray(at, at + 16_384)));
    expect(texts.map((text) => [text.length, text[0]])).toEqual(sent.map((text) => [text.length, text[0]]));
  });
});

describe('invalid messages', () => {
  test.for<[string, Buffer, object]>([
    ['a compressed message', grpcMessage(rangeMessage(), 1), { code: 'Internal', reason: 'MalformedMessage' }],
    [
      'a message with an unknown flag',
      grpcMessage(rangeMessage(), 2),
      { code: 'Internal', reason: 'MalformedMessage' },
    ],
    [
      'a message that is not protobuf',
      grpcMessage(Buffer.of(0xff, 0xff)),
      { code: 'Internal', reason: 'MalformedMessage' },
    ],
    [
      'a message of 4 GB',
      Buffer.concat([Buffer.of(0), words(2 ** 32 - 1)]),
      { code: 'ResourceExhausted', reason: 'ResponseTooLarge' },
    ],
  ])('such as %s fail the call', async ([, bytes, error]) => {
    for (const whole of [true, false]) {
      const peer = new Http2Peer();
      const call = range(peer);
      await turn();
      peer.connection.send(answerHeaders(1));
      if (whole) peer.connection.send(data(1, bytes));
      else for (const at of bytes.keys()) peer.connection.send(data(1, bytes.subarray(at, at + 1)));
      peer.connection.send(trailers(1));
      expect(await errorOf(call)).toMatchObject({
        ...error,
        outcome: 'unknown',
        method: methods.kv.range.path,
        endpoint: ENDPOINT,
      });
      await turn();
      expect([peer.connection.request().reset, peer.connection.closed]).toEqual(['CANCEL', false]);
    }
  });

  test.for([1, 4, 5, 6])(
    'fail the call when the stream ends after %i bytes of an incomplete message',
    async (bytes) => {
      const peer = new Http2Peer();
      const call = range(peer);
      await turn();
      peer.connection.send(answerHeaders(1), data(1, rangeMessage(4).subarray(0, bytes)), trailers(1));
      expect(await errorOf(call)).toMatchObject({ code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' });
    },
  );

  test('end a stream only after the preceding valid messages have been delivered', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    peer.connection.send(answerHeaders(1));
    peer.connection.send(data(1, Buffer.concat([watchMessage(1), grpcMessage(Buffer.of(0xff)), watchMessage(2)])));
    expect([open.messages, open.end?.error?.reason]).toEqual([[1n], 'MalformedMessage']);
    peer.connection.send(data(1, watchMessage(3)), trailers(1));
    expect(open.messages).toEqual([1n]);
  });
});

describe('a unary call', () => {
  test('fails when the response has no message', async () => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    peer.connection.send(answerHeaders(1), trailers(1));
    expect(await errorOf(call)).toMatchObject({ code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' });
  });

  test.for([true, false])('fails when the response has two messages (both in one frame: %s)', async (together) => {
    const peer = new Http2Peer();
    const call = range(peer);
    await turn();
    const frames = together
      ? [data(1, Buffer.concat([rangeMessage(1), rangeMessage(2)]))]
      : [data(1, rangeMessage(1)), data(1, rangeMessage(2))];
    peer.connection.send(answerHeaders(1), ...frames, trailers(1));
    expect(await errorOf(call)).toMatchObject({ code: 'Internal', reason: 'MalformedMessage', outcome: 'unknown' });
  });
});

describe('`maxReceiveBytes`', () => {
  const message = encode(methods.watch.watch.response, { watchId: 1n, cancelReason: 'x'.repeat(1_000) });

  test('allows a message of exactly that many bytes', async () => {
    const peer = new Http2Peer({ maxReceiveBytes: message.length });
    const open = watch(peer);
    await turn();
    peer.connection.send(answerHeaders(1), data(1, grpcMessage(message)), data(1, grpcMessage(message)));
    expect([open.messages.length, open.end]).toEqual([2, undefined]);
  });

  test('refuses a longer message as soon as the gRPC prefix of the message has arrived', async () => {
    const peer = new Http2Peer({ maxReceiveBytes: message.length - 1 });
    const open = watch(peer);
    await turn();
    peer.connection.send(answerHeaders(1), data(1, grpcMessage(message).subarray(0, 5)));
    expect(open.end?.error).toMatchObject({
      code: 'ResourceExhausted',
      reason: 'ResponseTooLarge',
      problem: `the response has ${message.length} bytes; allowed: at most ${message.length - 1} bytes (option maxReceiveBytes)`,
    });
    await turn();
    expect(peer.connection.request().reset).toBe('CANCEL');
  });
});

describe('`maxRequestBytes`', () => {
  const request = { key: Buffer.from('a') };
  const length = encode(methods.kv.range.request, request).length;

  test('allows a request of exactly that many bytes', async () => {
    const peer = new Http2Peer({ maxRequestBytes: length });
    void range(peer);
    await turn();
    expect(peer.connection.request().body.length).toBe(5 + length);
  });

  test('refuses a longer request without sending any part of it', async () => {
    const peer = new Http2Peer({ maxRequestBytes: length - 1 });
    expect(await errorOf(range(peer))).toMatchObject({
      code: 'InvalidArgument',
      reason: 'InvalidInput',
      outcome: 'not-sent',
    });
    expect(peer.connections).toEqual([]);
    const open = watch(peer);
    await turn();
    expect((await errorOf(() => open.stream.send(CREATE_WATCH))).reason).toBe('InvalidInput');
    await turn();
    expect([open.end, peer.connection.request().body.length]).toEqual([undefined, 0]);
  });
});

/** Returns the watch IDs of the messages that a watch receives when the peer sends the frames of `send`. */
async function watchIds(send: (connection: PeerConnection) => void): Promise<readonly bigint[]> {
  const peer = new Http2Peer();
  const open = watch(peer);
  await turn();
  peer.connection.send(answerHeaders(1));
  send(peer.connection);
  expect(open.end).toBeUndefined();
  peer.connection.send(trailers(1));
  expect(open.end).toEqual({ error: undefined });
  return open.messages;
}
