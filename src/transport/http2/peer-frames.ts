import { ConnectionError, ErrorCode, errorCodeName, StreamError } from './error-code.js';
import type { FrameEvents } from './frame-parser.js';
import type { FrameWriter } from './frame-writer.js';
import type { PeerLimits } from './peer-limits.js';
import type { Pinger } from './pinger.js';
import { ReceiveWindow } from './receive-window.js';
import type { RequestHeaders } from './request-headers.js';
import { ResponseHeaders } from './response-headers.js';
import { badAnswer } from './response-status.js';
import type { SendFlow } from './send-flow.js';
import { applySettings, CONNECTION_WINDOW_BYTES, MAX_HEADER_LIST_BYTES, type PeerSettings } from './settings.js';
import type { Http2Stream } from './stream.js';
import type { StreamTable } from './stream-table.js';

/** What the frames of the peer concern in a connection. */
export interface FrameTargets {
  readonly streams: StreamTable;
  readonly settings: PeerSettings;
  readonly limits: PeerLimits;
  readonly requestHeaders: RequestHeaders;
  readonly writer: FrameWriter;
  readonly flow: SendFlow;
  readonly pinger: Pinger;
  /** The peer's settings hold from now on. */
  settled(): void;
  /** Takes no more streams; those above `lastStreamId` were not processed. */
  retire(lastStreamId: number, problem: string): void;
}

/** Does what the frames of the peer say. What breaks a rule of HTTP/2 ends its stream, or throws a ConnectionError. */
export class PeerFrames implements FrameEvents {
  readonly #targets: FrameTargets;
  readonly #window = new ReceiveWindow(CONNECTION_WINDOW_BYTES);
  readonly #responseHeaders = new ResponseHeaders(MAX_HEADER_LIST_BYTES);

  constructor(targets: FrameTargets) {
    this.#targets = targets;
  }

  data(streamId: number, bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void {
    const stream = this.#targets.streams.find(streamId, 'DATA');
    this.#targets.pinger.judgedAnew();
    if (!this.#window.receive(frameBytes)) {
      throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the connection allows');
    }
    const increment = this.#window.consume(frameBytes);
    if (increment > 0) this.#targets.writer.windowUpdate(0, increment);
    this.#targets.limits.data(start === end && !endStream);
    if (stream === undefined) return;
    if (start < end) this.#targets.limits.received();
    try {
      stream.data(bytes, start, end, frameBytes, endStream);
    } catch (error) {
      this.#endStream(stream, error);
    }
  }

  headers(streamId: number, bytes: Uint8Array, start: number, end: number, endStream: boolean): void {
    const stream = this.#targets.streams.find(streamId, 'HEADERS');
    this.#targets.pinger.judgedAnew();
    // Also where nobody wants them: they change the decoder's table.
    const fields = this.#responseHeaders.read(bytes, start, end);
    if (stream === undefined) return this.#targets.limits.lateHeaders(end - start);
    try {
      stream.headers(fields, endStream);
    } catch (error) {
      this.#endStream(stream, error);
    }
  }

  rstStream(streamId: number, code: number): void {
    const stream = this.#targets.streams.find(streamId, 'RST_STREAM');
    if (stream === undefined) this.#targets.limits.useless('RST_STREAM');
    else stream.reset(code);
  }

  settings(bytes: Uint8Array, start: number, end: number): void {
    this.#targets.limits.asked();
    const before = this.#targets.settings.initialWindowBytes;
    applySettings(this.#targets.settings, bytes, start, end, (tableBytes) =>
      this.#targets.requestHeaders.resizeTable(tableBytes),
    );
    const growth = this.#targets.settings.initialWindowBytes - before;
    // Ahead of any data that the change lets through: the peer counts with its old values up to here.
    this.#targets.writer.settingsAck();
    // Section 6.9.2: the change holds for the streams there are, too.
    if (growth !== 0) this.#targets.limits.windowsChanged(this.#targets.streams.size);
    for (const stream of growth === 0 ? [] : this.#targets.streams.all()) {
      try {
        stream.growWindow(growth);
      } catch (error) {
        if (!(error instanceof StreamError)) throw error;
        throw new ConnectionError(error.code, error.message);
      }
    }
    this.#targets.settled();
  }

  ping(first: number, second: number): void {
    this.#targets.limits.asked();
    this.#targets.writer.pingAck(first, second);
  }

  pingAck(_first: number, second: number): void {
    this.#targets.limits.useless('PING with ACK');
    this.#targets.pinger.acknowledged(second);
  }

  goAway(lastStreamId: number, code: number, debug: string): void {
    this.#targets.limits.goAway();
    const said = debug === '' ? '' : ` (${debug})`;
    this.#targets.retire(lastStreamId, `the peer ends the connection: GOAWAY, ${errorCodeName(code)}${said}`);
  }

  windowUpdate(streamId: number, increment: number): void {
    this.#targets.limits.useless('WINDOW_UPDATE');
    if (streamId === 0) return this.#targets.flow.grow(increment);
    const stream = this.#targets.streams.find(streamId, 'WINDOW_UPDATE');
    try {
      stream?.growWindow(increment);
    } catch (error) {
      this.#endStream(stream as Http2Stream, error);
    }
  }

  ignored(): void {
    this.#targets.limits.useless('ignored');
  }

  streamError(streamId: number, error: StreamError): void {
    const stream = this.#targets.streams.find(streamId, 'a wrong frame');
    if (stream !== undefined) this.#endStream(stream, error);
  }

  #endStream(stream: Http2Stream, error: unknown): void {
    if (!(error instanceof StreamError)) throw error;
    stream.fail(
      badAnswer(`the peer broke a rule of HTTP/2: ${error.message}`, 'ProtocolError', stream.head),
      error.code,
    );
  }
}
