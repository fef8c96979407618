import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createServer as createHttp2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  sensitiveHeaders,
} from 'node:http2';
import { type AddressInfo, createServer, type Socket, connect as tcpConnect } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { AsyncQueue } from '../../../src/base/queues.js';
import { HpackDecoder, HpackEncoder, neverIndexedBytes, writeNeverIndexed } from '../../../src/wire/http2/hpack.js';
import { continuation, FLAG, type Frame, headers, PREFACE, settings, settingsAck } from '../../support/http2-frames.js';
import type { Field } from '../../support/http2-hpack.js';
import { Http2Socket } from '../../support/http2-socket.js';

// These tests exchange header blocks with `node:http2`. Each side must read the blocks that the other side writes.

const SEED = 9_113;
const LIMIT = 1_000_000;
const FRAME_BYTES = 16_384;
const REQUEST: readonly Field[] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/'],
  [':authority', 'peer.test'],
];

/** The octets that a field value may contain. The octets beyond visible ASCII have the longest Huffman codes. */
const VALUE_OCTETS = Array.from({ length: 256 }, (_, octet) => octet).filter(
  (octet) => octet === 9 || (octet >= 0x20 && octet !== 0x7f),
);
const character = fc.constantFrom(...VALUE_OCTETS).map((octet) => String.fromCharCode(octet));
const value = fc.oneof(
  fc.string({ unit: character, maxLength: 40 }),
  fc.stringMatching(/^[a-z0-9/.-]{0,60}$/),
  // Some of these values are larger than the whole dynamic table.
  fc
    .tuple(fc.string({ unit: character, minLength: 1, maxLength: 9 }), fc.constantFrom(50, 600))
    .map(([text, n]) => text.repeat(n)),
);
/** Generates fields. Removes white space at both ends of a value, because such white space is not part of the value. */
const fields = fc
  .array(fc.tuple(fc.constantFrom('x-a', 'x-b', 'x-c', 'etag', 'via', 'grpc-message', 'x-'.repeat(70)), value), {
    maxLength: 8,
  })
  .map((list) => Object.fromEntries(list.map(([name, text]) => [name, text.replace(/^[\t ]+|[\t ]+$/g, '')])));
/** Generates sequences of requests. Before some requests, the table size changes to `tableBytes`. */
const steps = fc.array(
  fc.record({
    fields,
    tableBytes: fc.option(fc.constantFrom(0, 1, 100, 200, 1_000, 4_096), { freq: 3, nil: undefined }),
  }),
  { minLength: 1, maxLength: 12 },
);
const RUNS = { seed: SEED, numRuns: 25 };

describe('a `node:http2` client', () => {
  test('sends requests that the HPACK decoder can read, even after the table size has changed', async () => {
    const accept = await listen();
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const { session, socket } = await accept();
        const decoder = new HpackDecoder(LIMIT);
        for (const { fields, tableBytes } of sequence) {
          if (tableBytes !== undefined) {
            socket.send(settings({ HEADER_TABLE_SIZE: tableBytes }));
            await socket.next(isAck);
          }
          // A sensitive field is never indexed. If the decoder indexed it, the decoder's indices of older fields would
          // be off by one.
          request(session, { ...fields, token: 'secret' });
          expect(decode(decoder, await headerBlock(socket))).toMatchObject({ ...fields, token: 'secret' });
        }
      }),
      RUNS,
    );
  });

  test('sends each octet that a field value may contain as a Huffman code that the HPACK decoder can read', async () => {
    const { session, socket } = await (await listen())();
    // node:http2 uses Huffman coding only for values that become shorter. The letters ensure that each value does.
    const values = VALUE_OCTETS.map((octet) => `a${String.fromCharCode(octet)}${'a'.repeat(40)}`);
    const fields = Object.fromEntries(values.map((text, index) => [`x-${index}`, text]));
    request(session, fields);
    const bytes = await headerBlock(socket);
    expect(bytes.length).toBeLessThan(values.join('').length);
    expect(decode(new HpackDecoder(LIMIT), bytes)).toMatchObject(fields);
  });
});

test('a `node:http2` server and this client read each other’s header blocks even when the table size changes', async () => {
  const streams = new AsyncQueue<{ stream: ServerHttp2Stream; headers: IncomingHttpHeaders }>();
  const sessions = new AsyncQueue<ServerHttp2Session>();
  const server = createHttp2Server({ settings: { maxHeaderListSize: LIMIT } });
  server.on('session', (session) => sessions.push(session.on('error', () => {})));
  server.on('stream', (stream, received) => streams.push({ stream: stream.on('error', () => {}), headers: received }));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;

  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      const socket = new Http2Socket(tcpConnect(port, '127.0.0.1'), 'server');
      socket.send(Buffer.from(PREFACE), settings());
      const session = (await sessions.next()).value as ServerHttp2Session;
      await socket.next((frame) => frame.name === 'SETTINGS' && frame.flags === 0);
      socket.send(settingsAck);
      const [encoder, decoder] = [new HpackEncoder(), new HpackDecoder(LIMIT)];
      let streamId = 1;
      for (const { fields, tableBytes } of sequence) {
        if (tableBytes !== undefined) {
          const acknowledged = once(session, 'localSettings');
          session.settings({ headerTableSize: tableBytes });
          await socket.next((frame) => frame.name === 'SETTINGS' && frame.flags === 0);
          encoder.resize(tableBytes);
          socket.send(settingsAck);
          await acknowledged;
        }
        const entries = Object.entries(fields);
        socket.send(...requestFrames(streamId, encoder.encode([...REQUEST, ...entries]), neverIndexed('token', 't')));
        const { value: call } = (await streams.next()) as {
          value: { stream: ServerHttp2Stream; headers: IncomingHttpHeaders };
        };
        expect(call.headers).toMatchObject({ ':path': '/', ...fields, token: 't' });
        expect((call.headers as Record<symbol, unknown>)[sensitiveHeaders]).toEqual(['token']);
        call.stream.respond({ ':status': 200, ...fields }, { endStream: true });
        expect(decode(decoder, await headerBlock(socket))).toMatchObject({ ':status': '200', ...fields });
        streamId += 2;
      }
      session.destroy();
      socket.destroy();
    }),
    RUNS,
  );
});

function request(session: ClientHttp2Session, fields: Record<string, string>): void {
  session.request({ ...fields, [sensitiveHeaders]: ['token'] }, { endStream: true }).on('error', () => {});
}

/** Starts a listener. Returns a function that connects a `node:http2` client to it and returns both ends. */
async function listen(): Promise<() => Promise<{ session: ClientHttp2Session; socket: Http2Socket }>> {
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const sessions: ClientHttp2Session[] = [];
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    listener.close();
  });
  return async () => {
    const accepted = once(listener, 'connection') as Promise<[Socket]>;
    const session = connectHttp2(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`);
    sessions.push(session.on('error', () => {}));
    const socket = new Http2Socket((await accepted)[0], 'client');
    socket.send(settings());
    await socket.next(isAck);
    return { session, socket };
  };
}

function isAck({ name, flags }: Frame): boolean {
  return name === 'SETTINGS' && flags === FLAG.ACK;
}

/** Returns the next header block, joined from all its frames. */
async function headerBlock(socket: Http2Socket): Promise<Buffer> {
  const first = await socket.next(({ name }) => name === 'HEADERS');
  // If the flag PRIORITY is set, priority fields precede the block.
  const parts = [first.payload.subarray((first.flags & FLAG.PRIORITY) === 0 ? 0 : 5)];
  for (let last = first; (last.flags & FLAG.END_HEADERS) === 0; ) {
    last = await socket.next(() => true);
    expect(last.name).toBe('CONTINUATION');
    parts.push(last.payload);
  }
  return Buffer.concat(parts);
}

/** Returns HEADERS that end the stream, with CONTINUATION frames if the block does not fit into one frame. */
function requestFrames(streamId: number, ...parts: readonly Uint8Array[]): Buffer[] {
  const whole = Buffer.concat(parts);
  const frames = [
    headers(streamId, whole.subarray(0, FRAME_BYTES), { endStream: true, open: whole.length > FRAME_BYTES }),
  ];
  for (let at = FRAME_BYTES; at < whole.length; at += FRAME_BYTES) {
    frames.push(continuation(streamId, whole.subarray(at, at + FRAME_BYTES), at + FRAME_BYTES >= whole.length));
  }
  return frames;
}

function neverIndexed(name: string, text: string): Uint8Array {
  const bytes = new Uint8Array(neverIndexedBytes(name, text));
  writeNeverIndexed(bytes, 0, name, text);
  return bytes;
}

function decode(decoder: HpackDecoder, bytes: Buffer): Record<string, string> {
  return Object.fromEntries(decoder.decode(bytes, 0, bytes.length).fields);
}
