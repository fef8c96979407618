import { amended, canceled, clientClosed, EtcdError, timedOut } from '../../errors/etcd-error.js';
import { errorFromStatus } from '../../errors/status-error.js';
import type { Endpoint } from '../../host/endpoint.js';
import { decode, encode, type Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { ProcessHold } from '../../runtime/process-hold.js';
import { onAbort } from '../../runtime/signals.js';
import { at, monotonicMs } from '../../runtime/timers.js';
import { connectFailed } from '../../transport/connect-failed.js';
import { checkMetadata, decodeResponse, encodeRequest, responseTooLarge } from '../../transport/messages.js';
import type {
  EmbeddedTransportFactory,
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportOptions,
  UnaryCall,
} from '../../transport/transport.js';
import { checkServer, type MemoryEtcd } from './memory-etcd.js';
import {
  CancelableCall,
  checkMessageBytes,
  type RequestSink,
  type ServerCall,
  StatusError,
  streamingRoute,
  unaryRoute,
} from './service.js';

/**
 * Returns a transport that calls a server in this process. It encodes and decodes all messages, as for a network, so
 * the client and the server share no objects. It opens no byte stream, so a test with it covers neither HTTP/2 nor the
 * network. `memoryOverHttp2` covers HTTP/2, too.
 *
 * @example
 * const server = new MemoryEtcd();
 * const etcd = new Client({ transport: memory(server) });
 */
export function memory(server: MemoryEtcd): EmbeddedTransportFactory {
  checkServer(server);
  const factory = (endpoint: Endpoint, options: TransportOptions): Transport =>
    new MemoryTransport(server, endpoint, options);
  return Object.assign(factory, { endpoints: [server.endpoint] });
}

/** A call that has not ended yet. */
interface OpenCall {
  /** Ends the call at both ends, because the connection is lost or the client is closed. */
  abort(error: EtcdError): void;
}

class MemoryTransport implements Transport {
  readonly #server: MemoryEtcd;
  readonly #endpoint: Endpoint;
  readonly #options: TransportOptions;
  readonly #calls = new Set<OpenCall>();
  /** The calls that keep the process alive. */
  readonly #busy = new Set<OpenCall>();
  readonly #hold = new ProcessHold();
  /** Unregisters the connection at the server. Undefined if no connection is open. */
  #disconnect: (() => void) | undefined;
  #closed = false;

  constructor(server: MemoryEtcd, endpoint: Endpoint, options: TransportOptions) {
    this.#server = server;
    this.#endpoint = endpoint;
    this.#options = options;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { method, signal, metadata, deadline } = call;
      const request = encodeRequest(method, call.request, this.#options.maxRequestBytes);
      if (this.#closed) throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      this.#open(method.path);
      call.observer?.sent?.();
      const serverCall = new CancelableCall(metadata ?? {}, this.#endpoint.url);
      const answer = this.#answer(method, request, serverCall);
      if (!(answer instanceof Promise)) return resolve(this.#received(method, answer));
      const undos: (() => void)[] = [];
      const finish = (settle: () => void): void => {
        if (!this.#calls.has(open)) return;
        for (const undo of undos) undo();
        this.#remove(open);
        settle();
      };
      const fail = (error: EtcdError): void =>
        finish(() => {
          serverCall.cancel();
          reject(error);
        });
      const open: OpenCall = { abort: (error) => fail(amended(error, { method: method.path })) };
      this.#add(open);
      undos.push(at(deadline, () => fail(timedOut('call', call.timeoutMs, 'unknown', method.path))));
      if (signal !== undefined) undos.push(onAbort(signal, () => fail(canceled(signal, 'unknown', method.path))));
      answer.then(
        (response) => finish(() => settle(resolve, reject, () => this.#received(method, response))),
        (error: unknown) => finish(() => reject(this.#errorOf(error, method.path))),
      );
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const { method, metadata } = call;
    const stream = new MemoryStream(method, handler, {
      endpoint: this.#endpoint.url,
      maxRequestBytes: this.#options.maxRequestBytes,
      maxReceiveBytes: this.#options.maxReceiveBytes,
      check: (request) => checkMessageBytes(this.#server, request.length),
      errorOf: (error) => this.#errorOf(error, method.path),
      hold: (busy) => this.#setBusy(stream, busy),
      released: () => this.#remove(stream),
    });
    const start = (known: Metadata | undefined): void => {
      checkMetadata(known, method.path);
      this.#open(method.path);
      const serverCall = new CancelableCall(known ?? {}, this.#endpoint.url);
      stream.start(serverCall, this.#streamingHandler(method, stream, serverCall));
    };
    this.#add(stream);
    if (this.#closed) stream.abort(clientClosed('not-sent', method.path));
    else if (metadata instanceof Promise)
      metadata.then(start).catch((error: unknown) => stream.endAfterResponses(this.#errorOf(error, method.path)));
    else {
      try {
        start(metadata);
      } catch (error) {
        stream.endAfterResponses(this.#errorOf(error, method.path));
      }
    }
    return stream.outgoing;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const call of [...this.#calls]) call.abort(clientClosed());
    this.#disconnect?.();
    this.#disconnect = undefined;
  }

  /**
   * Opens the connection, unless it is open.
   *
   * @throws EtcdError with reason `ConnectFailed` if the server is stopped.
   */
  #open(method: string): void {
    this.#disconnect ??= this.#server.connect(() => this.#lost());
    if (this.#disconnect === undefined)
      throw amended(connectFailed(this.#endpoint, 'the server is stopped'), { method });
  }

  #lost(): void {
    this.#disconnect = undefined;
    for (const call of [...this.#calls])
      call.abort(
        new EtcdError('the server has stopped', {
          code: 'Unavailable',
          reason: 'ConnectionLost',
          outcome: 'unknown',
          endpoint: this.#endpoint.url,
        }),
      );
  }

  /** Returns the encoded response of the server to a unary call. @throws EtcdError if the server refuses the call. */
  #answer<Request, Response>(
    method: Method<Request, Response>,
    bytes: Uint8Array,
    serverCall: ServerCall,
  ): Uint8Array | Promise<Uint8Array> {
    try {
      const route = unaryRoute(this.#server, method.path);
      checkMessageBytes(this.#server, bytes.length);
      const answer = route.unary(decode(method.request, bytes), serverCall);
      const encoded = (message: unknown): Uint8Array => encode(route.method.response, message as Init<unknown>);
      return answer instanceof Promise ? answer.then(encoded) : encoded(answer);
    } catch (error) {
      throw this.#errorOf(error, method.path);
    }
  }

  #streamingHandler<Request, Response>(
    method: Method<Request, Response>,
    stream: MemoryStream<Request, Response>,
    serverCall: ServerCall,
  ): RequestSink<Request> {
    const route = streamingRoute(this.#server, method.path);
    return route.streaming(
      {
        send: (message) => stream.respond(encode(route.method.response, message as Init<unknown>)),
        end: (status) =>
          stream.endAfterResponses(status === undefined ? undefined : this.#errorOf(status, method.path)),
      },
      serverCall,
    ) as RequestSink<Request>;
  }

  /** Decodes a response. @throws EtcdError if it is too large or malformed. */
  #received<Request, Response>(method: Method<Request, Response>, bytes: Uint8Array): Response {
    const { maxReceiveBytes } = this.#options;
    const context = { method: method.path, endpoint: this.#endpoint.url };
    if (bytes.length > maxReceiveBytes) throw responseTooLarge(bytes.length, maxReceiveBytes, context);
    return decodeResponse(method, this.#endpoint.url, bytes);
  }

  /** Converts an error of the server to the error that the client reports. */
  #errorOf(error: unknown, method: string): EtcdError {
    if (error instanceof EtcdError) return error;
    const context = { method, endpoint: this.#endpoint.url };
    if (error instanceof StatusError) return errorFromStatus(error.code, error.message, context);
    const problem = `MemoryEtcd failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
    return new EtcdError(problem, { code: 'Internal', reason: 'Other', outcome: 'unknown', ...context, cause: error });
  }

  #add(call: OpenCall): void {
    this.#calls.add(call);
    this.#setBusy(call, true);
  }

  #remove(call: OpenCall): void {
    this.#calls.delete(call);
    this.#setBusy(call, false);
  }

  /** Sets whether a call keeps the process alive. The process stays alive while at least one call does so. */
  #setBusy(call: OpenCall, busy: boolean): void {
    if (busy && this.#calls.has(call)) this.#busy.add(call);
    else this.#busy.delete(call);
    this.#hold.set(this.#busy.size > 0);
  }
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
  readonly hold: (busy: boolean) => void;
  /** Called when the stream has ended for the client. */
  readonly released: () => void;
}

/**
 * A streaming call. Delivers responses in a microtask, so that the handler is never called while it sends a request.
 */
class MemoryStream<Request, Response> implements OpenCall {
  readonly #method: Method<Request, Response>;
  readonly #handler: StreamHandler<Response>;
  readonly #context: StreamContext;
  /** The server's end of the stream. Undefined before the server has the call, and after the call has ended there. */
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
  /** Whether the stream has ended for the client, so that the handler must not be called any more. */
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
      hold: (busy) => this.#context.hold(busy),
    };
  }

  /** Connects the stream with the handler of the server, which receives the requests that the client has sent. */
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

/** Settles a promise with the result or the error of `compute`. */
function settle<T>(resolve: (value: T) => void, reject: (error: unknown) => void, compute: () => T): void {
  try {
    resolve(compute());
  } catch (error) {
    reject(error);
  }
}
