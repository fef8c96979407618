import { plain, readUint32, writeUint32 } from '../../base/index.js';
import type { ByteStream, ByteStreamEvents } from '../../host/index.js';
import {
  CONNECTION_PREFACE,
  CONNECTION_WINDOW_BYTES,
  ConnectionError,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  Flag,
  FrameReader,
  type FrameTarget,
  FrameType,
  FrameWriter,
  HeaderReader,
  HpackEncoder,
  MAX_HEADER_LIST_BYTES,
  MAX_STREAM_ID,
  ownSettings,
  PeerFrames,
  PeerLimits,
  PeerSettings,
  SETTING_BYTES,
  SendFlow,
  Setting,
  STREAM_WINDOW_BYTES,
} from '../../wire/index.js';
import { PingPolicy } from './ping-policy.js';
import { type RequestFields, requestFields } from './request.js';
import { type ConnectionSettings, ServerStream, type StreamConnection } from './stream.js';
import { ServerStreams } from './streams.js';

/** The second half of the payload of the PING that follows the first GOAWAY of a graceful shutdown: "leav" in ASCII. */
const LEAVING_PING = 0x6c_65_61_76;

/**
 * The server's side of one HTTP/2 connection: RFC 9113. It owns the byte stream and all streams on it, and receives the
 * events of the byte stream.
 *
 * - open: The client may open streams, up to SETTINGS_MAX_CONCURRENT_STREAMS at a time.
 * - leaving: The server has sent GOAWAY with the largest possible stream identifier, and PING. The client may still
 *   open streams, because it may not have received the GOAWAY.
 * - draining: The client has acknowledged the PING, and the server has sent GOAWAY with the last stream identifier. The
 *   server ignores further streams. It closes the connection when the last stream is closed.
 * - closed: The byte stream is closed, and every call has ended.
 */
export class ServerConnection implements StreamConnection, FrameTarget<RequestFields>, ByteStreamEvents {
  readonly endpoint: string;
  readonly own: ConnectionSettings;
  readonly settings = new ClientSettings();
  readonly limits: PeerLimits = new PeerLimits();
  readonly headerReader: HeaderReader<RequestFields> = new HeaderReader(MAX_HEADER_LIST_BYTES, requestFields);
  readonly encoder: HpackEncoder = new HpackEncoder();
  readonly pings: PingPolicy;
  readonly writer: FrameWriter = new FrameWriter((parts) => this.#write(parts));
  readonly flow: SendFlow = new SendFlow(this.settings, (bytes) => {
    this.limits.sent(bytes);
    this.pings.sent();
  });
  readonly streams: ServerStreams = new ServerStreams((id) => this.#openStream(id));
  readonly pinger = {
    receivedHeadersOrData: ignore,
    acknowledged: (opaque: number): void => this.#acknowledged(opaque),
  };
  readonly #onClosed: () => void;
  readonly #frames = new PeerFrames(this);
  readonly #reader = new FrameReader(this);
  readonly #bytes: ByteStream;
  /** The number of bytes of the connection preface that have arrived. */
  #prefaceBytes = 0;
  #state: 'open' | 'leaving' | 'draining' | 'closed' = 'open';

  /**
   * `accept` returns the byte stream, which is open already. `onClosed` is called once, when the connection is closed.
   */
  constructor(
    endpoint: string,
    own: ConnectionSettings,
    accept: (events: ByteStreamEvents) => ByteStream,
    onClosed: () => void,
  ) {
    this.endpoint = endpoint;
    this.own = own;
    this.#onClosed = onClosed;
    this.pings = new PingPolicy(own.clock, own.minPingIntervalMs);
    this.#bytes = accept(this);
    const settings = ownSettings(STREAM_WINDOW_BYTES, [Setting.MAX_CONCURRENT_STREAMS, own.maxConcurrentStreams]);
    this.writer.frame(FrameType.SETTINGS, 0, 0, settings);
    this.writer.windowUpdate(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES);
  }

  /** A stream reads this property when its call opens. At that time, `streams` already contains the stream. */
  get hasRoom(): boolean {
    return this.streams.size <= this.own.maxConcurrentStreams;
  }

  /** Starts a graceful shutdown: the open calls finish, and the client opens new calls on another connection. */
  leave(): void {
    if (this.#state !== 'open') return;
    this.#state = 'leaving';
    this.#goAway(MAX_STREAM_ID, ErrorCode.NO_ERROR, 'graceful_stop');
    this.writer.ping(0, 0, LEAVING_PING);
  }

  /** Ends all calls, and closes the connection after GOAWAY. */
  close(code: ErrorCode = ErrorCode.NO_ERROR, debug = ''): void {
    if (this.#state === 'closed') return;
    this.#goAway(this.streams.lastProcessedId, code, debug);
    this.lose();
  }

  /** Ends all calls, and closes the byte stream without GOAWAY, as the kernel does for a process that dies. */
  lose(): void {
    if (this.#state === 'closed') return;
    this.#reader.stop();
    this.writer.close();
    this.#state = 'closed';
    this.#bytes.close();
    for (const stream of this.streams.all()) stream.lost();
    this.#onClosed();
  }

  opened(): void {}

  read(bytes: Uint8Array): void {
    if (this.#state === 'closed') return;
    try {
      const start = this.#readPreface(bytes);
      if (start < bytes.length) this.#reader.push(plain(start === 0 ? bytes : bytes.subarray(start)));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.close(error.code, error.message);
    }
  }

  drained(): void {
    this.flow.isCongested = false;
    this.limits.drained();
    this.flow.pump();
  }

  closed(): void {
    this.lose();
  }

  /** Receives a frame from the reader. @throws ConnectionError on a protocol violation that ends the connection. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    this.#frames.frame(type, flags, streamId, bytes, start, end);
    if (type !== FrameType.PING || (flags & Flag.ACK) !== 0) return;
    // A test may have stopped the timers, so the answer waits for none.
    queueMicrotask(this.writer.flush);
    if (this.pings.allows(this.streams.size > 0)) return;
    throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'too_many_pings');
  }

  settingsApplied(): void {}

  /** The client has sent GOAWAY. Its open streams continue, as in grpc-go. */
  goAway(): void {}

  released(stream: ServerStream): void {
    this.streams.delete(stream);
    this.#closeIfDrained();
  }

  /** Opens the stream of a new call, unless the connection is draining. */
  #openStream(id: number): ServerStream | undefined {
    this.limits.mustAnswer();
    return this.#state === 'draining' ? undefined : new ServerStream(id, this);
  }

  /**
   * Compares received bytes with the connection preface: RFC 9113, section 3.4. Returns the index in `bytes` at which
   * the preface ends.
   *
   * @throws ConnectionError if the client does not send the preface.
   */
  #readPreface(bytes: Uint8Array): number {
    let at = 0;
    for (; at < bytes.length && this.#prefaceBytes < CONNECTION_PREFACE.length; at += 1) {
      if (bytes[at] !== CONNECTION_PREFACE.charCodeAt(this.#prefaceBytes))
        throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'the client does not begin with the HTTP/2 preface');
      this.#prefaceBytes += 1;
    }
    return at;
  }

  /** Handles PING with ACK. */
  #acknowledged(opaque: number): void {
    if (this.#state !== 'leaving' || opaque !== LEAVING_PING) return;
    this.#state = 'draining';
    this.#goAway(this.streams.lastProcessedId, ErrorCode.NO_ERROR, 'graceful_stop');
    this.#closeIfDrained();
  }

  #closeIfDrained(): void {
    if (this.#state === 'draining' && this.streams.size === 0) this.lose();
  }

  #goAway(lastStreamId: number, code: ErrorCode, debug: string): void {
    const text = encoder.encode(debug);
    const payload = new Uint8Array(8 + text.length);
    writeUint32(payload, 0, lastStreamId);
    writeUint32(payload, 4, code);
    payload.set(text, 8);
    this.writer.frame(FrameType.GOAWAY, 0, 0, payload);
  }

  #write(parts: readonly Uint8Array[]): void {
    if (this.#state === 'closed') return;
    if (this.flow.isCongested) for (const { length } of parts) this.limits.wroteCongested(length);
    this.flow.isCongested = this.#bytes.write(parts) === false;
  }
}

/** The settings of a client. A client may set ENABLE_PUSH to 1, which a server must not: RFC 9113, section 6.5.2. */
class ClientSettings extends PeerSettings {
  override apply(bytes: Uint8Array, start: number, end: number, encoder: HpackEncoder): void {
    for (let at = start; at < end; at += SETTING_BYTES) {
      const pairEnd = Math.min(end, at + SETTING_BYTES);
      const enablesPush =
        readUint32(bytes, at) === Setting.ENABLE_PUSH << 16 && bytes[at + 4] === 0 && bytes[at + 5] === 1;
      if (!enablesPush) super.apply(bytes, at, pairEnd, encoder);
    }
  }
}

const encoder = new TextEncoder();

function ignore(): void {}
