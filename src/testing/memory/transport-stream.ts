import { amended, type EtcdError } from '../../base/index.js';
import {
  decode,
  decodeResponse,
  encodeRequest,
  type Method,
  type OutgoingStream,
  responseTooLarge,
  type StreamHandler,
} from '../../wire/index.js';
import type { CancelableCall, RequestSink } from './service.js';

/** A call that has not ended yet. */
export interface OpenCall {
  /** Ends the call at both ends, because the connection is lost or the client is closed. */
  abort(error: EtcdError): void;
}

interface StreamContext {
  readonly endpoint: string;
  readonly maxRequestBytes: number;
  readonly maxReceiveBytes: number;
  /** Throws a `StatusError` if the server refuses to receive the request. */
  readonly check: (request: Uint8Array) => void;
  /** Converts an error of the server to the error that the client reports. */
  readonly errorOf: (error: unknown) => EtcdError;
  /** Sets whether the stream keeps the process alive. */
  readonly keepProcessAlive: (busy: boolean) => void;
  /** Called when the stream has ended for the client. */
  readonly released: () => void;
}

/**
 * A streaming call. Delivers responses in a microtask, so that the handler is never called while it sends a request.
 */
export class MemoryStream<Request, Response> implements OpenCall {
  readonly #method: Method<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  readonly #context: StreamContext;
  /**
   * The server's side of the stream. Undefined before the server has the call, and after the call has ended at the
   * server.
   */
  #sink: RequestSink<Request> | undefined;
  #serverCall: CancelableCall | undefined;
  /**
   * Requests that wait for the metadata, encoded. The last item is undefined if the client has half-closed the stream.
   */
  readonly #early: (Uint8Array | undefined)[] = [];
  /** Responses that the handler has not received yet, encoded. */
  readonly #responses: Uint8Array[] = [];
  /** The end of the stream, which follows the responses. */
  #end: { readonly error: EtcdError | undefined } | undefined;
  #paused = false;
  #scheduled = false;
  #halfClosed = false;
  /** Whether the stream has ended for the client, so that nothing may call the handler. */
  #over = false;

  constructor(method: Method<Request, Response>, handler: StreamHandler<Response>, context: StreamContext) {
    this.#method = method;
    this.#handler = handler;
    this.#context = context;
  }

  get outgoing(): OutgoingStream<Request> {
    return {
      send: (message) => this.#send(encodeRequest(this.#method, message, this.#context.maxRequestBytes)),
      end: () => this.#send(undefined),
      cancel: () => this.#cancel(),
      pause: () => {
        this.#paused = true;
      },
      resume: () => {
        this.#paused = false;
        this.#deliverSoon();
      },
      keepProcessAlive: (busy) => this.#context.keepProcessAlive(busy),
    };
  }

  /**
   * Connects the stream with the handler of the server, which receives the requests that the client has sent. If the
   * stream has already ended, cancels the call at the server instead.
   */
  start(serverCall: CancelableCall, sink: RequestSink<Request>): void {
    if (this.#over || this.#end !== undefined) {
      serverCall.cancel();
      return sink.canceled();
    }
    this.#serverCall = serverCall;
    this.#sink = sink;
    for (const request of this.#early.splice(0)) this.#forward(request);
  }

  /** Called when the server sends a response. */
  respond(bytes: Uint8Array): void {
    if (this.#over || this.#end !== undefined) return;
    this.#responses.push(bytes);
    this.#deliverSoon();
  }

  /** Ends the stream for the client after all responses: with an error, or with status OK if `error` is undefined. */
  endAfterResponses(error: EtcdError | undefined): void {
    if (this.#over || this.#end !== undefined) return;
    this.#sink = undefined;
    this.#end = { error };
    this.#deliverSoon();
  }

  abort(error: EtcdError): void {
    if (this.#over || this.#end !== undefined) return;
    this.#endAtServer();
    this.endAfterResponses(amended(error, { method: this.#method.path }));
  }

  #send(request: Uint8Array | undefined): void {
    if (this.#over || this.#halfClosed) return;
    this.#halfClosed = request === undefined;
    if (this.#sink === undefined && this.#end === undefined) this.#early.push(request);
    else this.#forward(request);
  }

  #forward(request: Uint8Array | undefined): void {
    if (request === undefined) return this.#sink?.halfClosed();
    try {
      this.#context.check(request);
    } catch (error) {
      this.#endAtServer();
      return this.endAfterResponses(this.#context.errorOf(error));
    }
    this.#sink?.message(decode(this.#method.request, request));
  }

  #cancel(): void {
    if (this.#over) return;
    this.#endAtServer();
    this.#finish();
  }

  /** Cancels the call at the server. */
  #endAtServer(): void {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#serverCall?.cancel();
    sink?.canceled();
  }

  /** Ends the stream for the client without calling the handler. */
  #finish(): void {
    this.#over = true;
    this.#responses.length = 0;
    this.#context.released();
  }

  #deliverSoon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    while (!this.#over && !this.#paused) {
      const bytes = this.#responses.shift();
      if (bytes === undefined) break;
      this.#receive(bytes);
    }
    if (this.#over || this.#paused || this.#end === undefined) return;
    const { error } = this.#end;
    this.#finish();
    this.#handler.end(error);
  }

  #receive(bytes: Uint8Array): void {
    const { endpoint, maxReceiveBytes } = this.#context;
    const context = { method: this.#method.path, endpoint };
    if (bytes.length <= maxReceiveBytes) return this.#handler.message(decodeResponse(this.#method, endpoint, bytes));
    this.#endAtServer();
    this.#finish();
    this.#handler.end(responseTooLarge(bytes.length, maxReceiveBytes, context));
  }
}
