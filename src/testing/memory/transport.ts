import {
  amended,
  at,
  canceled,
  clientClosed,
  EtcdError,
  errorFromStatus,
  monotonicMs,
  onAbort,
  ProcessKeeper,
  timedOut,
} from '../../base/index.js';
import type { Endpoint } from '../../host/index.js';
import {
  checkMetadata,
  connectFailed,
  decode,
  decodeResponse,
  type EmbeddedTransportFactory,
  encode,
  encodeRequest,
  type Init,
  type Metadata,
  type Method,
  type OutgoingStream,
  responseTooLarge,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type TransportOptions,
  type UnaryCall,
} from '../../wire/index.js';
import { type MemoryEtcd, membersOf } from './memory-etcd.js';
import type { MemoryMember } from './memory-member.js';
import {
  CancelableCall,
  checkMessageBytes,
  type RequestSink,
  type ServerCall,
  StatusError,
  streamingRoute,
  unaryRoute,
} from './service.js';
import { MemoryStream, type OpenCall } from './transport-stream.js';

/**
 * Returns a transport that calls a server in this process: all members of a `MemoryEtcd`, or one member. It encodes and decodes all messages, as for a network, so
 * the client and the server share no objects. It opens no byte stream, so a test with it covers neither HTTP/2 nor the
 * network. `memoryOverHttp2` covers HTTP/2, too.
 *
 * @example
 * const server = new MemoryEtcd();
 * const etcd = new Client({ transport: memory(server) });
 */
export function memory(server: MemoryEtcd | MemoryMember): EmbeddedTransportFactory {
  const members = membersOf(server);
  const [first] = members as [MemoryMember];
  const factory = (endpoint: Endpoint, options: TransportOptions): Transport =>
    new MemoryTransport(members.find((member) => member.endpoint === endpoint.url) ?? first, endpoint, options);
  return Object.assign(factory, { endpoints: members.map((member) => member.endpoint) });
}

class MemoryTransport implements Transport {
  readonly #server: MemoryMember;
  readonly #endpoint: Endpoint;
  readonly #options: TransportOptions;
  readonly #calls = new Set<OpenCall>();
  /** The calls that keep the process alive. */
  readonly #busy = new Set<OpenCall>();
  readonly #keeper = new ProcessKeeper();
  /** Unregisters the connection at the server. Undefined if no connection is open. */
  #disconnect: (() => void) | undefined;
  #closed = false;

  constructor(server: MemoryMember, endpoint: Endpoint, options: TransportOptions) {
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
      keepProcessAlive: (busy) => this.#setBusy(stream, busy),
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

  /** Sets whether a call keeps the process alive. The process stays alive while at least one call keeps it alive. */
  #setBusy(call: OpenCall, busy: boolean): void {
    if (busy && this.#calls.has(call)) this.#busy.add(call);
    else this.#busy.delete(call);
    this.#keeper.keepProcessAlive(this.#busy.size > 0);
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
