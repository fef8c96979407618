import { plain } from '../../bytes.js';
import type { Reason } from '../../errors.js';
import { after, monotonicMs } from '../../time.js';
import type { ByteStream, OpenByteStream } from '../byte-stream.js';
import type { Endpoint } from '../endpoint.js';
import { type TlsOptions, tlsForDial } from '../tls.js';
import type { TransportOptions } from '../transport-options.js';
import { ConnectionError, ErrorCode, errorCodeName, StreamError } from './error-code.js';
import { MAX_STREAM_ID } from './frame.js';
import { type FrameEvents, FrameParser } from './frame-parser.js';
import { FrameReader } from './frame-reader.js';
import { FrameWriter } from './frame-writer.js';
import { PeerLimits } from './peer-limits.js';
import { Pinger } from './pinger.js';
import { ReceiveWindow } from './receive-window.js';
import { grpcTimeout, RequestHeaders } from './request-headers.js';
import { ResponseHeaders } from './response-headers.js';
import { badAnswer, connectionLost, headersTooLarge, notProcessed } from './response-status.js';
import { SendFlow } from './send-flow.js';
import { applySettings, CONNECTION_WINDOW_BYTES, initialSettings, MAX_HEADER_LIST_BYTES } from './settings.js';
import type { Http2Stream, StreamConnection } from './stream.js';
import { StreamTable } from './stream-table.js';

/** What the owner of a connection hears. */
export interface ConnectionEvents {
  /** The peer has spoken: streams can be opened. */
  ready(): void;
  /** No more streams; those that the connection has go on. */
  retired(): void;
  /** Comes once, last. `ready` may never have come. */
  closed(problem: string, cause?: unknown): void;
}

type State =
  | { readonly name: 'connecting'; readonly stopTimer: () => void }
  | { readonly name: 'open'; readonly pinger: Pinger }
  /** By GOAWAY, or for want of stream identifiers: what is under way is finished. */
  | { readonly name: 'draining'; readonly pinger: Pinger; readonly lastStreamId: number }
  | { readonly name: 'closed' };

/** One HTTP/2 connection, client's side: RFC 9113. It owns the byte stream and every stream on it. */
export class Connection implements StreamConnection, FrameEvents {
  readonly #options: TransportOptions;
  readonly #events: ConnectionEvents;
  readonly #settings = initialSettings();
  readonly #window = new ReceiveWindow(CONNECTION_WINDOW_BYTES);
  readonly #limits = new PeerLimits();
  readonly #requestHeaders: RequestHeaders;
  readonly #responseHeaders = new ResponseHeaders(MAX_HEADER_LIST_BYTES);
  readonly #parser = new FrameParser(this);
  readonly #reader = new FrameReader(this.#parser);
  readonly #streams: StreamTable;
  readonly writer = new FrameWriter((parts) => this.#send(parts));
  readonly flow = new SendFlow(this.#settings);
  /** Undefined while it is not known what TLS is to use. */
  #bytes: ByteStream | undefined;
  #state: State;

  constructor(
    endpoint: Endpoint,
    options: TransportOptions,
    open: OpenByteStream,
    events: ConnectionEvents,
    firstStreamId: number,
  ) {
    this.#options = options;
    this.#events = events;
    this.#streams = new StreamTable(firstStreamId);
    const authority = 'path' in endpoint.address ? 'localhost' : endpoint.url.replace(/^https?:\/\//, '');
    this.#requestHeaders = new RequestHeaders(endpoint.tls ? 'https' : 'http', authority);
    const { connectTimeoutMs } = options;
    const late = (): void => this.#close(`no answer within connectTimeoutMs = ${connectTimeoutMs}`);
    this.#state = { name: 'connecting', stopTimer: after(connectTimeoutMs, late) };
    const dial = (tls?: TlsOptions): void => this.#dial(endpoint, tls, open);
    if (!endpoint.tls) dial();
    else
      tlsForDial(options.tls)
        .then(dial)
        .catch((error: Error) => this.#close(error.message, 'ConnectionLost', error.cause ?? error));
  }

  /** Opens the stream, or lets it wait until there is room. */
  start(stream: Http2Stream): void {
    if (this.#state.name !== 'open')
      return stream.unprocessed(connectionLost('the connection takes no more calls', 'not-sent', stream.head));
    stream.attach(this);
    if (this.#streams.hasWaiting || !this.#hasRoom()) this.#streams.wait(stream);
    else this.#open(stream);
  }

  released(stream: Http2Stream): void {
    if (!this.#streams.delete(stream)) return;
    this.#openWaiting();
    if (this.#streams.size > 0 || (this.#state.name !== 'open' && this.#state.name !== 'draining')) return;
    this.#state.pinger.busy(false);
    this.#bytes?.hold(false);
    if (this.#state.name === 'draining') this.#close('the peer asked to have no more calls');
  }

  /** Ends it, and what is under way on it, at once. */
  close(problem: string): void {
    if (this.#state.name === 'open') this.writer.goAway(ErrorCode.NO_ERROR);
    this.#close(problem);
  }

  /** The peer allows one more, and the byte stream takes more. */
  #hasRoom(): boolean {
    return this.#streams.size < this.#settings.maxConcurrentStreams && !this.flow.congested;
  }

  #openWaiting(): void {
    while (this.#streams.hasWaiting && this.#state.name === 'open' && this.#hasRoom()) {
      this.#open(this.#streams.takeWaiting() as Http2Stream);
    }
  }

  #open(stream: Http2Stream): void {
    const { method, metadata, deadline } = stream.head;
    if (this.#streams.isExhausted) {
      this.#streams.wait(stream);
      return this.#retire(MAX_STREAM_ID, 'the connection has used up its stream identifiers');
    }
    const timeout = grpcTimeout(deadline - monotonicMs());
    const { maxHeaderListBytes, initialWindowBytes, maxFrameBytes } = this.#settings;
    if (this.#requestHeaders.listBytes(method, timeout, metadata) > maxHeaderListBytes) {
      const problem = `the headers are larger than the server takes (SETTINGS_MAX_HEADER_LIST_SIZE = ${maxHeaderListBytes})`;
      return stream.fail(headersTooLarge(problem, 'not-sent', stream.head));
    }
    const id = this.#streams.add(stream);
    if (this.#streams.size === 1 && this.#state.name === 'open') {
      this.#state.pinger.busy(true);
      this.#bytes?.hold(true);
    }
    this.writer.headers(id, this.#requestHeaders.block(method), timeout, metadata, maxFrameBytes);
    stream.open(id, initialWindowBytes);
  }

  #send(parts: readonly Uint8Array[]): void {
    if (this.#state.name === 'closed') return;
    if (this.flow.congested) for (const { length } of parts) this.#limits.wroteCongested(length);
    this.flow.congested = !this.#bytes?.write(parts);
  }

  #drained(): void {
    this.flow.congested = false;
    this.#limits.drained();
    this.flow.pump();
    this.#openWaiting();
  }

  #read(bytes: Uint8Array): void {
    if (this.#state.name === 'closed') return;
    try {
      this.#reader.push(plain(bytes));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#fail(error);
    }
  }

  // ——— frames of the peer ———

  data(streamId: number, bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void {
    const stream = this.#streams.find(streamId, 'DATA');
    if (!this.#window.receive(frameBytes)) {
      throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the connection allows');
    }
    const increment = this.#window.consume(frameBytes);
    if (increment > 0) this.writer.windowUpdate(0, increment);
    this.#limits.data(start === end && !endStream);
    if (stream === undefined) return;
    try {
      stream.data(bytes, start, end, frameBytes, endStream);
    } catch (error) {
      this.#endStream(stream, error);
    }
  }

  headers(streamId: number, bytes: Uint8Array, start: number, end: number, endStream: boolean): void {
    const stream = this.#streams.find(streamId, 'HEADERS');
    // Also where nobody wants them: they change the decoder's table.
    const fields = this.#responseHeaders.read(bytes, start, end);
    if (stream === undefined) return;
    try {
      stream.headers(fields, endStream);
    } catch (error) {
      this.#endStream(stream, error);
    }
  }

  rstStream(streamId: number, code: number): void {
    this.#streams.find(streamId, 'RST_STREAM')?.reset(code);
  }

  settings(bytes: Uint8Array, start: number, end: number): void {
    this.#limits.asked();
    const before = this.#settings.initialWindowBytes;
    applySettings(this.#settings, bytes, start, end, (tableBytes) => this.#requestHeaders.resizeTable(tableBytes));
    const growth = this.#settings.initialWindowBytes - before;
    // Ahead of any data that the change lets through: the peer counts with its old values up to here.
    this.writer.settingsAck();
    // Section 6.9.2: the change holds for the streams there are, too.
    for (const stream of growth === 0 ? [] : this.#streams.all()) {
      try {
        stream.growWindow(growth);
      } catch (error) {
        if (!(error instanceof StreamError)) throw error;
        throw new ConnectionError(error.code, error.message);
      }
    }
    if (this.#state.name === 'connecting') this.#ready(this.#state.stopTimer);
    else this.#openWaiting();
  }

  ping(first: number, second: number): void {
    this.#limits.asked();
    this.writer.pingAck(first, second);
  }

  pingAck(_first: number, second: number): void {
    if (this.#state.name === 'open' || this.#state.name === 'draining') this.#state.pinger.acknowledged(second);
  }

  goAway(lastStreamId: number, code: number, debug: string): void {
    this.#limits.goAway();
    const said = debug === '' ? '' : ` (${debug})`;
    this.#retire(lastStreamId, `the peer ends the connection: GOAWAY, ${errorCodeName(code)}${said}`);
  }

  windowUpdate(streamId: number, increment: number): void {
    if (streamId === 0) return this.flow.grow(increment);
    const stream = this.#streams.find(streamId, 'WINDOW_UPDATE');
    try {
      stream?.growWindow(increment);
    } catch (error) {
      this.#endStream(stream as Http2Stream, error);
    }
  }

  streamError(streamId: number, error: StreamError): void {
    const stream = this.#streams.find(streamId, 'a wrong frame');
    if (stream !== undefined) this.#endStream(stream, error);
  }

  #endStream(stream: Http2Stream, error: unknown): void {
    if (!(error instanceof StreamError)) throw error;
    stream.fail(
      badAnswer(`the peer broke a rule of HTTP/2: ${error.message}`, 'ProtocolError', stream.head),
      error.code,
    );
  }

  // ——— the life of the connection ———

  #dial(endpoint: Endpoint, tls: TlsOptions | undefined, open: OpenByteStream): void {
    if (this.#state.name === 'closed') return;
    this.#bytes = open(endpoint, tls, {
      opened: () => this.writer.preface(),
      read: (bytes) => this.#read(bytes),
      drained: () => this.#drained(),
      closed: (problem) => this.#close(problem ?? 'the peer closed the connection'),
    });
  }

  #ready(stopTimer: () => void): void {
    stopTimer();
    const { pingIntervalMs, pingTimeoutMs } = this.#options;
    const pinger = new Pinger({
      intervalMs: pingIntervalMs,
      timeoutMs: pingTimeoutMs,
      ping: (opaque) => this.writer.ping(opaque),
      lost: () => this.#close(`no answer to PING within pingTimeoutMs = ${pingTimeoutMs}`),
    });
    this.#state = { name: 'open', pinger };
    this.#events.ready();
    if (this.#streams.size === 0) this.#bytes?.hold(false);
  }

  /** Takes no more streams; those above `lastStreamId` were not processed. */
  #retire(lastStreamId: number, problem: string): void {
    const before = this.#state;
    if (before.name === 'closed') return;
    if (before.name === 'connecting') return this.#close(problem);
    // Section 6.8: a later one may take back streams, and says nothing new else.
    if (before.name === 'draining' && lastStreamId >= before.lastStreamId) return;
    this.#state = { name: 'draining', pinger: before.pinger, lastStreamId };
    if (before.name === 'open') this.#events.retired();
    this.#releaseWaiting(problem);
    for (const stream of this.#streams.all()) {
      if (stream.id <= lastStreamId) {
        stream.leaving();
        continue;
      }
      this.#streams.delete(stream);
      stream.unprocessed(notProcessed(problem, stream.head));
    }
    if (this.#streams.size === 0) this.#close(problem);
  }

  /** The peer broke a rule that makes all that follows meaningless. */
  #fail(error: ConnectionError): void {
    this.writer.goAway(error.code);
    this.#close(`the peer broke a rule of HTTP/2: ${error.message} (${errorCodeName(error.code)})`, 'ProtocolError');
  }

  #close(problem: string, reason: Reason = 'ConnectionLost', cause?: unknown): void {
    const state = this.#state;
    if (state.name === 'closed') return;
    if (state.name === 'connecting') state.stopTimer();
    else state.pinger.stop();
    this.#reader.stop();
    this.writer.flush();
    this.#state = { name: 'closed' };
    this.#bytes?.close();
    this.#events.closed(problem, cause);
    this.#releaseWaiting(problem);
    for (const stream of this.#streams.all()) {
      stream.lost(connectionLost(problem, 'unknown', stream.head, reason));
    }
  }

  #releaseWaiting(problem: string): void {
    for (let stream = this.#streams.takeWaiting(); stream !== undefined; stream = this.#streams.takeWaiting()) {
      stream.unprocessed(connectionLost(problem, 'not-sent', stream.head));
    }
  }
}
