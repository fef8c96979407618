import {
  constants,
  createSecureServer,
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import type { Codec, Method } from '../../../src/wire/protobuf/schema.js';
import { encode, type Init } from '../../../src/wire/protobuf/writer.js';

/** Length, in bytes, of a gRPC message's prefix: the compressed flag (1 byte) and the message length (4 bytes). */
const PREFIX_BYTES = 5;

/** Options of `node:http2`, each after a description of its effect. Servers and clients of `node:http2` accept them. */
export const NODE_OPTIONS = [
  ['frames with the most padding', { paddingStrategy: constants.PADDING_STRATEGY_MAX }],
  ['frames padded to a multiple of 8', { paddingStrategy: constants.PADDING_STRATEGY_CALLBACK }],
  ['windows of 1,000 bytes', { settings: { initialWindowSize: 1_000 } }],
  ['frames of 16 MB', { settings: { maxFrameSize: 2 ** 24 - 1, initialWindowSize: 2 ** 31 - 1 } }],
  ['no dynamic table', { settings: { headerTableSize: 0 } }],
] as const;

/** A `node:http2` server for which a test writes the gRPC layer. */
export interface NodePeer {
  readonly endpoint: string;
  /** All connections so far, in order. */
  readonly sessions: readonly ServerHttp2Session[];
}

/** One call, as the server sees it. */
export class NodeCall {
  readonly stream: ServerHttp2Stream;
  /** The connection of the call. */
  readonly session: ServerHttp2Session;
  readonly headers: IncomingHttpHeaders;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders) {
    this.stream = stream;
    this.session = stream.session as ServerHttp2Session;
    this.headers = headers;
  }

  is(method: Method<unknown, unknown>): boolean {
    return this.headers[':path'] === method.path;
  }

  /** Yields the client's messages until the client half-closes the stream. */
  async *messages<T>(codec: Codec<T>): AsyncGenerator<T, void> {
    let received = Buffer.alloc(0);
    for await (const chunk of this.stream) {
      received = Buffer.concat([received, chunk]);
      while (received.length >= PREFIX_BYTES && received.length >= PREFIX_BYTES + received.readUInt32BE(1)) {
        const end = PREFIX_BYTES + received.readUInt32BE(1);
        yield decode(codec, received.subarray(PREFIX_BYTES, end));
        received = received.subarray(end);
      }
    }
  }

  /** Resolves with the message of a unary call when the client has half-closed the stream. */
  async request<T>(codec: Codec<T>): Promise<T> {
    const messages: T[] = [];
    for await (const message of this.messages(codec)) messages.push(message);
    if (messages[0] === undefined || messages.length > 1)
      throw new Error(`the client sent ${messages.length} messages in a unary call, expected one`);
    return messages[0];
  }

  /** Sends the response headers now, and the trailers when the stream ends. */
  head(headers: OutgoingHttpHeaders = {}, trailers: OutgoingHttpHeaders = {}): void {
    this.stream.on('wantTrailers', () => this.stream.sendTrailers({ 'grpc-status': 0, ...trailers }));
    this.stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...headers }, { waitForTrailers: true });
  }

  send<T>(codec: Codec<T>, message: Init<T>): void {
    this.stream.write(framed(encode(codec, message)));
  }

  /** Sends a complete response. */
  answer<T>(codec: Codec<T>, message: Init<T>): void {
    if (!this.stream.headersSent) this.head();
    this.send(codec, message);
    this.stream.end();
  }

  /** Sends a response that consists of headers only. */
  trailersOnly(status: number, message: string): void {
    const headers = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': status };
    this.stream.respond({ ...headers, 'grpc-message': message }, { endStream: true });
  }
}

/**
 * Starts a `node:http2` server that runs `play` for each call, and stops the server when the test ends. The server uses
 * TLS if the options contain `key` and `cert`.
 */
export async function nodePeer(
  play: (call: NodeCall) => void | Promise<void>,
  options: ServerOptions | SecureServerOptions = {},
): Promise<NodePeer> {
  const tls = 'cert' in options;
  const server = tls ? createSecureServer(options) : createServer(options);
  const sessions: ServerHttp2Session[] = [];
  server.on('session', (session) => {
    sessions.push(session);
    session.on('error', () => {});
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    // If `play` fails, the server closes the stream, so that the client's call ends.
    Promise.resolve(play(new NodeCall(stream, headers))).catch(() => stream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { endpoint: `http${tls ? 's' : ''}://127.0.0.1:${(server.address() as AddressInfo).port}`, sessions };
}

/** Adds the gRPC prefix to a message. */
function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/**
 * Starts a `node:http2` server that stores the keys of puts and responds to gets. For each call, the server first runs
 * `before`, and responds when `before` has finished. The server is stopped when the test ends.
 */
export function nodeStore(
  options: ServerOptions | SecureServerOptions = {},
  before: (call: NodeCall) => void | Promise<void> = () => {},
): Promise<NodePeer> {
  const store = new Map<string, Uint8Array>();
  const { put, range } = methods.kv;
  return nodePeer(async (call) => {
    await before(call);
    if (call.is(put)) {
      const { key, value } = await call.request(put.request);
      store.set(String(key), value);
      call.answer(put.response, {});
    } else if (call.is(range)) {
      const { key } = await call.request(range.request);
      const value = store.get(String(key));
      call.answer(range.response, { kvs: value === undefined ? [] : [{ key, value, version: 1n }], count: 1n });
    } else call.trailersOnly(12, 'unknown method');
  }, options);
}
