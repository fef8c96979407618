import { expect, test } from 'vitest';
import type { WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';
import { answerHeaders, CREATE_WATCH, type OpenWatch, trailers, watch } from '../../support/http2-calls.js';
import { data, grpcMessage } from '../../support/http2-frames.js';
import { Http2Peer, turn } from '../../support/http2-peer.js';

// A call can allow the transport to pass on a long response in pieces while it arrives. The transport then needs no
// memory for the whole response, and does not block the event loop while it decodes the response.

const CODEC = methods.watch.watch.response;
/** Sizes of the values in bytes: small, as long as several frames, and longer than a piece. */
const VALUES = [0, 1, 100, 600, 40_000, 700_000];
const FRAME_BYTES = 16_384;

test.for([
  ['each frame has 16,384 bytes', () => FRAME_BYTES],
  ['the frames have various lengths', (index: number) => [1, 4, 5, 16_384, 300, 9_999][index % 6] as number],
] as const)('a long response equals its pieces when %s', async ([, frameBytes]) => {
  const whole = response(12_000);
  const { open, pieces, send } = await openInPieces();
  const bytes = Buffer.concat([grpcMessage(encode(CODEC, { watchId: 6n })), grpcMessage(encode(CODEC, whole))]);
  for (let at = 0, index = 0; at < bytes.length; index += 1) {
    const end = Math.min(bytes.length, at + frameBytes(index));
    send(bytes.subarray(at, end));
    at = end;
  }
  send(grpcMessage(encode(CODEC, { watchId: 8n })));
  expect(open.messages).toEqual([6n, ...pieces.map(() => 7n), 8n]);
  expect(pieces.length).toBeGreaterThan(5);
  expect(pieces.map(({ isLast }) => isLast)).toEqual(pieces.map((_, index) => index === pieces.length - 1));
  const decoded = decode(CODEC, encode(CODEC, whole));
  expect(pieces[0]?.piece.header).toEqual(decoded.header);
  const events = pieces.flatMap(({ piece }) => piece.events);
  expect(events.length).toBe(decoded.events.length);
  const joined = Buffer.from(encode(CODEC, { events }));
  expect(joined.equals(encode(CODEC, { events: decoded.events }))).toBe(true);
});

test('the pieces of a long response arrive before its end, so the client buffers no more than a piece', async () => {
  const message = grpcMessage(encode(CODEC, response(20_000, [100])));
  const { pieces, send } = await openInPieces();
  let sent = 0;
  for (; sent < message.length / 2; sent += FRAME_BYTES) send(message.subarray(sent, sent + FRAME_BYTES));
  const events = pieces.reduce((sum, { piece }) => sum + piece.events.length, 0);
  expect(events).toBeGreaterThan(7_000);
});

test('a pause in the middle of a long response holds back the pieces that follow', async () => {
  const message = grpcMessage(encode(CODEC, response(20_000, [100])));
  let isPaused = true;
  const { open, pieces, send } = await openInPieces((stream) => {
    if (isPaused) stream.pause();
  });
  for (let at = 0; at < message.length; at += FRAME_BYTES) send(message.subarray(at, at + FRAME_BYTES));
  expect(pieces).toHaveLength(1);
  isPaused = false;
  open.stream.resume();
  expect(pieces.at(-1)?.isLast).toBe(true);
  expect(pieces.reduce((sum, { piece }) => sum + piece.events.length, 0)).toBe(20_000);
});

test.for([
  ['is malformed in the middle', (bytes: Buffer) => bytes.fill(0xff, Math.floor(bytes.length / 2)), 'MalformedMessage'],
  ['ends before its last byte', (bytes: Buffer) => bytes.subarray(0, bytes.length - 1), 'MalformedMessage'],
] as const)('a long response that %s ends the stream with an error', async ([, changed, reason]) => {
  const { open, pieces, peer, send } = await openInPieces();
  const message = changed(grpcMessage(encode(CODEC, response(3_000))));
  for (let at = 0; at < message.length; at += FRAME_BYTES) send(message.subarray(at, at + FRAME_BYTES));
  if (open.end === undefined) peer.connection.send(trailers(1));
  expect(open.end?.error?.reason).toBe(reason);
  expect(pieces.some(({ isLast }) => isLast)).toBe(false);
});

function response(events: number, values = VALUES): Init<WatchResponse> {
  return {
    header: { revision: 9n },
    watchId: 7n,
    events: Array.from({ length: events }, (_, index) => {
      // The long values are rare.
      const isLong = index % 500 === 0;
      const size = values[isLong ? (index / 500) % values.length : index % Math.min(4, values.length)] as number;
      return { kv: { key: Buffer.from(`k${index}`), value: Buffer.alloc(size, index), modRevision: BigInt(index) } };
    }),
  };
}

interface Pieces {
  readonly peer: Http2Peer;
  readonly open: OpenWatch;
  readonly pieces: { readonly piece: WatchResponse; readonly isLast: boolean }[];
  send(bytes: Uint8Array): void;
}

/** Opens a stream that allows pieces. Calls `onPiece` for each piece. */
async function openInPieces(onPiece: (stream: OpenWatch['stream']) => void = () => {}): Promise<Pieces> {
  const peer = new Http2Peer({ maxReceiveBytes: 2 ** 30 });
  const pieces: Pieces['pieces'] = [];
  const ofPiece = (piece: WatchResponse, first: WatchResponse, isLast: boolean): WatchResponse => {
    pieces.push({ piece, isLast });
    return { ...first, events: piece.events };
  };
  const open = watch(peer, { ofPiece }, (_, { stream }) => onPiece(stream));
  open.stream.send(CREATE_WATCH);
  await turn();
  peer.connection.send(answerHeaders(1));
  return { peer, open, pieces, send: (bytes) => peer.connection.send(data(1, Buffer.from(bytes))) };
}
