import { describe, expect, test } from 'vitest';
import { errorOf } from '../../support/errors.js';
import {
  ANSWER_FIELDS,
  answerAll,
  answerHeaders,
  CREATE_WATCH,
  put,
  range,
  rangeAnswer,
  TRAILER_FIELDS,
  watch,
  watchMessage,
} from '../../support/http2-calls.js';
import { continuation, data, headers, ping, settings, words } from '../../support/http2-frames.js';
import { block, type Field } from '../../support/http2-hpack.js';
import { Http2Peer, type PeerConnection, turn } from '../../support/http2-peer.js';

// These tests check the limits on the memory, work and time that a peer can cost the client.

const NOTHING = new Uint8Array(0);

async function called(): Promise<{ peer: Http2Peer; connection: PeerConnection; call: Promise<unknown> }> {
  const peer = new Http2Peer();
  const call = range(peer);
  await turn();
  return { peer, connection: peer.connection, call };
}

describe('the client closes the connection when a header block never ends', () => {
  test.for([
    ['in frames of 16 KB', new Uint8Array(16_384)],
    ['in frames of one byte', new Uint8Array(1)],
    ['in empty frames', NOTHING],
  ] as const)('and arrives %s', async ([, payload]) => {
    const { connection, call } = await called();
    connection.send(headers(1, block(ANSWER_FIELDS), { open: true }));
    let frames = 0;
    while (!connection.closed && frames < 100_000) {
      connection.send(continuation(1, payload, false));
      frames += 1;
    }
    expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
    expect([connection.goAwayCode, frames < 20]).toEqual(['ENHANCE_YOUR_CALM', true]);
  });
});

describe('header fields of more than 64 KiB', () => {
  const long: Field = ['x', 'v'.repeat(3_000)];
  /** A short block that decodes to a long list: a long field, followed by its index many times. */
  const MANY = Buffer.concat([block([long], 'with indexing'), Buffer.alloc(40, 0x80 | 62)]);

  test.for([
    ['in response headers', (id: number) => headers(id, Buffer.concat([block(ANSWER_FIELDS), MANY]))],
    [
      'in trailers',
      (id: number) =>
        Buffer.concat([
          answerHeaders(id),
          headers(id, Buffer.concat([block(TRAILER_FIELDS), MANY]), { endStream: true }),
        ]),
    ],
  ] as const)('%s fail only the call that receives them', async ([, answer]) => {
    const { peer, connection, call } = await called();
    connection.send(answer(1));
    expect(await errorOf(call)).toMatchObject({ code: 'ResourceExhausted', outcome: 'unknown' });
    const next = range(peer);
    await turn();
    connection.send(rangeAnswer(3, 5));
    expect((await next).count).toBe(5n);
    expect(peer.connections.length).toBe(1);
  });
});

test('the client tolerates 500 empty DATA frames, but closes the connection when empty DATA frames never end', async () => {
  const { connection, call } = await called();
  connection.send(answerHeaders(1));
  for (let frames = 0; frames < 500; frames += 1) connection.send(data(1, NOTHING));
  expect(connection.closed).toBe(false);
  for (let frames = 0; frames < 100_000 && !connection.closed; frames += 1) connection.send(data(1, NOTHING));
  expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
  expect(connection.goAwayCode).toBe('ENHANCE_YOUR_CALM');
});

describe.for([
  ['PING', ping(words(1, 2))],
  ['SETTINGS', settings({ MAX_CONCURRENT_STREAMS: 100 })],
] as const)('a connection whose peer floods it with %s', ([, frame]) => {
  test('is closed after a limited number of frames when the peer does not read the answers', async () => {
    const { connection, call } = await called();
    connection.roomy = false;
    const chunk = Buffer.concat(Array<Buffer>(100).fill(frame));
    for (let chunks = 0; chunks < 10_000 && !connection.closed; chunks += 1) {
      connection.send(chunk);
      if (chunks % 50 === 0) await turn();
    }
    await turn();
    expect(connection.closed).toBe(true);
    expect(await errorOf(call)).toMatchObject({ reason: 'ProtocolError', outcome: 'unknown' });
  });

  test('stays open when the peer reads the answers later', async () => {
    const { connection, call } = await called();
    for (let rounds = 0; rounds < 80; rounds += 1) {
      connection.roomy = false;
      // The client notices that the connection is congested only when it next writes.
      for (let turns = 0; turns < 2; turns += 1) {
        connection.send(Buffer.concat(Array<Buffer>(2_000).fill(frame)));
        await turn();
      }
      connection.drain();
    }
    connection.send(rangeAnswer(1, 7));
    expect(await call).toMatchObject({ count: 7n });
  });
});

describe('a congested connection', () => {
  test('opens no new streams until it has drained, and then opens all waiting streams', async () => {
    const { peer, connection, call } = await called();
    connection.roomy = false;
    const calls = [call, put(peer, 1_000)];
    await turn();
    for (let more = 0; more < 50; more += 1) calls.push(put(peer, 1_000));
    await turn();
    expect(connection.streamIds).toEqual([1, 3]);
    for (const id of connection.streamIds) connection.send(rangeAnswer(id));
    answerAll(connection);
    connection.drain();
    await Promise.all(calls);
    expect(connection.streamIds.length).toBe(52);
  });

  test('sends no messages until it has drained, but still delivers received messages', async () => {
    const peer = new Http2Peer();
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    const { connection } = peer;
    connection.roomy = false;
    // The client answers a second PING at once.
    connection.send(ping(words(1, 2)), ping(words(1, 2)));
    await turn();
    const sent = connection.request(1).body.length;
    open.stream.send(CREATE_WATCH);
    await turn();
    expect(connection.request(1).body.length).toBe(sent);
    connection.send(answerHeaders(1), data(1, watchMessage(4)));
    expect(open.messages).toEqual([4n]);
    connection.drain();
    await turn();
    expect(connection.request(1).body.length).toBe(2 * sent);
  });
});

describe('stream identifiers', () => {
  test('go up to 2^31 - 1, and the client then sends each further call once on a new connection', async () => {
    const peer = new Http2Peer({ firstStreamId: 2 ** 31 - 5, play: (connection) => answerAll(connection, 1) });
    const counts = await Promise.all(Array.from({ length: 8 }, () => range(peer)));
    expect(counts.map(({ count }) => count)).toEqual(Array(8).fill(1n));
    const used = [2 ** 31 - 5, 2 ** 31 - 3, 2 ** 31 - 1];
    expect(peer.connections.map(({ streamIds }) => streamIds)).toEqual([used, used, used.slice(0, 2)]);
  });

  test('can run out without any effect on the open streams of the connection', async () => {
    const peer = new Http2Peer({ firstStreamId: 2 ** 31 - 1 });
    const open = watch(peer);
    open.stream.send(CREATE_WATCH);
    await turn();
    const [old] = peer.connections as [PeerConnection];
    const call = range(peer);
    await turn();
    peer.connection.send(rangeAnswer(2 ** 31 - 1, 3));
    expect((await call).count).toBe(3n);
    old.send(answerHeaders(2 ** 31 - 1), data(2 ** 31 - 1, watchMessage(9)));
    expect([open.messages, old.closed]).toEqual([[9n], false]);
    open.stream.cancel();
    await turn();
    expect(old.closed).toBe(true);
  });
});
