import type { Reason } from '../../errors/etcd-error.js';
import type { Endpoint } from '../../host/endpoint.js';
import type { ByteStream, OpenByteStream } from '../../host/host.js';
import { type TlsOptions, tlsForDial } from '../../host/tls.js';
import { plain } from '../../runtime/bytes.js';
import { after, monotonicMs } from '../../runtime/timers.js';
import type { TransportOptions } from '../transport.js';
import { ConnectionError, ErrorCode, errorCodeName } from './error-code.js';
import { MAX_STREAM_ID } from './frame.js';
import { FrameParser } from './frame-parser.js';
import { FrameReader } from './frame-reader.js';
import { FrameWriter } from './frame-writer.js';
import { PeerFrames } from './peer-frames.js';
import { PeerLimits } from './peer-limits.js';
import { Pinger } from './pinger.js';
import { grpcTimeout, RequestHeaders } from './request-headers.js';
import { connectionLost, headersTooLarge, notProcessed } from './response-status.js';
import { SendFlow } from './send-flow.js';
import { initialSettings } from './settings.js';
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
  | { readonly name: 'open' }
  /** By GOAWAY, for want of stream identifiers, or because the peer is silent: what is under way is finished. */
  | { readonly name: 'draining'; readonly lastStreamId: number }
  | { readonly name: 'closed' };

/** One HTTP/2 connection, client's side: RFC 9113. It owns the byte stream and every stream on it. */
export class Connection implements StreamConnection {
  readonly #events: ConnectionEvents;
  readonly #settings = initialSettings();
  readonly #limits = new PeerLimits();
  readonly #requestHeaders: RequestHeaders;
  readonly #reader: FrameReader;
  readonly #streams: StreamTable;
  readonly writer = new FrameWriter((parts) => this.#send(parts));
  readonly #pinger: Pinger;
  readonly flow = new SendFlow(this.#settings, (bytes) => {
    this.#limits.sent(bytes);
    this.#pinger.sent();
  });
  /** Undefined while it is not known what TLS is to use. */
  #bytes: ByteStream | undefined;
  /** The byte stream keeps the process alive; it does until the connection is open. */
  #holding = true;
  /** Open streams that do not keep the process alive. */
  readonly #idle = new Set<Http2Stream>();
  /** A microtask is queued that opens streams that wait. */
  #opening = false;
  #state: State;

  constructor(
    endpoint: Endpoint,
    options: TransportOptions,
    open: OpenByteStream,
    events: ConnectionEvents,
    firstStreamId: number,
  ) {
    this.#events = events;
    this.#streams = new StreamTable(firstStreamId);
    const { pingIntervalMs, pingTimeoutMs } = options;
    this.#pinger = new Pinger({
      intervalMs: pingIntervalMs,
      timeoutMs: pingTimeoutMs,
      ping: (opaque) => this.writer.ping(opaque),
      awaiting: () => this.#streams.all().some(({ head }) => head.oneAnswer),
      doubted: () => this.#drain(MAX_STREAM_ID, 'the peer is silent'),
      answered: () => this.#closeIfDrained(),
      lost: () => this.#close(`no answer to PING within pingTimeoutMs = ${pingTimeoutMs}`),
    });
    const authority = 'path' in endpoint.address ? 'localhost' : endpoint.url.replace(/^https?:\/\//, '');
    this.#requestHeaders = new RequestHeaders(endpoint.tls ? 'https' : 'http', authority);
    const frames = new PeerFrames({
      streams: this.#streams,
      settings: this.#settings,
      limits: this.#limits,
      requestHeaders: this.#requestHeaders,
      writer: this.writer,
      flow: this.flow,
      settled: () => this.#settled(),
      pinger: this.#pinger,
      retire: (lastStreamId, problem) => this.#retire(lastStreamId, problem),
    });
    this.#reader = new FrameReader(new FrameParser(frames));
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
    if (!this.#streams.hasWaiting && this.#hasRoom()) return this.#open(stream);
    this.#streams.wait(stream);
    this.#hold();
  }

  resetSent(): void {
    this.#limits.reset();
  }

  setIdle(stream: Http2Stream, isIdle: boolean): void {
    if (isIdle) this.#idle.add(stream);
    else this.#idle.delete(stream);
    this.#hold();
  }

  released(stream: Http2Stream): void {
    this.#idle.delete(stream);
    if (!this.#streams.delete(stream)) return this.#hold();
    this.#openWaitingSoon();
    if (this.#holding) this.#hold();
    if (this.#streams.size > 0) return;
    this.#pinger.busy(false);
    this.#closeIfDrained();
  }

  expired(stream: Http2Stream): void {
    this.#pinger.expired(stream.openedAt);
  }

  /** The peer is probably gone: it has left a probe without an answer, and nothing has been read since. */
  get doubtful(): boolean {
    return this.#pinger.doubtful;
  }

  /** Ends it, and what is under way on it, at once. */
  close(problem: string): void {
    if (this.#state.name === 'open') this.writer.goAway(ErrorCode.NO_ERROR);
    this.#close(problem);
  }

  /** Keeps the process alive for open streams and for those that wait for room, whose calls still have to end. */
  #hold(): void {
    const busy = this.#streams.size > this.#idle.size || this.#streams.hasWaiting;
    if (busy === this.#holding || (this.#state.name !== 'open' && this.#state.name !== 'draining')) return;
    this.#holding = busy;
    this.#bytes?.hold(busy);
  }

  /** The peer allows one more, and the byte stream takes more. */
  #hasRoom(): boolean {
    return this.#streams.size < this.#settings.maxConcurrentStreams && !this.flow.congested;
  }

  /**
   * Opens waiting streams after the current job has run to its end, because the same job may end them too: the client
   * closes, a signal aborts many calls, or many calls time out together. A call that such a job ends was not sent.
   */
  #openWaitingSoon(): void {
    if (this.#opening || !this.#streams.hasWaiting) return;
    this.#opening = true;
    queueMicrotask(() => {
      this.#opening = false;
      this.#openWaiting();
    });
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
    const now = monotonicMs();
    if (!stream.mayOpen(now)) return;
    const timeout = grpcTimeout(deadline - now);
    const { maxHeaderListBytes, initialWindowBytes, maxFrameBytes } = this.#settings;
    if (this.#requestHeaders.listBytes(method, timeout, metadata) > maxHeaderListBytes) {
      const problem = `the headers are larger than the server takes (SETTINGS_MAX_HEADER_LIST_SIZE = ${maxHeaderListBytes})`;
      return stream.fail(headersTooLarge(problem, 'not-sent', stream.head));
    }
    const id = this.#streams.add(stream);
    if (this.#streams.size === 1) this.#pinger.busy(true);
    if (!this.#holding) this.#hold();
    this.writer.headers(id, this.#requestHeaders.block(method), timeout, metadata, maxFrameBytes);
    this.#limits.opened();
    this.#pinger.sent();
    stream.open(id, initialWindowBytes, now);
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
    this.#pinger.heard();
    try {
      this.#reader.push(plain(bytes));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#fail(error);
    }
  }

  #dial(endpoint: Endpoint, tls: TlsOptions | undefined, open: OpenByteStream): void {
    if (this.#state.name === 'closed') return;
    this.#bytes = open(endpoint, tls, {
      opened: () => this.writer.preface(),
      read: (bytes) => this.#read(bytes),
      drained: () => this.#drained(),
      closed: (problem) => this.#close(problem ?? 'the peer closed the connection'),
    });
  }

  #settled(): void {
    if (this.#state.name !== 'connecting') return this.#openWaiting();
    this.#state.stopTimer();
    this.#state = { name: 'open' };
    this.#events.ready();
    this.#hold();
  }

  #retire(lastStreamId: number, problem: string): void {
    const before = this.#state;
    if (before.name === 'closed') return;
    if (before.name === 'connecting') return this.#close(problem);
    // Section 6.8: a later one may take back streams, and says nothing new else.
    if (before.name === 'draining' && lastStreamId >= before.lastStreamId) return;
    this.#drain(lastStreamId, problem);
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

  /** Takes no more streams. Those that wait for room go to another connection. */
  #drain(lastStreamId: number, problem: string): void {
    const before = this.#state.name;
    this.#state = { name: 'draining', lastStreamId };
    if (before === 'open') this.#events.retired();
    this.#releaseWaiting(problem);
    this.#closeIfDrained();
  }

  /** A doubtful connection without streams stays until its probe is answered or lost: it tells that the peer is suspect. */
  #closeIfDrained(): void {
    if (this.#state.name !== 'draining' || this.#streams.size > 0) return;
    if (!this.#pinger.probing || !this.#pinger.doubtful) this.#close('the connection takes no more calls');
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
    this.#pinger.stop();
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
