import {
  amended,
  canceled,
  clientClosed,
  type EtcdError,
  type Expiring,
  monotonicMs,
  type Outcome,
  onAbort,
  timedOut,
} from '../../base/index.js';
import type { Endpoint } from '../../host/index.js';
import { decodeResponse, encodeRequest, responseTooLarge } from '../messages.js';
import type { Method } from '../protobuf/schema.js';
import type { Init } from '../protobuf/writer.js';
import type { Metadata, OutgoingStream, StreamCall, StreamHandler, UnaryCall } from '../transport.js';
import type { Connection } from './connection.js';
import { badResponse } from './response.js';
import type { Http2TransportOptions } from './settings.js';
import { Http2Stream, type StreamHead, type StreamReceiver } from './stream.js';

/** Maximum number of attempts of a call on one endpoint. The channel layer may then try another endpoint. */
const MAX_ATTEMPTS = 4;
/**
 * If a call has `ofPiece`, the client decodes a response of more than this many bytes in pieces, and with a smaller
 * window, in pieces of the size of the window. Decoding one piece blocks the event loop for a few milliseconds.
 */
const PIECE_BYTES = 256 * 1024;

export interface ClientCall extends Expiring {
  /** Ends the call with reason `ClientClosed`. */
  close(): void;
}

/** The part of the transport that a call uses. */
export interface CallOwner {
  readonly endpoint: Endpoint;
  readonly options: Http2TransportOptions;
  /** The connection for new calls. Reading this property dials if there is no such connection. */
  readonly connection: Connection;
  /** See `Connection.crowded`. */
  readonly crowded: string | undefined;
  /** The call has ended. */
  ended(call: ClientCall): void;
}

export class UnaryClientCall<Request, Response> implements StreamReceiver, ClientCall {
  slot = -1;
  readonly #call: UnaryCall<Request, Response>;
  readonly #head: StreamHead;
  readonly #owner: CallOwner;
  /** Settles `response`. There is no function that rejects it, because thousands of calls may be waiting. */
  #settle!: (response: Response | Promise<never>) => void;
  readonly response = new Promise<Response>((resolve) => {
    this.#settle = resolve;
  });
  readonly #offAbort: (() => void) | undefined;
  /** Undefined before the first attempt. */
  #stream: Http2Stream | undefined;
  #attempts = 0;
  #message: Response | undefined;
  #ended = false;

  constructor(call: UnaryCall<Request, Response>, request: Uint8Array, owner: CallOwner) {
    this.#call = call;
    this.#owner = owner;
    const { method, metadata, deadline, signal, urgent } = call;
    const { maxReceiveBytes } = owner.options;
    const { url: endpoint } = owner.endpoint;
    this.#head = { method: method.path, endpoint, metadata, deadline, maxReceiveBytes, request, urgent };
    if (signal !== undefined) this.#offAbort = onAbort(signal, () => this.#abort());
  }

  get deadline(): number {
    return this.#call.deadline;
  }

  /** Begins an attempt, and returns its stream, which the caller opens. */
  attempt(): Http2Stream {
    this.#attempts += 1;
    this.#stream = new Http2Stream(this.#head, this);
    return this.#stream;
  }

  mayOpen(now: number): boolean {
    if (this.#call.signal?.aborted) this.#abort();
    else if (now >= this.deadline) this.expire();
    return !this.#ended;
  }

  opened(): void {
    this.#call.observer?.sent?.();
  }

  message(bytes: Uint8Array, start: number, end: number): void {
    if (this.#message !== undefined) {
      const problem = 'the response contains a second message';
      return this.#stream?.fail(badResponse(problem, 'MalformedMessage', this.#head));
    }
    try {
      this.#message = decodeResponse(this.#call.method, this.#head.endpoint, bytes, start, end);
    } catch (malformed) {
      this.#stream?.fail(malformed as EtcdError);
    }
  }

  refused(flag: number, length: number): void {
    this.#stream?.fail(unreadableMessage(flag, length, this.#head));
  }

  ended(error: EtcdError | undefined): void {
    // The server receives the timeout with the call (grpc-timeout), and may end the call just before this client does.
    // Therefore report a Canceled or DeadlineExceeded status that arrives after the deadline as a timeout.
    const isLate = error?.code === 'Canceled' || error?.code === 'DeadlineExceeded';
    if (isLate && error.outcome === 'unknown' && monotonicMs() >= this.deadline) return this.expire();
    if (error !== undefined) return this.#fail(error);
    const message = this.#message;
    if (message === undefined)
      return this.#fail(badResponse('the server sent status OK without a message', 'MalformedMessage', this.#head));
    if (this.#finish()) this.#settle(message);
  }

  unprocessed(error: EtcdError): void {
    if (this.#ended) return;
    if (this.#attempts >= MAX_ATTEMPTS) this.#fail(error);
    else this.#owner.connection.open(this.attempt());
  }

  expire(): void {
    this.#stream?.expired();
    const error = timedOut('call', this.#call.timeoutMs, this.#outcome, this.#head.method);
    const { crowded } = this.#owner;
    const isWaiting = crowded !== undefined && !this.#stream?.wasOpened;
    this.#cancel(isWaiting ? amended(error, {}, `${error.problem}; ${crowded}`) : error);
  }

  close(): void {
    this.#cancel(clientClosed(this.#outcome, this.#head.method));
  }

  #abort(): void {
    this.#cancel(canceled(this.#call.signal as AbortSignal, this.#outcome, this.#head.method));
  }

  #cancel(error: EtcdError): void {
    this.#fail(error);
    this.#stream?.cancel();
  }

  #fail(error: EtcdError): void {
    if (this.#finish()) this.#settle(Promise.reject(error));
  }

  /** Marks the call as ended. Returns false if the call had already ended. */
  #finish(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#offAbort?.();
    this.#owner.ended(this);
    return true;
  }

  get #outcome(): Outcome {
    return this.#stream?.wasOpened ? 'unknown' : 'not-sent';
  }
}

/** A call with a stream of messages in one or both directions. Such a call has no deadline. */
export class StreamingClientCall<Request, Response> implements OutgoingStream<Request>, StreamReceiver, ClientCall {
  slot = -1;
  readonly deadline = Number.POSITIVE_INFINITY;
  readonly #method: Method<Request, Response>;
  readonly #ofPiece: StreamCall<Request, Response>['ofPiece'];
  readonly #owner: CallOwner;
  readonly #handler: StreamHandler<Response>;
  /** The first piece of the response that is arriving in pieces. */
  #firstPiece: Response | undefined;
  /**
   * The stream of every attempt. After the stream has opened, the call makes no further attempt, because the client
   * does not keep the messages that it has sent.
   */
  readonly #stream: Http2Stream;
  #attempts = 0;
  #halfClosed = false;
  #ended = false;

  constructor(call: StreamCall<Request, Response>, owner: CallOwner, handler: StreamHandler<Response>) {
    this.#method = call.method;
    this.#ofPiece = call.ofPiece;
    this.#owner = owner;
    this.#handler = handler;
    const head = {
      method: call.method.path,
      endpoint: owner.endpoint.url,
      metadata: undefined,
      deadline: this.deadline,
      maxReceiveBytes: owner.options.maxReceiveBytes,
      pieceBytes: call.ofPiece && Math.min(PIECE_BYTES, owner.options.windowBytes),
      // The stream may renew leases, and a lease may expire while the stream waits.
      urgent: true,
    };
    this.#stream = new Http2Stream(head, this);
  }

  /** Makes the first attempt. Until then, the caller's messages wait in the stream's queue. */
  start(metadata: Metadata | undefined): void {
    if (this.#ended) return;
    this.#stream.head.metadata = metadata;
    this.#attempt();
  }

  #attempt(): void {
    this.#attempts += 1;
    this.#owner.connection.open(this.#stream);
  }

  send(message: Init<Request>): void {
    if (this.#ended || this.#halfClosed) return;
    this.#stream.send(encodeRequest(this.#method, message, this.#owner.options.maxRequestBytes));
  }

  end(): void {
    this.#halfClosed = true;
    this.#stream.end();
  }

  cancel(why?: 'unresponsive' | 'unauthenticated'): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#owner.ended(this);
    if (why === 'unresponsive') this.#stream.connection?.unresponsive();
    this.#stream.cancel();
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  keepProcessAlive(busy: boolean): void {
    this.#stream.keepProcessAlive(busy);
  }

  message(bytes: Uint8Array, start: number, end: number): void {
    this.#receive(bytes, start, end, (message) => message);
  }

  piece(bytes: Uint8Array, start: number, end: number, isLast: boolean): void {
    this.#receive(bytes, start, end, (piece) => {
      const first = this.#firstPiece ?? piece;
      this.#firstPiece = isLast ? undefined : first;
      return this.#ofPiece?.(piece, first, isLast) ?? piece;
    });
  }

  #receive(bytes: Uint8Array, start: number, end: number, completed: (decoded: Response) => Response): void {
    if (this.#ended) return;
    let message: Response;
    try {
      message = completed(decodeResponse(this.#method, this.#owner.endpoint.url, bytes, start, end));
    } catch (malformed) {
      return this.#stream.fail(malformed as EtcdError);
    }
    this.#handler.message(message);
  }

  refused(flag: number, length: number): void {
    this.#stream.fail(unreadableMessage(flag, length, this.#stream.head));
  }

  ended(error: EtcdError | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#owner.ended(this);
    this.#handler.end(error);
  }

  unprocessed(error: EtcdError): void {
    if (this.#stream.wasOpened || this.#attempts >= MAX_ATTEMPTS) this.ended(error);
    else if (!this.#ended) this.#attempt();
  }

  leaving(): void {
    if (!this.#ended) this.#handler.leaving?.();
  }

  /** Never called: a streaming call has no deadline. */
  expire(): void {}

  close(): void {
    this.fail(clientClosed(this.#stream.wasOpened ? 'unknown' : 'not-sent'));
  }

  fail(error: EtcdError): void {
    this.#stream.cancel();
    this.ended(error);
  }
}

function unreadableMessage(flag: number, length: number, head: StreamHead): EtcdError {
  if (flag === 0) return responseTooLarge(length, head.maxReceiveBytes, head);
  const compressed = 'the response contains a compressed message, which the client does not accept';
  return badResponse(
    flag === 1 ? compressed : 'the response contains bytes that are not a gRPC message',
    'MalformedMessage',
    head,
  );
}
