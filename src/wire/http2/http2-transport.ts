import { amended, canceled, clientClosed, Deadlines, type EtcdError } from '../../base/index.js';
import type { Endpoint, OpenByteStream } from '../../host/index.js';
import { checkMetadata, encodeRequest, isPrintable } from '../messages.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  UnaryCall,
} from '../transport.js';
import { type CallOwner, type ClientCall, StreamingClientCall, UnaryClientCall } from './client-call.js';
import { Connection, type ConnectionEvents } from './connection.js';
import { type Http2TransportOptions, STREAM_WINDOW_BYTES } from './settings.js';

interface Http2Limits {
  /**
   * The first stream identifier of each connection, which must be odd. Default 1. Tests pass a high number, so that the
   * identifiers run out.
   */
  readonly firstStreamId?: number | undefined;
  /** The receive window of each stream, in bytes. Default: `STREAM_WINDOW_BYTES`. */
  readonly windowBytes?: number | undefined;
}

/**
 * Returns the factory of this package's own transport: gRPC over HTTP/2. The transport opens its byte streams with
 * `open`, which differs between runtimes.
 */
export function http2Over(
  open: OpenByteStream,
  { firstStreamId = 1, windowBytes = STREAM_WINDOW_BYTES }: Http2Limits = {},
): TransportFactory {
  return (endpoint, given) => {
    // All connections to the endpoint share this copy of the options. A connection may lengthen its PING interval.
    const options = { ...given, windowBytes };
    const connect = (events: ConnectionEvents): Connection =>
      new Connection(endpoint, options, open, events, firstStreamId);
    return new Http2Transport(endpoint, options, connect);
  };
}

/**
 * The transport of one endpoint. It has at most one connection for new calls, and any number of draining connections.
 */
class Http2Transport implements Transport, CallOwner {
  readonly endpoint: Endpoint;
  readonly options: Http2TransportOptions;
  readonly #connect: (events: ConnectionEvents) => Connection;
  /** The timer does not keep the process alive, because the connection of each call does so. */
  readonly #calls = new Deadlines<ClientCall>('background');
  readonly #connections = new Set<Connection>();
  /** The connection for new calls. If it is undefined, the next call dials a new connection. */
  #current: Connection | undefined;
  #closed = false;

  constructor(endpoint: Endpoint, options: Http2TransportOptions, connect: (events: ConnectionEvents) => Connection) {
    this.endpoint = endpoint;
    this.options = options;
    this.#connect = connect;
  }

  get suspect(): boolean {
    if (this.#current?.isOpen) return false;
    for (const connection of this.#connections) if (connection.isSuspect) return true;
    return false;
  }

  get maxStreams(): number {
    return this.#current?.settings.maxConcurrentStreams ?? Number.POSITIVE_INFINITY;
  }

  get crowded(): string | undefined {
    return this.#current?.crowded;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, metadata } = call;
    try {
      const request = encodeRequest(method, call.request, this.options.maxRequestBytes);
      if (this.#closed) throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      const clientCall = new UnaryClientCall(call, request, this);
      this.#calls.add(clientCall);
      this.connection.open(clientCall.attempt());
      return clientCall.response;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const { metadata } = call;
    const { path } = call.method;
    const clientCall = new StreamingClientCall(call, this, handler);
    const startCall = (known: Metadata | undefined): void => {
      checkMetadata(known, path);
      clientCall.start(known);
    };
    const fail = (error: EtcdError): void => clientCall.fail(amended(error, { method: path }));
    this.#calls.add(clientCall);
    // Report errors only after this method has returned, because the handler may use the returned stream.
    if (this.#closed) queueMicrotask(() => clientCall.fail(clientClosed('not-sent', path)));
    else if (!(metadata instanceof Promise) && isPrintable(metadata)) startCall(metadata);
    else Promise.resolve(metadata).then(startCall).catch(fail);
    return clientCall;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const call of this.#calls.all()) call.close();
    for (const connection of [...this.#connections]) connection.close('the client was closed');
    this.#calls.stop();
  }

  get connection(): Connection {
    if (this.#current !== undefined) return this.#current;
    const draining = (): void => {
      if (this.#current === connection) this.#current = undefined;
    };
    const closed = (): void => {
      this.#connections.delete(connection);
      draining();
    };
    const connection = this.#connect({ draining, closed });
    this.#connections.add(connection);
    this.#current = connection;
    return connection;
  }

  ended(call: ClientCall): void {
    this.#calls.delete(call);
  }
}
