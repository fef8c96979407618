import type { StatusCode } from '../../base/index.js';
import {
  decode,
  ErrorCode,
  encode,
  type FixedFields,
  Flag,
  type FrameWriter,
  type HpackEncoder,
  type Init,
  MessageAssembler,
  type MessageReceiver,
  type Metadata,
  type PeerLimits,
  type PeerSettings,
  type PeerStream,
  ReceiveWindow,
  type SendFlow,
  SendQueue,
  STREAM_WINDOW_BYTES,
  StreamError,
} from '../../wire/index.js';
import type { Clock } from '../memory/clock.js';
import {
  CancelableCall,
  type RequestSink,
  type ResponseStream,
  type Route,
  type Service,
  StatusError,
  statusOfHandler,
  type UnaryRoute,
} from '../memory/service.js';
import type { PingPolicy } from './ping-policy.js';
import type { RequestFields } from './request.js';
import { HEADERS, messageBytes, messageField, trailers } from './response-headers.js';

/** The settings of a server, with all defaults filled in. */
export interface ConnectionSettings {
  readonly service: Service;
  readonly clock: Clock;
  readonly maxConcurrentStreams: number;
  /** Maximum size of a request in bytes. */
  readonly maxReceiveBytes: number;
  readonly minPingIntervalMs: number;
}

/** The parts of a connection that its streams use. */
export interface StreamConnection {
  /** The URL of the endpoint at which the connection arrived. */
  readonly endpoint: string;
  /** The settings of the server. */
  readonly own: ConnectionSettings;
  /** The settings of the client. */
  readonly settings: PeerSettings;
  readonly limits: PeerLimits;
  readonly encoder: HpackEncoder;
  readonly pings: PingPolicy;
  readonly writer: FrameWriter;
  readonly flow: SendFlow;
  /** Whether the number of open streams is within the limit that the server has announced. */
  readonly hasRoom: boolean;
  /** Called when the stream is closed. */
  released(stream: ServerStream): void;
}

/**
 * The server's side of one stream: one call, from its headers to its trailers. The states are those of RFC 9113,
 * section 5.1:
 *
 *                          END_STREAM received
 *        open ──────────────────────────────────────► half-closed (remote)
 *          │ trailers sent, RST_STREAM sent or received,        │
 *          ▼ deadline passed, connection lost                   ▼
 *        closed ◄───────────────────────────────────────────────┘
 *
 * The state half-closed (local) does not exist here, because the server resets the stream if it has sent the trailers
 * before the client has half-closed.
 *
 * Messages that flow control holds back wait in a queue without a limit, as in etcd. The queue grows while a client has
 * an open watch and does not read its events.
 */
export class ServerStream implements PeerStream<RequestFields>, MessageReceiver, ResponseStream<unknown> {
  readonly id: number;
  sendWindowBytes: number;
  readonly #connection: StreamConnection;
  readonly #assembler: MessageAssembler;
  readonly #window = new ReceiveWindow(STREAM_WINDOW_BYTES);
  readonly #queue = new SendQueue();
  #route: Route | undefined;
  #call: CancelableCall | undefined;
  /** Receives the requests of a streaming call. Undefined before the call and after its end. */
  #sink: RequestSink<unknown> | undefined;
  /** The request of a unary or server-streaming call. */
  #request: { readonly message: unknown } | undefined;
  /** Cancels the timer of the deadline. */
  #stopTimer: (() => void) | undefined;
  #hasRequestHeaders = false;
  /**
   * `content-length` minus the number of data bytes that have arrived. Undefined if the client did not send the field.
   */
  #missingBytes: number | undefined;
  /** Whether the client has half-closed the stream. */
  #halfClosed = false;
  #sentHeaders = false;
  /** The status that follows the queued messages. */
  #status: { readonly code: StatusCode; readonly message: string } | undefined;
  #closed = false;

  constructor(id: number, connection: StreamConnection) {
    this.id = id;
    this.#connection = connection;
    this.sendWindowBytes = connection.settings.initialWindowBytes;
    this.#assembler = new MessageAssembler(connection.own.maxReceiveBytes, this);
  }

  /** Handles a HEADERS frame. @throws StreamError if the frame violates the protocol. */
  headers(fields: RequestFields, endStream: boolean): boolean {
    if (this.#halfClosed) throw new StreamError(ErrorCode.STREAM_CLOSED, 'HEADERS after END_STREAM');
    this.#halfClosed = endStream;
    if (!this.#hasRequestHeaders) this.#openCall(fields);
    else if (fields.malformedTrailers !== undefined) throw malformed(fields.malformedTrailers);
    else if (!endStream) throw malformed('trailers that do not end the stream');
    else this.#endOfRequests();
    return true;
  }

  /** Handles the request headers: refuses the call, or calls its handler. */
  #openCall(fields: RequestFields): void {
    this.#hasRequestHeaders = true;
    const { contentLength, encoding, metadata, path, rejection, timeoutMs } = fields;
    if (fields.isTooLarge) return this.#reset(ErrorCode.FRAME_SIZE_ERROR);
    if (fields.malformed !== undefined) throw malformed(fields.malformed);
    if (!this.#connection.hasRoom) return this.#reset(ErrorCode.REFUSED_STREAM);
    if (rejection !== undefined) return this.#sendTrailers(rejection.fields, rejection.message);
    if (timeoutMs <= 0) return this.#finish('DeadlineExceeded', 'context deadline exceeded');
    this.#missingBytes = contentLength;
    try {
      const route = this.#connection.own.service.find(path);
      if (encoding !== '' && encoding !== 'identity') {
        const problem = `grpc: Decompressor is not installed for grpc-encoding ${JSON.stringify(encoding)}`;
        throw new StatusError('Unimplemented', problem);
      }
      const call = new CancelableCall(metadata, this.#connection.endpoint);
      this.#route = route;
      this.#call = call;
      if (timeoutMs < Number.POSITIVE_INFINITY)
        this.#stopTimer = this.#connection.own.clock.after(timeoutMs, () => this.#expire());
      if ('streaming' in route) {
        const sink = route.streaming(this, call);
        // The handler may have ended the call already.
        if (!this.#closed && this.#status === undefined) this.#sink = sink;
      }
    } catch (error) {
      this.#fail(error);
    }
    if (this.#halfClosed) this.#endOfRequests();
  }

  /** Handles a DATA frame. @throws StreamError if the frame violates the protocol. */
  data(bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void {
    if (this.#halfClosed) throw new StreamError(ErrorCode.STREAM_CLOSED, 'DATA after END_STREAM');
    if (!this.#window.receive(frameBytes))
      throw new StreamError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the stream allows');
    if (this.#missingBytes !== undefined) this.#missingBytes -= end - start;
    this.#halfClosed = endStream;
    this.#assembler.receive(bytes, start, end);
    if (this.#closed) return;
    if (endStream) return this.#endOfRequests();
    // The handler receives each request at once, so all received data is consumed.
    const increment = this.#window.consume(frameBytes);
    if (increment > 0) this.#connection.writer.windowUpdate(this.id, increment);
  }

  /** Receives a whole request. */
  message(bytes: Uint8Array, start: number, end: number): void {
    const route = this.#route;
    // Ignores requests after the end of the call, and a second request of a unary call, which grpc-go does not read.
    if (route === undefined || this.#status !== undefined || ('unary' in route && this.#request !== undefined)) return;
    const { method } = route;
    let message: unknown;
    try {
      message = decode(method.request, bytes, start, end);
    } catch (error) {
      const text =
        'unary' in route ? 'grpc: error unmarshalling request' : 'grpc: failed to unmarshal the received message';
      return this.#finish('Internal', `${text}: ${(error as Error).message}`);
    }
    if (method.kind === 'bidi-streaming') return this.#toSink((sink) => sink.message(message));
    if (this.#request !== undefined)
      return this.#finish('Internal', cardinality('received multiple request messages for'));
    this.#request = { message };
    if ('unary' in route) this.#answer(route, message);
  }

  /** Refuses a request with the texts of grpc-go: `recvMsg` and `checkRecvPayload` in rpc_util.go. */
  refused(flag: number, length: number): void {
    const { maxReceiveBytes } = this.#connection.own;
    if (length > maxReceiveBytes)
      this.#finish('ResourceExhausted', `grpc: received message larger than max (${length} vs. ${maxReceiveBytes})`);
    else if (flag === 1) this.#finish('Internal', 'grpc: compressed flag set with identity or empty encoding');
    else this.#finish('Internal', `grpc: received unexpected payload format ${flag}`);
  }

  send(message: Init<unknown>): void {
    if (this.#closed || this.#status !== undefined || this.#route === undefined) return;
    this.#send(encode(this.#route.method.response, message));
  }

  end(error?: StatusError): void {
    this.#sink = undefined;
    if (error === undefined) this.#finish('OK', '');
    else this.#finish(error.code, error.message);
  }

  /** Sends one DATA frame of at most `maxBytes` from the queue. Returns whether another frame could follow. */
  sendFrame(maxBytes: number): boolean {
    const frame = this.#queue.take(maxBytes);
    if (frame === undefined) return false;
    const { flow, writer } = this.#connection;
    flow.sent(this, frame.bytes.length);
    writer.data(this.id, frame.bytes, false);
    if (this.#queue.hasMessages) return true;
    if (this.#status !== undefined) this.#sendStatus(this.#status.code, this.#status.message);
    return false;
  }

  violated(error: StreamError): void {
    this.#connection.limits.useless('malformed');
    this.#reset(error.code);
  }

  resetByPeer(_code: number): void {
    this.#connection.limits.useless('RST_STREAM');
    this.lost();
  }

  /**
   * Closes the stream and cancels the call, but sends no frame: one end has reset the stream, or the connection is
   * lost.
   */
  lost(): void {
    if (this.#closed) return;
    this.#close();
    this.#cancelCall();
  }

  /** Calls the handler of a unary method, and sends its response. */
  #answer(route: UnaryRoute, request: unknown): void {
    const respond = (response: Init<unknown>): void => {
      if (this.#closed) return;
      this.#send(encode(route.method.response, response));
      this.#finish('OK', '');
    };
    try {
      const response = route.unary(request, this.#call as CancelableCall);
      if (response instanceof Promise) response.then(respond).catch((error: unknown) => this.#fail(error));
      else respond(response);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Handles the end of the requests. The errors and texts are those of grpc-go. */
  #endOfRequests(): void {
    if (this.#missingBytes !== undefined && this.#missingBytes !== 0)
      throw malformed('a content-length that is not the length of the data');
    const route = this.#route;
    if (route === undefined || this.#closed) return;
    const isUnary = 'unary' in route;
    if (isUnary && this.#request !== undefined) return;
    if (this.#assembler.isMidMessage) return this.#finish(isUnary ? 'Unknown' : 'Internal', 'unexpected EOF');
    if (isUnary) return this.#finish('Unknown', 'EOF');
    if (route.method.kind === 'server-streaming') {
      if (this.#request === undefined) return this.#finish('Internal', cardinality('received no request message from'));
      const { message } = this.#request;
      this.#toSink((sink) => sink.message(message));
    }
    this.#toSink((sink) => sink.halfClosed());
  }

  /** Passes a request, or the end of the requests, to the handler of a streaming call. */
  #toSink(call: (sink: RequestSink<unknown>) => void): void {
    if (this.#sink === undefined) return;
    try {
      call(this.#sink);
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Ends the call with the status of a `StatusError`. Resets the stream for a `StreamError`, as proxies do. Any other
   * error is a defect of the handler, and ends the call with status `Internal`.
   */
  #fail(error: unknown): void {
    if (error instanceof StreamError) return this.#reset(error.code);
    const { code, message } = statusOfHandler(error);
    this.#finish(code, message);
  }

  /** Ends the call with a status, after the queued messages. */
  #finish(code: StatusCode, message: string): void {
    if (this.#closed || this.#status !== undefined) return;
    this.#assembler.close();
    if (this.#sink !== undefined) this.#cancelCall();
    if (!this.#queue.hasMessages) return this.#sendStatus(code, message);
    this.#status = { code, message };
  }

  /**
   * Cancels the call at the server. Notifies the handler of a streaming call, unless the handler has ended the call.
   */
  #cancelCall(): void {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#call?.cancel();
    sink?.canceled();
  }

  #send(message: Uint8Array): void {
    const { flow, writer } = this.#connection;
    if (!this.#sentHeaders) {
      this.#sentHeaders = true;
      if (!this.#sendHeaders(HEADERS, undefined, 0)) return;
    }
    if (!this.#queue.hasMessages && flow.take(this, message)) return writer.message(this.id, message, false);
    this.#queue.push(message);
    while (this.sendFrame(flow.allowance(this)));
    if (this.#queue.hasMessages) flow.wait(this);
  }

  #sendStatus(code: StatusCode, message: string): void {
    // A call that ends with a status was useful work, so `PeerLimits` excuses some useless frames of the client.
    this.#connection.limits.called();
    this.#sendTrailers(trailers(code, this.#sentHeaders), message);
  }

  #sendTrailers(fixed: FixedFields, message: string): void {
    if (!this.#sendHeaders(fixed, messageField(message), Flag.END_STREAM)) return;
    // The server does not need the rest of the request: RFC 9113, section 8.1.
    if (!this.#halfClosed) this.#connection.writer.rstStream(this.id, ErrorCode.NO_ERROR);
    this.#close();
  }

  /**
   * Sends HEADERS. Returns false, and resets the stream as grpc-go does, if the header list is larger than the client
   * accepts.
   */
  #sendHeaders(fixed: FixedFields, message: Metadata | undefined, flags: number): boolean {
    const { encoder, settings, writer, pings } = this.#connection;
    const bytes = fixed.listBytes + (message === undefined ? 0 : messageBytes(message));
    if (bytes > settings.maxHeaderListBytes) {
      this.#reset(ErrorCode.INTERNAL_ERROR);
      return false;
    }
    pings.sent();
    writer.headers(this.id, encoder.encode(fixed.fields), '', message, settings.maxFrameBytes, flags);
    return true;
  }

  /** Ends the call at its deadline. Like grpc-go, resets the stream and sends no status DeadlineExceeded. */
  #expire(): void {
    // `PeerLimits` excuses the frames that the client may already have sent on this stream.
    this.#connection.limits.called();
    this.#reset(ErrorCode.CANCEL);
  }

  #reset(code: ErrorCode): void {
    if (this.#closed) return;
    this.#connection.writer.rstStream(this.id, code);
    this.lost();
  }

  #close(): void {
    this.#closed = true;
    this.#stopTimer?.();
    this.#assembler.close();
    this.#queue.clear();
    this.#connection.flow.forget(this);
    this.#connection.released(this);
  }
}

function malformed(problem: string): StreamError {
  return new StreamError(ErrorCode.PROTOCOL_ERROR, problem);
}

function cardinality(problem: string): string {
  return `cardinality violation: ${problem} non-client-streaming RPC`;
}
