import type { EtcdError } from '../../base/index.js';
import { MessageAssembler, type MessageReceiver, SendQueue } from '../messages.js';
import type { Metadata } from '../transport.js';
import { type PeerLimits, ReceiveWindow, type SendFlow } from './flow-control.js';
import { ErrorCode, StreamError } from './frame.js';
import type { FrameWriter } from './frame-writer.js';
import type { PeerStream } from './peer-frames.js';
import type { Pinger } from './pinger.js';
import {
  badResponse,
  checkFields,
  errorOfHeaders,
  errorOfReset,
  errorOfTrailers,
  type ResponseFields,
  responseHeadersTooLarge,
} from './response.js';
import type { Http2TransportOptions } from './settings.js';

/**
 * A request of at least this many bytes is large. While a large request is unanswered, a PING may wait behind the
 * request in the kernel or on the link.
 */
const LARGE_REQUEST_BYTES = 65_536;

/** The properties of a call that its stream needs. */
export interface StreamHead {
  readonly method: string;
  readonly endpoint: string;
  /** The metadata of the call. The call sets it before the stream opens. */
  metadata: Metadata | undefined;
  /** The deadline on the monotonic clock. Infinity for a call without a deadline. */
  readonly deadline: number;
  readonly maxReceiveBytes: number;
  /** The receiver gets a message longer than this in pieces. Default: the receiver gets every message whole. */
  readonly pieceBytes?: number | undefined;
  /**
   * The encoded request of a unary call. When the connection opens the stream, it sends this request and half-closes
   * the stream.
   */
  readonly request?: Uint8Array | undefined;
  /** Whether the stream opens before the other streams that wait on its connection. */
  readonly urgent?: boolean | undefined;
}

/** The call that a stream carries. It receives the messages and the end of the stream. Its methods must not throw. */
export interface StreamReceiver extends MessageReceiver {
  /**
   * Returns whether the call still needs the stream, just before the stream opens. `now` is on the monotonic clock. A
   * call whose deadline has passed or whose signal has aborted ends here with outcome `not-sent`, even if its timer is
   * late.
   */
  mayOpen?(now: number): boolean;
  /** The stream is open, and its HEADERS frame is written. */
  opened?(): void;
  /**
   * The stream has ended, with status OK if `error` is undefined. Called at most once, and after all other methods. Not
   * called if the receiver cancels the stream.
   */
  ended(error: EtcdError | undefined): void;
  /**
   * The connection accepts no more streams, and the peer has not processed this stream. Another connection may carry
   * the call.
   */
  unprocessed(error: EtcdError): void;
  /** The connection will probably close soon: see `StreamHandler.leaving`. May be called more than once. */
  leaving?(): void;
}

/** The parts of a connection that its streams use. */
export interface StreamConnection {
  readonly options: Pick<Http2TransportOptions, 'windowBytes'>;
  readonly writer: FrameWriter;
  readonly flow: SendFlow;
  readonly limits: PeerLimits;
  readonly pinger: Pinger;
  /** The owner of an open stream is about to cancel the stream, because the peer has not answered in time. */
  unresponsive(): void;
  /** Sets whether the open stream lets the process exit. */
  setBackground(stream: Http2Stream, isBackground: boolean): void;
  released(stream: Http2Stream): void;
}

/**
 * The HTTP/2 stream of one call. The states are those of RFC 9113, section 5.1:
 *
 *               opened()               END_STREAM sent
 *        idle ────────────► open ───────────────────────► half-closed (local)
 *          │                  │                                    │
 *          │ cancel           │ END_STREAM received, RST_STREAM    │ END_STREAM received, RST_STREAM
 *          │                  │ sent or received, connection lost  │ sent or received, connection lost
 *          ▼                  ▼                                    ▼
 *       closed ◄──────────────┴────────────────────────────────────┘
 *
 * - idle: The stream has no identifier, and its messages wait in a queue. `Connection.open` opens the stream. Its doc
 *   comment lists what the stream may have to wait for.
 * - open: The client may send, and the peer may send.
 * - half-closed (local): The client has sent all its messages, and waits for the response.
 * - closed: The client sends no more frames. Received messages may still wait for a paused receiver.
 *
 * The state half-closed (remote) does not exist here, because the client resets the stream once the server has ended
 * its side. The reserved states do not exist, because server push is disabled.
 */
export class Http2Stream implements PeerStream<ResponseFields> {
  readonly head: StreamHead;
  /** The connection that will open or has opened the stream. The connection sets this property. */
  connection: StreamConnection | undefined;
  /** The stream identifier, or 0 while the stream is idle. */
  id = 0;
  /** When the stream opened, in milliseconds on the monotonic clock. */
  openedAt = 0;
  sendWindowBytes = 0;
  #state: 'idle' | 'open' | 'half-closed (local)' | 'closed' = 'idle';
  readonly receiver: StreamReceiver;
  readonly #assembler: MessageAssembler;
  /** Undefined until data arrives. */
  #window: ReceiveWindow | undefined;
  readonly #queue = new SendQueue();
  /** Whether the response headers have arrived. If so, the next HEADERS frame contains the trailers. */
  #hasHeaders = false;
  /** The number of data bytes that are still missing according to `content-length`. Undefined without that field. */
  #missingBytes: number | undefined;
  /** The end of the stream, while the receiver has not taken all messages yet. Undefined otherwise. */
  #pendingEnd: { readonly error: EtcdError | undefined } | undefined;
  /** Whether the stream lets the process exit. */
  #isBackground = false;
  /** Whether the stream has notified the receiver of the end, or the receiver has canceled the stream. */
  #ended = false;

  constructor(head: StreamHead, receiver: StreamReceiver) {
    this.head = head;
    this.receiver = receiver;
    this.#assembler = new MessageAssembler(head.maxReceiveBytes, receiver, head.pieceBytes);
  }

  /** The length of the request in bytes if the request is large, and 0 otherwise. */
  get largeRequestBytes(): number {
    const length = this.head.request?.length ?? 0;
    return length < LARGE_REQUEST_BYTES ? 0 : length;
  }

  /** Whether the stream has been opened, so that the peer may have received its request. */
  get wasOpened(): boolean {
    return this.id !== 0;
  }

  /** Sends a message as soon as the windows allow. */
  send(message: Uint8Array): void {
    if (this.take(message, false)) this.connection?.writer.message(this.id, message, false);
  }

  /**
   * Returns true if the caller must write the message now, in one DATA frame. Otherwise, queues the message, or
   * discards it if the stream has ended or accepts no more messages. If `last` is true, half-closes the stream after
   * the message.
   */
  take(message: Uint8Array, last: boolean): boolean {
    if (this.#ended || this.#queue.isComplete) return false;
    this.#queue.isComplete = last;
    if (this.#state === 'open' && !this.#queue.hasMessages && this.connection?.flow.take(this, message)) {
      if (last) this.#state = 'half-closed (local)';
      return true;
    }
    this.#queue.push(message);
    this.#sendQueued();
    return false;
  }

  /** Half-closes the stream after the queued messages. */
  end(): void {
    if (this.#ended || this.#queue.isComplete) return;
    this.#queue.isComplete = true;
    this.#sendQueued();
  }

  /** Resets the stream. Makes no further call to the receiver. */
  cancel(): void {
    this.#ended = true;
    this.#assembler.close();
    this.#reset(ErrorCode.CANCEL);
  }

  /** The call has timed out, and is about to cancel the stream. */
  expired(): void {
    if (this.#state === 'open' || this.#state === 'half-closed (local)') this.connection?.pinger.expired(this.openedAt);
  }

  /** Sets whether the stream keeps the process alive. */
  keepProcessAlive(busy: boolean): void {
    this.#isBackground = !busy;
    if (this.#state === 'open' || this.#state === 'half-closed (local)') this.connection?.setBackground(this, !busy);
  }

  pause(): void {
    this.#assembler.pause();
  }

  resume(): void {
    this.#consumed(this.#assembler.resume());
    if (this.#pendingEnd !== undefined) this.#end(this.#pendingEnd.error);
  }

  /** Resets the stream, and ends it with this error. Discards the messages that the receiver has not taken. */
  fail(error: EtcdError, code: ErrorCode = ErrorCode.CANCEL): void {
    this.#assembler.close();
    this.#reset(code);
    this.#end(error);
  }

  violated(error: StreamError): void {
    this.fail(badResponse(`HTTP/2 protocol error: ${error.message}`, 'ProtocolError', this.head), error.code);
  }

  resetByPeer(code: number): void {
    this.closedByPeer(errorOfReset(code, this.head));
  }

  /** The connection has written HEADERS. The request of a unary call follows. */
  opened(id: number, sendWindowBytes: number, now: number): void {
    this.id = id;
    this.openedAt = now;
    this.sendWindowBytes = sendWindowBytes;
    this.#state = 'open';
    if (this.#isBackground) this.connection?.setBackground(this, true);
    this.receiver.opened?.();
    if (this.head.request === undefined) this.#sendQueued();
  }

  /**
   * The stream cannot open on this connection, its HEADERS frame was never sent, or a GOAWAY frame says that the peer
   * has not processed the stream.
   */
  unprocessed(error: EtcdError): void {
    if (this.#state === 'closed') return;
    this.connection?.flow.forget(this);
    this.connection = undefined;
    // A stream that is still idle has sent none of its messages, so another connection can open it.
    if (this.wasOpened) this.#state = 'closed';
    this.receiver.unprocessed(error);
  }

  /** Handles a HEADERS frame from the peer. @throws StreamError if the frame violates the protocol. */
  headers(fields: ResponseFields, endStream: boolean): boolean {
    if (this.#state === 'closed') return false;
    checkFields(fields, this.#hasHeaders);
    const isInterim = fields.httpStatus !== undefined && fields.httpStatus < 200;
    if (fields.isTooLarge)
      this.fail(responseHeadersTooLarge('the response has header fields larger than 64 KiB', this.head));
    else if (!isInterim) this.#finalHeaders(fields, endStream);
    else if (endStream) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'an interim response that ends the stream');
    else return false;
    return true;
  }

  /** Handles the headers of the response, or the trailers. */
  #finalHeaders(fields: ResponseFields, endStream: boolean): void {
    if (this.#hasHeaders) {
      if (!endStream) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'trailers that do not end the stream');
      if ((this.#missingBytes ?? 0) !== 0) {
        throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'a content-length that is wrong');
      }
      return this.#endedByPeer(errorOfTrailers(fields, this.head));
    }
    if (endStream) {
      const error = fields.grpcStatus === undefined ? errorOfHeaders(fields, this.head) : undefined;
      return this.#endedByPeer(error ?? errorOfTrailers(fields, this.head));
    }
    this.#hasHeaders = true;
    this.#missingBytes = fields.contentLength;
    const error = errorOfHeaders(fields, this.head);
    if (error !== undefined) this.fail(error);
  }

  /**
   * Handles a DATA frame from the peer. `frameBytes` includes the padding, which counts against the window.
   *
   * @throws StreamError if the frame violates the protocol.
   */
  data(bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void {
    if (this.#state === 'closed') return;
    if (!this.#hasHeaders) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'DATA before HEADERS');
    this.#window ??= new ReceiveWindow((this.connection as StreamConnection).options.windowBytes);
    if (!this.#window.receive(frameBytes)) {
      throw new StreamError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the stream allows');
    }
    const padding = frameBytes - (end - start);
    if (this.#missingBytes !== undefined) this.#missingBytes -= end - start;
    this.#consumed(this.#assembler.receive(bytes, start, end) + padding);
    if (endStream) this.#endedByPeer(badResponse('the response ended without trailers', 'Other', this.head));
  }

  /**
   * The peer has reset the stream, or the connection is lost. The receiver still gets the messages that have arrived.
   */
  closedByPeer(error: EtcdError): void {
    if (this.#state === 'closed') return;
    this.#close();
    this.#end(error);
  }

  /** Sends one DATA frame of at most `maxBytes` from the queue. Returns whether another frame could follow. */
  sendFrame(maxBytes: number): boolean {
    const { connection } = this;
    if (this.#state !== 'open' || connection === undefined) return false;
    const frame = this.#queue.take(maxBytes);
    if (frame !== undefined) {
      connection.flow.sent(this, frame.bytes.length);
      connection.writer.data(this.id, frame.bytes, frame.endStream);
      if (frame.endStream) this.#state = 'half-closed (local)';
    }
    if (this.#queue.hasMessages) return frame !== undefined;
    connection.flow.forget(this);
    return false;
  }

  #sendQueued(): void {
    const { connection } = this;
    if (this.#state !== 'open' || connection === undefined) return;
    while (this.sendFrame(connection.flow.allowance(this)));
    if (this.#queue.hasMessages) connection.flow.wait(this);
  }

  /** Counts received bytes as consumed, and sends WINDOW_UPDATE if it is due. */
  #consumed(bytes: number): void {
    const increment = this.#state !== 'closed' && this.#window?.consume(bytes);
    if (increment) this.connection?.writer.windowUpdate(this.id, increment);
  }

  /**
   * Handles an END_STREAM flag from the peer. The peer reads no more messages, so the client resets the stream unless
   * the client has already half-closed it: RFC 9113, section 8.1.
   */
  #endedByPeer(error: EtcdError | undefined): void {
    if (this.#state === 'open') this.#reset(ErrorCode.CANCEL);
    else this.#close();
    this.#end(error);
  }

  /** Notifies the receiver of the end, after the receiver has taken all messages that have arrived. */
  #end(error: EtcdError | undefined): void {
    if (this.#assembler.hasPending) {
      this.#pendingEnd = { error };
      return;
    }
    if (this.#ended) return;
    this.#ended = true;
    const isTorn = error === undefined && this.#assembler.isMidMessage;
    this.receiver.ended(
      isTorn ? badResponse('the response ended within a message', 'MalformedMessage', this.head) : error,
    );
  }

  #reset(code: ErrorCode): void {
    if (this.#state === 'open' || this.#state === 'half-closed (local)') {
      this.connection?.writer.rstStream(this.id, code);
      this.connection?.limits.called();
    }
    this.#close();
  }

  #close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#queue.clear();
    this.connection?.flow.forget(this);
    this.connection?.released(this);
  }
}
