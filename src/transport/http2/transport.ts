import { amended, canceled, clientClosed, type EtcdError } from '../../errors/etcd-error.js';
import type { Endpoint } from '../../host/endpoint.js';
import type { OpenByteStream } from '../../host/host.js';
import { monotonicMs } from '../../runtime/timers.js';
import { connectFailed } from '../connect-failed.js';
import { checkMetadata, encodeRequest, isPrintable } from '../messages.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from '../transport.js';
import { type CallOwner, type ClientCall, StreamingClientCall, UnaryClientCall } from './client-call.js';
import { Connection } from './connection.js';
import { Deadlines } from './deadlines.js';

/**
 * The package's own transport: gRPC over HTTP/2. It needs nothing from its host but a function that opens byte streams.
 * That function is internal: the package has no public option for it.
 *
 * @param firstStreamId The first stream identifier of each connection, which must be odd. Tests use a high one to run out
 *   of identifiers.
 */
export function http2(open: OpenByteStream, firstStreamId = 1): TransportFactory {
  return (endpoint, options) => new Http2Transport(endpoint, options, open, firstStreamId);
}

/** While a connection takes longer than this to open, the transport is suspect: new calls prefer another endpoint. */
const SLOW_DIAL_MS = 1_000;

type State =
  /** No connection takes calls. The next call dials one. */
  | { readonly name: 'idle' }
  /** A connection is being opened. Calls wait for it. */
  | {
      readonly name: 'connecting';
      readonly connection: Connection;
      readonly waiting: ClientCall[];
      readonly startedAt: number;
    }
  /** The connection takes calls. */
  | { readonly name: 'open'; readonly connection: Connection }
  | { readonly name: 'closed' };

/** The transport of one endpoint. It has one connection for new calls, and any number that finish their open streams. */
class Http2Transport implements Transport, CallOwner {
  readonly #endpoint: Endpoint;
  readonly options: TransportOptions;
  readonly #openBytes: OpenByteStream;
  readonly #firstStreamId: number;
  readonly #calls = new Deadlines<ClientCall>();
  readonly #connections = new Set<Connection>();
  #state: State = { name: 'idle' };

  constructor(endpoint: Endpoint, options: TransportOptions, open: OpenByteStream, firstStreamId: number) {
    this.#endpoint = endpoint;
    this.options = options;
    this.#openBytes = open;
    this.#firstStreamId = firstStreamId;
  }

  get endpoint(): string {
    return this.#endpoint.url;
  }

  get suspect(): boolean {
    const state = this.#state;
    if (state.name === 'open') return false;
    if (state.name === 'connecting' && monotonicMs() - state.startedAt >= SLOW_DIAL_MS) return true;
    for (const connection of this.#connections) if (connection.suspect) return true;
    return false;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { method, signal, metadata } = call;
      const request = encodeRequest(method, call.request, this.options.maxRequestBytes);
      if (this.#state.name === 'closed') throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      const clientCall = new UnaryClientCall(call, request, this, resolve, reject);
      this.#calls.add(clientCall);
      this.send(clientCall);
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const { metadata } = call;
    const { path } = call.method;
    const clientCall = new StreamingClientCall(call, this, handler);
    const start = (known: Metadata | undefined): void => {
      checkMetadata(known, path);
      clientCall.start(known);
    };
    const fail = (error: EtcdError): void => clientCall.fail(amended(error, { method: path }));
    this.#calls.add(clientCall);
    // Errors are reported after this returns, because the handler may need the stream first.
    if (this.#state.name === 'closed') queueMicrotask(() => clientCall.fail(clientClosed('not-sent', path)));
    else if (!(metadata instanceof Promise) && isPrintable(metadata)) start(metadata);
    else Promise.resolve(metadata).then(start).catch(fail);
    return clientCall;
  }

  async close(): Promise<void> {
    const state = this.#state;
    this.#state = { name: 'closed' };
    if (state.name === 'closed') return;
    for (const call of this.#calls.all()) call.close();
    for (const connection of [...this.#connections]) connection.close('the client was closed');
    this.#calls.stop();
  }

  send(call: ClientCall): void {
    const state = this.#state;
    switch (state.name) {
      case 'open':
        return call.openStream(state.connection);
      case 'connecting':
        return void state.waiting.push(call);
      case 'idle':
        return this.#dial(call);
      case 'closed':
        return call.close();
    }
  }

  ended(call: ClientCall): void {
    this.#calls.delete(call);
  }

  #dial(call: ClientCall): void {
    const waiting = [call];
    const isCurrent = (): boolean => 'connection' in this.#state && this.#state.connection === connection;
    const connection: Connection = new Connection(
      this.#endpoint,
      this.options,
      this.#openBytes,
      {
        opened: () => {
          if (!isCurrent()) return;
          this.#state = { name: 'open', connection };
          for (const each of waiting.splice(0)) this.send(each);
        },
        draining: () => {
          if (isCurrent()) this.#state = { name: 'idle' };
        },
        closed: (problem, cause) => {
          this.#connections.delete(connection);
          if (isCurrent()) this.#state = { name: 'idle' };
          for (const each of waiting.splice(0)) each.notConnected(connectFailed(this.#endpoint, problem, cause));
        },
      },
      this.#firstStreamId,
    );
    this.#connections.add(connection);
    this.#state = { name: 'connecting', connection, waiting, startedAt: monotonicMs() };
  }
}
