import { after, amended, type EtcdError, monotonicMs, type Outcome, plain, type Reason } from '../../base/index.js';
import { type ByteStream, type Endpoint, type OpenByteStream, type TlsOptions, tlsForDial } from '../../host/index.js';
import { connectFailed } from '../connect-failed.js';
import { PeerLimits, SendFlow } from './flow-control.js';
import { ConnectionError, ErrorCode, errorCodeName, MAX_STREAM_ID } from './frame.js';
import { FrameReader } from './frame-reader.js';
import { callListBytes, FrameWriter, grpcTimeout, RequestHeaders } from './frame-writer.js';
import { HeaderReader } from './header-reader.js';
import { HpackEncoder } from './hpack.js';
import { type FrameTarget, PeerFrames } from './peer-frames.js';
import { Pinger } from './pinger.js';
import { connectionLost, type ResponseFields, requestHeadersTooLarge, responseFields } from './response.js';
import { type Http2TransportOptions, MAX_HEADER_LIST_BYTES, PeerSettings } from './settings.js';
import type { Http2Stream, StreamConnection } from './stream.js';
import { StreamTable } from './stream-table.js';

const PEER_CLOSED = 'the peer closed the connection';
/** The lowest rate of uploads that the client assumes, in bytes per millisecond (32 KiB/s). Large requests get more time. */
const SLOWEST_BYTES_PER_MS = 32.768;
/** Time in milliseconds. If a connection has not opened within this time, new calls prefer another endpoint. */
const SLOW_DIAL_MS = 1_000;

export interface ConnectionEvents {
  /** The connection accepts no more streams. Its open streams continue, except streams that a GOAWAY excludes. */
  draining(): void;
  /** The connection is closed. Called once, after all other callbacks. */
  closed(): void;
}

/**
 * The states of a connection:
 *
 *                    SETTINGS            GOAWAY, no answer,
 *                    received            no identifier left             last stream closed
 *       connecting ───────────► open ─────────────────────► draining ───────────────────────► closed
 *           │                     │                             │                               ▲
 *           └─────────────────────┴─────────────────────────────┴───────────────────────────────┘
 *                       connectTimeoutMs, error, end of the byte stream, close()
 *
 * - connecting: The client dials, and waits for the peer's SETTINGS. Streams wait in a queue.
 * - open: Streams open, up to SETTINGS_MAX_CONCURRENT_STREAMS of them at a time. Further streams wait in the queue.
 * - draining: The streams up to `lastStreamId` finish. New and waiting streams go to another connection.
 * - closed: The byte stream is closed, and every stream has ended.
 */
type State =
  | { readonly name: 'connecting'; readonly startedAt: number; readonly stopTimer: () => void }
  | { readonly name: 'open' }
  | { readonly name: 'draining'; readonly lastStreamId: number }
  | { readonly name: 'closed' };

/** The client's side of one HTTP/2 connection: RFC 9113. It owns the byte stream and all streams on it. */
export class Connection implements StreamConnection, FrameTarget<ResponseFields> {
  readonly #endpoint: Endpoint;
  readonly options: { pingIntervalMs: number } & Pick<Http2TransportOptions, 'windowBytes' | 'onCrowded'>;
  readonly #events: ConnectionEvents;
  readonly settings = new PeerSettings();
  readonly limits = new PeerLimits();
  readonly headerReader = new HeaderReader(MAX_HEADER_LIST_BYTES, responseFields);
  readonly encoder = new HpackEncoder();
  readonly #headers: RequestHeaders;
  readonly #reader = new FrameReader(new PeerFrames(this));
  readonly streams: StreamTable;
  readonly pinger: Pinger;
  readonly #write = (parts: readonly Uint8Array[]): void => {
    if (this.#state.name === 'closed') return;
    if (this.flow.isCongested) for (const { length } of parts) this.limits.wroteCongested(length);
    const hasRoom = this.#bytes?.write(parts);
    this.flow.isCongested = hasRoom === false;
    if (hasRoom !== undefined) this.#unsentId = this.streams.nextId;
  };
  readonly writer = new FrameWriter(this.#write);
  readonly flow = new SendFlow(this.settings, (bytes) => {
    this.limits.sent(bytes);
    this.pinger.sent();
  });
  /** Undefined until the TLS options are available and the connection dials. */
  #bytes: ByteStream | undefined;
  /** Always true until the connection is open. */
  #keepsProcessAlive = true;
  /** The byte stream has accepted the HEADERS frames of all streams with identifiers below this one. */
  #unsentId = 0;
  /** When the stream of the last large request closed, on the monotonic clock. */
  #uploadEndedAt = 0;
  #reportedCrowded = false;
  /** Whether a microtask that opens waiting streams is queued. */
  #opening = false;
  /** The PING interval after this connection, in milliseconds, if the peer ends it because of too many PINGs. */
  readonly #longerIntervalMs: number;
  #state: State;

  /**
   * If the peer closes the connection because of too many PINGs, the connection sets `options.pingIntervalMs` to twice
   * its own interval, for the next connection.
   */
  constructor(
    endpoint: Endpoint,
    options: Http2TransportOptions & { pingIntervalMs: number },
    open: OpenByteStream,
    events: ConnectionEvents,
    firstStreamId: number,
  ) {
    this.#endpoint = endpoint;
    this.options = options;
    this.#events = events;
    this.streams = new StreamTable(firstStreamId);
    const { connectTimeoutMs, pingIntervalMs, pingTimeoutMs } = options;
    this.#longerIntervalMs = 2 * pingIntervalMs;
    this.pinger = new Pinger({
      intervalMs: pingIntervalMs,
      timeoutMs: pingTimeoutMs,
      ping: (opaque) => this.writer.ping(0, 0, opaque),
      awaiting: () => this.streams.all().some(({ head }) => head.request !== undefined),
      uploadedAt: () => this.#uploadedAt(),
      suspected: () => this.#drain(MAX_STREAM_ID, 'the peer is silent'),
      doubted: () => {
        for (const { receiver } of this.streams.all()) receiver.leaving?.();
      },
      answered: () => {
        this.#closeIfDrained();
        this.#openWaiting();
      },
      lost: () => this.#close(`no answer to PING within pingTimeoutMs = ${pingTimeoutMs}`),
    });
    this.#headers = new RequestHeaders(endpoint);
    const onTimeout = (): void => this.#close(`no answer within connectTimeoutMs = ${connectTimeoutMs}`);
    this.#state = { name: 'connecting', startedAt: monotonicMs(), stopTimer: after(connectTimeoutMs, onTimeout) };
    const dial = (tls?: TlsOptions): void => this.#dial(endpoint, tls, open);
    if (!endpoint.tls) dial();
    else
      tlsForDial(options.tls)
        .then(dial)
        .catch((error: Error) => this.#close(error.message, 'ConnectionLost', error.cause ?? error));
  }

  get isOpen(): boolean {
    return this.#state.name === 'open';
  }

  /** Whether new calls should prefer another endpoint, because the dial is slow or the peer is silent. */
  get isSuspect(): boolean {
    const state = this.#state;
    return state.name === 'connecting' ? monotonicMs() - state.startedAt >= SLOW_DIAL_MS : this.pinger.isSuspect;
  }

  /**
   * Opens the stream, and sends its request. The stream waits if the connection is not open yet, if the peer allows no
   * further stream, if the byte stream has a long backlog, or if other streams wait and `isNext` is false. If the
   * connection may have died unnoticed, the stream waits until the peer has answered a PING. If the connection accepts
   * no more streams, this method calls `stream.unprocessed`.
   */
  open(stream: Http2Stream, isNext = !this.streams.hasWaiting): void {
    const { name } = this.#state;
    const { head } = stream;
    if (name === 'draining' || name === 'closed')
      return stream.unprocessed(connectionLost('the connection accepts no more calls', 'not-sent', head));
    stream.connection = this;
    const now = monotonicMs();
    const hasRoom = name === 'open' && this.#hasRoom();
    if (!hasRoom || !isNext || !this.pinger.isTrusted(now)) {
      this.streams.wait(stream);
      this.#updateKeepsProcessAlive();
      if (hasRoom) this.pinger.confirm(now);
      const crowded = this.#reportedCrowded ? undefined : this.crowded;
      this.#reportedCrowded ||= crowded !== undefined;
      return crowded === undefined ? undefined : this.options.onCrowded?.(crowded);
    }
    if (this.streams.isExhausted) {
      this.streams.wait(stream);
      return this.goAway(MAX_STREAM_ID, 'the connection has no stream identifiers left');
    }
    if (stream.receiver.mayOpen?.(now) === false) return;
    const { method, metadata, deadline, request } = head;
    const timeout = grpcTimeout(deadline - now);
    const { maxHeaderListBytes, initialWindowBytes, maxFrameBytes } = this.settings;
    const { fields, listBytes } = this.#headers.fixed(method, metadata);
    if (listBytes + callListBytes(timeout, metadata) > maxHeaderListBytes) {
      const limit = `SETTINGS_MAX_HEADER_LIST_SIZE = ${maxHeaderListBytes}`;
      const problem = `the headers of the request are larger than the server allows (${limit})`;
      return stream.fail(requestHeadersTooLarge(problem, head));
    }
    const id = this.streams.add(stream);
    if (this.streams.size === 1) this.pinger.busy(true);
    if (!this.#keepsProcessAlive) this.#updateKeepsProcessAlive();
    this.writer.headers(id, this.encoder.encode(fields), timeout, metadata, maxFrameBytes);
    this.limits.called();
    this.pinger.sent();
    stream.opened(id, initialWindowBytes, now);
    if (request !== undefined && stream.take(request, true)) this.writer.message(id, request, true);
  }

  close(problem: string): void {
    if (this.#state.name === 'open') this.writer.goAway(ErrorCode.NO_ERROR);
    this.#close(problem);
  }

  setBackground(stream: Http2Stream, isBackground: boolean): void {
    this.streams.setBackground(stream, isBackground);
    this.#updateKeepsProcessAlive();
  }

  released(stream: Http2Stream): void {
    if (stream.largeRequestBytes > 0) this.#uploadEndedAt = monotonicMs();
    if (!this.streams.delete(stream)) return this.#updateKeepsProcessAlive();
    this.#openWaitingSoon();
    if (this.#keepsProcessAlive) this.#updateKeepsProcessAlive();
    if (this.streams.size > 0) return;
    this.pinger.busy(false);
    this.#closeIfDrained();
  }

  /**
   * Opens no further streams, so that the next call uses a new connection. The owner of a stream calls this method when
   * it cancels the stream because the peer has not answered in time.
   */
  unresponsive(): void {
    if (this.#state.name === 'open') this.#drain(MAX_STREAM_ID, 'the peer does not answer in time');
  }

  /** Returns the time by which even a link of 32 KiB/s has carried all large requests that are still unanswered. */
  #uploadedAt(): number {
    let bytes = 0;
    let since = 0;
    for (const { largeRequestBytes: length, openedAt } of this.streams.all()) {
      if (length === 0) continue;
      since = bytes === 0 ? openedAt : Math.min(since, openedAt);
      bytes += length;
    }
    // Until `#uploadEndedAt`, the link may have carried only the large request that ended at that time. Therefore the
    // time for the other requests begins no earlier than that.
    return Math.max(since, this.#uploadEndedAt) + bytes / SLOWEST_BYTES_PER_MS;
  }

  /** Keeps the process alive while an open stream does so (see `setBackground`) or a stream waits to be opened. */
  #updateKeepsProcessAlive(): void {
    const busy = this.streams.keepsProcessAlive;
    if (busy === this.#keepsProcessAlive || (this.#state.name !== 'open' && this.#state.name !== 'draining')) return;
    this.#keepsProcessAlive = busy;
    this.#bytes?.keepProcessAlive(busy);
  }

  /** Says which streams let calls wait until the program ends one of them: see `StreamTable.crowdedAt`. */
  get crowded(): string | undefined {
    return this.#state.name === 'open' ? this.streams.crowdedAt(this.settings.maxConcurrentStreams) : undefined;
  }

  #hasRoom(): boolean {
    return this.streams.size < this.settings.maxConcurrentStreams && !this.flow.isCongested;
  }

  /**
   * Opens waiting streams in a microtask, after the code that ended an open stream has finished. That code may also end
   * waiting streams: when the client closes, when a signal aborts many calls, or when many calls time out together. The
   * calls of these waiting streams then end with outcome `not-sent`, because their streams were never opened.
   */
  #openWaitingSoon(): void {
    if (this.#opening || !this.streams.hasWaiting) return;
    this.#opening = true;
    queueMicrotask(() => {
      this.#opening = false;
      this.#openWaiting();
    });
  }

  #openWaiting(): void {
    while (this.streams.hasWaiting && this.#state.name === 'open' && this.#hasRoom()) {
      const now = monotonicMs();
      if (!this.pinger.isTrusted(now)) return this.pinger.confirm(now);
      this.open(this.streams.takeWaiting() as Http2Stream, true);
    }
  }

  #dial(endpoint: Endpoint, tls: TlsOptions | undefined, open: OpenByteStream): void {
    if (this.#state.name === 'closed') return;
    this.#bytes = open(endpoint, tls, {
      opened: () => this.writer.preface(this.options.windowBytes),
      read: (bytes) => this.#read(bytes),
      drained: () => this.#drained(),
      closed: (problem, cause) => this.#close(problem ?? PEER_CLOSED, undefined, cause),
    });
  }

  #drained(): void {
    this.flow.isCongested = false;
    this.limits.drained();
    this.flow.pump();
    this.#openWaiting();
  }

  #read(bytes: Uint8Array): void {
    if (this.#state.name === 'closed') return;
    this.pinger.received(bytes.length);
    try {
      this.#reader.push(plain(bytes));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.writer.goAway(error.code);
      const problem = `HTTP/2 protocol error: ${error.message} (${errorCodeName(error.code)})`;
      this.#close(problem, 'ProtocolError');
    }
  }

  settingsApplied(): void {
    if (this.#state.name !== 'connecting') return this.#openWaiting();
    this.#state.stopTimer();
    this.#state = { name: 'open' };
    this.#openWaiting();
    this.#updateKeepsProcessAlive();
  }

  /** Handles a GOAWAY of the peer. `open` also calls this method when the connection has no stream identifier left. */
  goAway(lastStreamId: number, problem: string): void {
    const before = this.#state;
    if (before.name === 'closed') return;
    // grpc-go, etcd and proxies send this debug data with ENHANCE_YOUR_CALM, perhaps in several frames.
    if (problem.includes('too_many_pings'))
      this.options.pingIntervalMs = Math.max(this.options.pingIntervalMs, this.#longerIntervalMs);
    if (before.name === 'connecting') return this.#close(problem);
    // A second GOAWAY matters only if it excludes more streams: RFC 9113, section 6.8.
    if (before.name === 'draining' && lastStreamId >= before.lastStreamId) return;
    this.#drain(lastStreamId, problem);
    for (const stream of this.streams.all()) {
      if (stream.id <= lastStreamId) {
        stream.receiver.leaving?.();
        continue;
      }
      this.streams.delete(stream);
      // The peer has not processed such a stream: RFC 9113, section 6.8.
      stream.unprocessed(connectionLost(problem, 'rejected', stream.head, 'StreamRefused'));
    }
    this.#updateKeepsProcessAlive();
    if (this.streams.size === 0) this.#close(problem);
  }

  /** Stops opening streams, and passes the waiting streams on, so that another connection can open them. */
  #drain(lastStreamId: number, problem: string): void {
    const before = this.#state.name;
    this.#state = { name: 'draining', lastStreamId };
    if (before === 'open') this.#events.draining();
    this.#releaseWaiting(problem);
    this.#closeIfDrained();
  }

  /**
   * Closes a draining connection that has no more streams. Keeps the connection while the pinger suspects the peer and
   * the latest PING is unanswered, because the transport reports the endpoint as suspect only as long as this
   * connection exists.
   */
  #closeIfDrained(): void {
    if (this.#state.name !== 'draining' || this.streams.size > 0) return;
    if (!this.pinger.isProbing || !this.pinger.isSuspect) this.#close('the connection accepts no more calls');
  }

  #close(problem: string, reason: Reason = 'ConnectionLost', cause?: unknown): void {
    const state = this.#state;
    if (state.name === 'closed') return;
    if (state.name === 'connecting') state.stopTimer();
    this.pinger.stop();
    this.#reader.stop();
    this.writer.close();
    this.#state = { name: 'closed' };
    this.#bytes?.close();
    this.#events.closed();
    const hasAnswered = reason === 'ProtocolError' || problem === PEER_CLOSED;
    if (state.name === 'connecting')
      this.#releaseWaiting(problem, connectFailed(this.#endpoint, problem, cause, hasAnswered));
    else this.#releaseWaiting(problem);
    for (const stream of this.streams.all()) {
      const lost = (outcome: Outcome): EtcdError => connectionLost(problem, outcome, stream.head, reason, cause);
      if (stream.id < this.#unsentId) stream.closedByPeer(lost('unknown'));
      else stream.unprocessed(lost('not-sent'));
    }
  }

  /** Lets another connection open the waiting streams. Ends them instead if `error` is given. */
  #releaseWaiting(problem: string, error?: EtcdError): void {
    while (this.streams.hasWaiting) {
      const stream = this.streams.takeWaiting() as Http2Stream;
      if (error === undefined) stream.unprocessed(connectionLost(problem, 'not-sent', stream.head));
      else stream.fail(amended(error, { method: stream.head.method }));
    }
  }
}
