import { expect, test } from 'vitest';
import type { AnyMethod } from '../../../../src/extras/transports/json/method-table.js';
import { methods } from '../../../../src/gen/methods.js';
import { openByteStream } from '../../../../src/host/node.js';
import { type Client, prefix } from '../../../../src/index.js';
import { http2Over } from '../../../../src/wire/http2/http2-transport.js';
import { authEtcd, TOKEN, USER } from '../../../../test/support/auth-etcd.js';
import { openClient, unique } from '../../../../test/support/client.js';
import { type DecodedFrame, FrameDecoder, type StreamMethods, type WireFrame } from '../../src/inspect/frames.js';
import { tapped } from '../../src/inspect/tapped.js';

function tappedClient(options: { readonly endpoints?: readonly string[]; readonly auth?: typeof USER } = {}): {
  readonly etcd: Client;
  readonly frames: WireFrame[];
} {
  const frames: WireFrame[] = [];
  const transport = http2Over(tapped(openByteStream, (frame) => frames.push(frame)));
  return { etcd: openClient({ ...options, transport }), frames };
}

function textOf({ direction, type, streamId, flags }: WireFrame): string {
  return [direction === 'sent' ? '>' : '<', type, streamId, ...flags].join(' ');
}

test('`tapped` reports the connection preface and each frame of a call', async () => {
  const { etcd, frames } = tappedClient();
  const key = unique();
  await etcd.put(key, 'value');
  expect(frames.slice(0, 2).map(textOf)).toEqual(['> PREFACE 0', '> SETTINGS 0']);
  const call = frames.filter(({ streamId }) => streamId === 1);
  expect(call.map(textOf)).toEqual([
    '> HEADERS 1 END_HEADERS',
    '> DATA 1 END_STREAM',
    '< HEADERS 1 END_HEADERS',
    '< DATA 1',
    '< HEADERS 1 END_STREAM END_HEADERS',
  ]);
  const [request, sent, , answered, trailers] = call.map(({ detail }) => detail);
  expect(request).toMatchObject({ headers: expect.arrayContaining([[':path', '/etcdserverpb.KV/Put']]) });
  expect(sent).toMatchObject({ messages: [{ typeName: 'etcdserverpb.PutRequest' }] });
  expect(answered).toMatchObject({ messages: [{ typeName: 'etcdserverpb.PutResponse' }] });
  expect(trailers).toMatchObject({ headers: expect.arrayContaining([['grpc-status', '0']]) });
});

test('`tapped` reports all bytes that the connection sends and receives, in order', async () => {
  const bytes: { sent: Uint8Array[]; received: Uint8Array[] } = { sent: [], received: [] };
  const frames: WireFrame[] = [];
  const counted: typeof openByteStream = (endpoint, tls, events) => {
    const stream = openByteStream(endpoint, tls, {
      ...events,
      read: (chunk) => {
        bytes.received.push(chunk.slice());
        events.read(chunk);
      },
    });
    const write = (parts: readonly Uint8Array[]): boolean | undefined => {
      for (const part of parts) bytes.sent.push(part.slice());
      return stream.write(parts);
    };
    return { write, keepProcessAlive: (busy) => stream.keepProcessAlive(busy), close: () => stream.close() };
  };
  const etcd = openClient({ transport: http2Over(tapped(counted, (frame) => frames.push(frame))) });
  const name = unique();
  await Promise.all(Array.from({ length: 20 }, (_, index) => etcd.put(`${name}/${index}`, 'x'.repeat(index * 5_000))));
  await etcd.range(prefix(name));
  for (const direction of ['sent', 'received'] as const) {
    const reported = Buffer.concat(frames.filter((frame) => frame.direction === direction).map((frame) => frame.bytes));
    expect(reported.equals(Buffer.concat(bytes[direction]))).toBe(true);
  }
});

test('`tapped` reports no password and no token', async () => {
  const { endpoints } = await authEtcd();
  const { etcd, frames } = tappedClient({ endpoints, auth: USER });
  await etcd.put('app/k', 'v');
  const tokens = frames.flatMap(({ detail }) =>
    detail.kind === 'headers' ? detail.headers.filter(([name]) => name === 'token') : [],
  );
  expect(tokens[0]).toEqual(['token', '(not shown)']);
  for (const { bytes, detail } of frames) {
    const reported = [bytes, ...(detail.kind === 'data' ? detail.messages.map((message) => message.bytes) : [])];
    for (const part of reported) {
      const text = Buffer.from(part).toString('latin1');
      expect(text).not.toContain(USER.password);
      expect(text).not.toMatch(TOKEN);
    }
  }
});

/** Returns the frames that a decoder reports. `streams` contains the method of each open stream. */
function decoded(frames: readonly Uint8Array[], streams: StreamMethods = new Map()): DecodedFrame[] {
  const all: DecodedFrame[] = [];
  const decoder = new FrameDecoder('server', streams, (frame) => all.push(frame));
  for (const frame of frames) decoder.push(frame);
  return all;
}

test('FrameDecoder replaces every byte of a response with 0 when the response belongs to no open stream', () => {
  const answer = [0, 0, 0, 0, 3, 0x12, 1, 0x74];
  const [frame] = decoded([Uint8Array.of(0, 0, answer.length, 0, 0, 0, 0, 0, 1, ...answer)]);
  expect([...(frame?.bytes.subarray(9) ?? [])]).toEqual(answer.map(() => 0));
});

test('FrameDecoder replaces every byte of a header block with 0 when the block continues in another frame', () => {
  const [frame] = decoded([Uint8Array.of(0, 0, 3, 1, 0, 0, 0, 0, 1, 0x10, 5, 0x74)]);
  expect([...(frame?.bytes.subarray(9) ?? [])]).toEqual([0, 0, 0]);
});

test('FrameDecoder does not treat the padding of a DATA frame as part of the message', () => {
  const streams: StreamMethods = new Map([[1, methods.kv.put as AnyMethod]]);
  const payload = [2, 0, 0, 0, 0, 0, 9, 9];
  const [frame] = decoded([Uint8Array.of(0, 0, payload.length, 0, 8, 0, 0, 0, 1, ...payload)], streams);
  expect(frame?.detail).toMatchObject({ kind: 'data', messages: [{ typeName: 'etcdserverpb.PutResponse' }] });
});
