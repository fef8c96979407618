import {
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
import { type Codec, decode, encode, type Init } from '../../../src/protobuf/codec.js';
import type { Method } from '../../../src/protobuf/schema.js';

/** Compressed or not, and four bytes of length. */
const PREFIX_BYTES = 5;

/** A server on `node:http2`, whose gRPC a test writes by hand. */
export interface NodePeer {
  readonly endpoint: string;
  /** Every connection there was, in order. */
  readonly sessions: readonly ServerHttp2Session[];
}

/** One call as the server sees it. */
export class NodeCall {
  readonly stream: ServerHttp2Stream;
  /** The connection it came on. */
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

  /** The messages of the client, to the end of its side. */
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

  /** The one message of a unary call, once the client's side has ended. */
  async request<T>(codec: Codec<T>): Promise<T> {
    const messages: T[] = [];
    for await (const message of this.messages(codec)) messages.push(message);
    if (messages[0] === undefined || messages.length > 1)
      throw new Error(`${messages.length} messages in a unary call`);
    return messages[0];
  }

  /** Headers of an answer whose trailers are to come. */
  head(headers: OutgoingHttpHeaders = {}, trailers: OutgoingHttpHeaders = {}): void {
    this.stream.on('wantTrailers', () => this.stream.sendTrailers({ 'grpc-status': 0, ...trailers }));
    this.stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...headers }, { waitForTrailers: true });
  }

  send<T>(codec: Codec<T>, message: Init<T>): void {
    this.stream.write(framed(encode(codec, message)));
  }

  /** A whole answer. */
  answer<T>(codec: Codec<T>, message: Init<T>): void {
    if (!this.stream.headersSent) this.head();
    this.send(codec, message);
    this.stream.end();
  }

  /** Headers that are all of the answer. */
  trailersOnly(status: number, message: string): void {
    const headers = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': status };
    this.stream.respond({ ...headers, 'grpc-message': message }, { endStream: true });
  }
}

/** Starts a server; stopped when the test ends. With `key` and `cert` it speaks TLS. */
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
    // What goes wrong in the play is a broken stream to the client.
    Promise.resolve(play(new NodeCall(stream, headers))).catch(() => stream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { endpoint: `http${tls ? 's' : ''}://127.0.0.1:${(server.address() as AddressInfo).port}`, sessions };
}

/** A message with its prefix. */
function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}
