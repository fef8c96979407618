import type { EtcdError } from '../../errors/etcd-error.js';
import { responseTooLarge } from '../messages.js';
import type { Metadata } from '../transport.js';
import { ErrorCode, StreamError } from './error-code.js';
import { MAX_WINDOW_BYTES } from './frame.js';
import type { FrameWriter } from './frame-writer.js';
import { MessageAssembler, type Refusal } from './message-assembler.js';
import { MESSAGE_PREFIX_BYTES } from './message-prefix.js';
import { Outgoing } from './outgoing.js';
import { ReceiveWindow } from './receive-window.js';
import { checkFields, type ResponseFields } from './response-headers.js';
import { badAnswer, errorOfHeaders, errorOfReset, errorOfTrailers, headersTooLarge } from './response-status.js';
import type { SendFlow } from './send-flow.js';
import { STREAM_WINDOW_BYTES } from './settings.js';

/** What opens a stream. */
export interface StreamHead {
  readonly method: string;
  readonly endpoint: string;
  readonly metadata: Metadata | undefined;
  /** On the monotonic clock. */
  readonly deadline: number;
  readonly maxReceiveBytes: number;
  /** A unary call waits for its answer; a stream of messages may be silent for a long time. */
  readonly oneAnswer: boolean;
}

/** What becomes of a stream. No call of it may throw. */
export interface StreamReceiver {
  /**
   * The connection is about to open the stream; `now` is on the monotonic clock. Returns whether the call still wants
   * that. A call whose deadline has passed or whose signal has aborted ends here, not sent, even if its timer is late.
   */
  mayOpen?(now: number): boolean;
  /** The stream is open: its HEADERS are on their way. */
  sent(): void;
  /** The bytes of a message are there for the time of the call only. */
  message(bytes: Uint8Array, start: number, end: number): void;
  /** Comes once, last, if not `unprocessed` does: without an error for status OK. */
  end(error: EtcdError | undefined): void;
  /** The connection takes no more streams, and nothing was done for this one: it may be begun on another. */
  unprocessed(error: EtcdError): void;
  /** The connection takes no more streams, and this one goes on. May come more than once. */
  leaving?(): void;
}

/** What a stream needs of its connection. */
export interface StreamConnection {
  readonly writer: FrameWriter;
  readonly flow: SendFlow;
  /** The call of an open stream times out now. */
  expired(stream: Http2Stream): void;
  /** This side has reset an open stream. */
  resetSent(): void;
  /** The process is not kept alive for an idle stream. */
  setIdle(stream: Http2Stream, isIdle: boolean): void;
  /** The stream is closed, or was never opened. */
  released(stream: Http2Stream): void;
}

/** One call as a stream of HTTP/2: RFC 9113, section 5.1. Messages given before it is open wait here. */
export class Http2Stream {
  readonly head: StreamHead;
  readonly #receiver: StreamReceiver;
  readonly #assembler: MessageAssembler;
  readonly #window = new ReceiveWindow(STREAM_WINDOW_BYTES);
  #connection: StreamConnection | undefined;
  /** 0 until it is open. */
  id = 0;
  /** On the monotonic clock; 0 until it is open. */
  openedAt = 0;
  sendWindowBytes = 0;
  /** `local` and `remote`: that side has ended it. */
  #state: 'waiting' | 'open' | 'half-closed (local)' | 'closed' = 'waiting';
  readonly #outgoing = new Outgoing();
  #answered = false;
  /** Bytes of data that are still to come, where the peer has said how many. */
  #announcedBytes: number | undefined;
  /** Comes after the messages that nobody has wanted yet. */
  #heldEnd: { readonly error: EtcdError | undefined } | undefined;
  #isIdle = false;
  /** Nobody is to hear of it any more. */
  #over = false;

  constructor(head: StreamHead, receiver: StreamReceiver) {
    this.head = head;
    this.#receiver = receiver;
    this.#assembler = new MessageAssembler(head.maxReceiveBytes, this);
  }

  /** Whether the peer may have heard of it. */
  get opened(): boolean {
    return this.id !== 0;
  }

  // ——— what the call wants ———

  /** `last`: nothing more will be sent. */
  send(message: Uint8Array, last = false): void {
    if (this.#over || this.#outgoing.complete) return;
    if (last) this.#outgoing.end();
    const bytes = MESSAGE_PREFIX_BYTES + message.length;
    const connection = this.#connection;
    if (this.#state === 'open' && connection && !this.#outgoing.waiting && bytes <= connection.flow.allowance(this)) {
      connection.flow.sent(this, bytes);
      connection.writer.message(this.id, message, last);
      if (last) this.#state = 'half-closed (local)';
      return;
    }
    this.#outgoing.push(message);
    this.#sendWaiting();
  }

  /** Half-close, after what waits. */
  end(): void {
    if (this.#over || this.#outgoing.complete) return;
    this.#outgoing.end();
    this.#sendWaiting();
  }

  /** Ends it on both sides; nobody hears of it any more. */
  cancel(): void {
    this.#over = true;
    this.#assembler.close();
    this.#reset(ErrorCode.CANCEL);
  }

  /** The call times out, and cancels the stream next. */
  expired(): void {
    if (this.opened && this.#state !== 'closed') this.#connection?.expired(this);
  }

  /** Whether the process is kept alive for it. */
  hold(busy: boolean): void {
    this.#isIdle = !busy;
    if (this.#state === 'open' || this.#state === 'half-closed (local)') this.#connection?.setIdle(this, !busy);
  }

  pause(): void {
    this.#assembler.pause();
  }

  resume(): void {
    this.#consumed(this.#assembler.resume());
    if (this.#heldEnd !== undefined && !this.#assembler.pending) this.#deliverEnd(this.#heldEnd.error);
  }

  /** Ends it with this error, whatever was still to be read. */
  fail(error: EtcdError, code: ErrorCode = ErrorCode.CANCEL): void {
    this.#assembler.close();
    this.#reset(code);
    this.#deliverEnd(error);
  }

  // ——— what the connection tells ———

  /** Its connection will open it when there is room. */
  attach(connection: StreamConnection): void {
    this.#connection = connection;
  }

  /** Whether the call still wants the stream; `now` is on the monotonic clock. */
  mayOpen(now: number): boolean {
    return this.#receiver.mayOpen?.(now) ?? true;
  }

  open(id: number, sendWindowBytes: number, now: number): void {
    this.id = id;
    this.openedAt = now;
    this.sendWindowBytes = sendWindowBytes;
    this.#state = 'open';
    if (this.#isIdle) this.#connection?.setIdle(this, true);
    this.#receiver.sent();
    // The usual request fits into one frame: no need to wait for a turn.
    this.#sendWaiting();
  }

  /** The peer takes no more streams, and finishes this one. */
  leaving(): void {
    this.#receiver.leaving?.();
  }

  /** Not opened, or the peer vouches that it was not processed. */
  unprocessed(error: EtcdError): void {
    if (this.#state === 'closed') return;
    this.#connection?.flow.forget(this);
    this.#connection = undefined;
    // What was never opened can be: all of it is still here.
    if (this.opened) this.#state = 'closed';
    this.#receiver.unprocessed(error);
  }

  /** @throws StreamError */
  headers(fields: ResponseFields, endStream: boolean): void {
    if (this.#state === 'closed') return;
    checkFields(fields, this.#answered);
    if (fields.tooLarge) return this.fail(headersTooLarge('header fields larger than 64 KiB', 'unknown', this.head));
    if (this.#answered) {
      if (!endStream) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'trailers that do not end the stream');
      if ((this.#announcedBytes ?? 0) !== 0) {
        throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'a content-length that is not the length of the data');
      }
      return this.#remoteEnd(errorOfTrailers(fields, this.head));
    }
    const interim = (fields.httpStatus as number) < 200;
    if (endStream) {
      if (interim) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'an interim answer that ends the stream');
      const error = fields.grpcStatus === undefined ? errorOfHeaders(fields, this.head) : undefined;
      return this.#remoteEnd(error ?? errorOfTrailers(fields, this.head));
    }
    if (interim) return;
    this.#answered = true;
    this.#announcedBytes = fields.contentLength;
    const error = errorOfHeaders(fields, this.head);
    if (error !== undefined) this.fail(error);
  }

  /** @throws StreamError */
  data(bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void {
    if (this.#state === 'closed') return;
    if (!this.#answered) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'DATA before HEADERS');
    if (!this.#window.receive(frameBytes)) {
      throw new StreamError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the stream allows');
    }
    const padding = frameBytes - (end - start);
    if (this.#announcedBytes !== undefined) this.#announcedBytes -= end - start;
    this.#consumed(this.#assembler.receive(bytes, start, end) + padding);
    if (endStream) this.#remoteEnd(badAnswer('the answer ended without trailers', 'Other', this.head));
  }

  reset(code: number): void {
    if (this.#state === 'closed') return;
    this.#close();
    this.#endWith(errorOfReset(code, this.head));
  }

  /** @throws StreamError where the window grows beyond what the protocol knows. */
  growWindow(increment: number): void {
    this.sendWindowBytes += increment;
    if (this.sendWindowBytes > MAX_WINDOW_BYTES) {
      throw new StreamError(ErrorCode.FLOW_CONTROL_ERROR, 'a window of the stream beyond 2^31 - 1');
    }
    if (!this.#outgoing.waiting) return;
    this.#connection?.flow.wait(this);
    this.#connection?.flow.pump();
  }

  /** The connection is gone; what was read before can still be had. */
  lost(error: EtcdError): void {
    if (this.#state === 'closed') return;
    this.#close();
    this.#endWith(error);
  }

  // ——— sending ———

  sendFrame(maxBytes: number): boolean {
    const connection = this.#connection;
    if (this.#state !== 'open' || connection === undefined) return false;
    const frame = this.#outgoing.take(maxBytes);
    if (frame !== undefined) {
      connection.flow.sent(this, frame.bytes.length);
      connection.writer.data(this.id, frame.bytes, frame.endStream);
      if (frame.endStream) this.#state = 'half-closed (local)';
    }
    if (this.#outgoing.waiting) return frame !== undefined;
    connection.flow.forget(this);
    return false;
  }

  #sendWaiting(): void {
    const connection = this.#connection;
    if (this.#state !== 'open' || connection === undefined) return;
    while (this.sendFrame(connection.flow.allowance(this)));
    if (this.#outgoing.waiting) connection.flow.wait(this);
  }

  // ——— receiving ———

  /** @internal Called by the assembler. */
  message(bytes: Uint8Array, start: number, end: number): void {
    this.#receiver.message(bytes, start, end);
  }

  /** @internal Called by the assembler. */
  refused(why: Refusal, length: number): void {
    if (why === 'too large') return this.fail(responseTooLarge(length, this.head.maxReceiveBytes, this.head));
    const problem = why === 'compressed' ? 'a compressed message, which nobody asked for' : 'no gRPC message';
    this.fail(badAnswer(problem, 'MalformedMessage', this.head));
  }

  #consumed(bytes: number): void {
    if (this.#state === 'closed') return;
    const increment = this.#window.consume(bytes);
    if (increment > 0) this.#connection?.writer.windowUpdate(this.id, increment);
  }

  /** The peer has ended its side. */
  #remoteEnd(error: EtcdError | undefined): void {
    // It wants nothing more from this side either: RFC 9113, section 8.1.
    if (this.#state === 'open') this.#reset(ErrorCode.CANCEL);
    else this.#close();
    this.#endWith(error);
  }

  #endWith(error: EtcdError | undefined): void {
    if (this.#assembler.pending) this.#heldEnd = { error };
    else this.#deliverEnd(error);
  }

  #deliverEnd(error: EtcdError | undefined): void {
    if (this.#over) return;
    this.#over = true;
    const torn = error === undefined && this.#assembler.midMessage;
    this.#receiver.end(torn ? badAnswer('the answer ended within a message', 'MalformedMessage', this.head) : error);
  }

  #reset(code: ErrorCode): void {
    if (this.#state === 'open' || this.#state === 'half-closed (local)') {
      this.#connection?.writer.rstStream(this.id, code);
      this.#connection?.resetSent();
    }
    this.#close();
  }

  #close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#outgoing.clear();
    this.#connection?.flow.forget(this);
    this.#connection?.released(this);
  }
}
