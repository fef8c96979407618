import { expect, onTestFinished } from 'vitest';
import { parseEndpoint } from '../../src/host/endpoint.js';
import type { ByteStream, ByteStreamEvents, OpenByteStream } from '../../src/host/host.js';
import { http2Over } from '../../src/wire/http2/http2-transport.js';
import type { Transport, TransportOptions } from '../../src/wire/transport.js';
import { ClientRules, type PeerRequest } from './http2-client-rules.js';
import {
  errorName,
  FLAG,
  type Frame,
  FrameCutter,
  type FrameName,
  PREFACE,
  type Settings,
  settings,
} from './http2-frames.js';

// A scripted HTTP/2 server without a socket. A test decides every byte that the server sends. Each side immediately
// receives the bytes that the other side writes.

export const ENDPOINT = 'http://peer.test:2379';

/** Options that turn off all timers. A test overrides the options that it needs. */
export const UNTIMED: TransportOptions = {
  tls: undefined,
  connectTimeoutMs: Number.POSITIVE_INFINITY,
  pingIntervalMs: Number.POSITIVE_INFINITY,
  pingTimeoutMs: Number.POSITIVE_INFINITY,
  maxRequestBytes: 4 * 1024 * 1024,
  maxReceiveBytes: 4 * 1024 * 1024,
};

export interface PeerOptions extends Partial<TransportOptions> {
  /** The first SETTINGS of the peer. If false, the peer sends no SETTINGS unless the test sends them. */
  readonly greeting?: Settings | false;
  /** The identifier of the first stream on each connection. */
  readonly firstStreamId?: number;
  readonly windowBytes?: number | undefined;
  /** Called for each connection before the client learns that the connection is established. */
  readonly play?: (connection: PeerConnection, index: number) => void;
  /**
   * Whether the test closes the peer itself. If not, the peer is closed when the test ends. A test that creates
   * thousands of peers closes each peer after its use.
   */
  readonly ownClose?: boolean;
}

/** The peer, and a client transport that connects to the peer. Both are closed when the test ends. */
export class Http2Peer {
  readonly connections: PeerConnection[] = [];
  readonly transport: Transport;

  constructor({ greeting = {}, firstStreamId, windowBytes, play, ownClose, ...options }: PeerOptions = {}) {
    const open: OpenByteStream = (_endpoint, _tls, events) => {
      const connection = new PeerConnection(events, greeting);
      play?.(connection, this.connections.length);
      this.connections.push(connection);
      return connection;
    };
    this.transport = http2Over(open, { firstStreamId, windowBytes })(parseEndpoint(ENDPOINT, 'endpoint'), {
      ...UNTIMED,
      ...options,
    });
    if (!ownClose) onTestFinished(() => this.close());
  }

  async close(): Promise<void> {
    await this.transport.close();
    expect(this.breaches).toEqual([]);
  }

  /** The newest connection. */
  get connection(): PeerConnection {
    const last = this.connections.at(-1);
    if (last === undefined) throw new Error('the client has not connected');
    return last;
  }

  /** The client's violations of RFC 9113 and of etcd's rules for pings. */
  get breaches(): readonly string[] {
    return this.connections.flatMap(({ rules }) => rules.breaches);
  }
}

/** One connection, from the peer's side. */
export class PeerConnection implements ByteStream {
  readonly rules = new ClientRules();
  /** All frames that the client has sent. */
  readonly frames: Frame[] = [];
  /** Whether the client keeps the process alive for this connection. */
  held = true;
  /** The value that `write` returns to the client. False reports congestion. */
  roomy = true;
  /** Whether the byte stream has ended, so that neither side sends anything. The test calls `lose` later. */
  hasEnded = false;
  /** Whether the client has closed the connection. */
  closed = false;
  /**
   * Whether the client receives bytes as a `Buffer` of Node.js, whose `slice` does not copy, instead of a `Uint8Array`.
   */
  givesBuffers = false;
  /** Called when a request is complete. */
  onRequest: ((request: PeerRequest) => void) | undefined;
  /** Called with the payload of each PING from the client that is not an acknowledgment. */
  onPing: ((payload: Buffer) => void) | undefined;
  readonly #events: ByteStreamEvents;
  readonly #greeting: Settings | false;
  readonly #fromClient = new FrameCutter();
  readonly #fromPeer = new FrameCutter();
  #preface = '';
  #over = false;

  constructor(events: ByteStreamEvents, greeting: Settings | false) {
    this.#events = events;
    this.#greeting = greeting;
    queueMicrotask(() => {
      if (!this.#over) this.#events.opened();
    });
  }

  write(parts: readonly Uint8Array[]): boolean | undefined {
    if (this.hasEnded) return undefined;
    if (this.closed) this.rules.breaches.push('the client wrote bytes after it had closed the connection');
    let bytes = Buffer.concat(parts);
    if (this.#preface.length < PREFACE.length) {
      this.#preface += bytes.toString('latin1', 0, PREFACE.length - this.#preface.length);
      bytes = bytes.subarray(PREFACE.length);
      this.rules.preface(this.#preface);
      const greeting = this.#greeting;
      if (greeting !== false) queueMicrotask(() => this.send(settings(greeting)));
    }
    for (const frame of this.#fromClient.push(bytes)) {
      this.frames.push(frame);
      this.rules.check(frame);
      if (frame.name === 'PING' && (frame.flags & FLAG.ACK) === 0) queueMicrotask(() => this.onPing?.(frame.payload));
      const request = this.rules.requests.get(frame.streamId);
      const isLast = frame.name !== 'WINDOW_UPDATE' && (frame.flags & FLAG.END_STREAM) !== 0;
      if (this.onRequest !== undefined && request?.ended && isLast) queueMicrotask(() => this.onRequest?.(request));
    }
    return this.roomy;
  }

  keepProcessAlive(busy: boolean): void {
    this.held = busy;
  }

  close(): void {
    this.closed = true;
    queueMicrotask(() => this.lose());
  }

  /** Sends all parts to the client as one chunk. */
  send(...parts: readonly Uint8Array[]): void {
    if (this.#over || this.hasEnded) return;
    const bytes = Buffer.concat(parts);
    for (const frame of this.#fromPeer.push(bytes)) this.rules.sentByPeer(frame);
    this.#read(bytes);
  }

  /** Sends the bytes in chunks that end at these offsets. */
  sendSplit(bytes: Uint8Array, ends: Iterable<number>): void {
    let start = 0;
    for (const end of [...ends, bytes.length]) {
      this.send(bytes.subarray(start, end));
      start = end;
    }
  }

  drain(): void {
    this.roomy = true;
    this.#events.drained();
  }

  /** Closes the connection from the peer's side. */
  lose(problem?: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#events.closed(problem);
  }

  request(streamId = 1): PeerRequest {
    const request = this.rules.requests.get(streamId);
    if (request === undefined) throw new Error(`the client has not opened stream ${streamId}`);
    return request;
  }

  get streamIds(): readonly number[] {
    return [...this.rules.requests.keys()];
  }

  sent(name: FrameName, streamId?: number): readonly Frame[] {
    return this.frames.filter((frame) => frame.name === name && (streamId ?? frame.streamId) === frame.streamId);
  }

  /** The error code of the client's GOAWAY, or undefined if the client has sent no GOAWAY. */
  get goAwayCode(): string | undefined {
    const [goAway] = this.sent('GOAWAY');
    return goAway && errorName(goAway.payload.readUInt32BE(4));
  }

  /** The number of SETTINGS frames that the client has acknowledged. */
  get acknowledged(): number {
    return this.sent('SETTINGS').filter(({ flags }) => flags === FLAG.ACK).length;
  }

  /** Returns the sum of the client's WINDOW_UPDATE increments on a stream, or on the connection if `streamId` is 0. */
  allowed(streamId: number): number {
    return this.sent('WINDOW_UPDATE', streamId).reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
  }

  /** Delivers the bytes to the client and then overwrites them, like a runtime that reuses its buffer. */
  #read(bytes: Buffer): void {
    const chunk = this.givesBuffers ? bytes : new Uint8Array(bytes);
    this.#events.read(chunk);
    chunk.fill(0xee);
  }
}

const { setImmediate } = globalThis;

/** Resolves after all pending callbacks except timers have run. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
