import { amended, canceled, clientClosed, EtcdError } from '../../errors/etcd-error.js';
import type { Endpoint } from '../../host/endpoint.js';
import type { OpenByteStream } from '../../host/host.js';
import { monotonicMs } from '../../runtime/timers.js';
import { connectFailed } from '../connect-failed.js';
import { encodeRequest } from '../messages.js';
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
import { Connection, type ConnectionEvents } from './connection.js';
import { Deadlines } from './deadlines.js';
import type { Exchange, ExchangeOwner } from './exchange.js';
import { MessageExchange } from './message-exchange.js';
import { UnaryExchange } from './unary-exchange.js';

/**
 * The transport that is this package's own: gRPC over HTTP/2, on any stream of bytes that the host can open.
 *
 * @param firstStreamId Of each connection; odd. A later one shows what happens when there are no more.
 */
export function http2(open: OpenByteStream, firstStreamId = 1): TransportFactory {
  return (endpoint, options) => new Http2Transport(endpoint, options, open, firstStreamId);
}

/** A connection that takes longer than this to come about lets new calls prefer another endpoint. */
const SLOW_DIAL_MS = 1_000;

type State =
  /** The next call dials. */
  | { readonly name: 'idle' }
  | {
      readonly name: 'connecting';
      readonly connection: Connection;
      readonly waiting: Exchange[];
      readonly startedAt: number;
    }
  | { readonly name: 'open'; readonly connection: Connection }
  | { readonly name: 'closed' };

/** One endpoint: a connection for new calls, made when there is one, and those that still finish what they have. */
class Http2Transport implements Transport, ExchangeOwner {
  readonly #endpoint: Endpoint;
  readonly #options: TransportOptions;
  readonly #openBytes: OpenByteStream;
  readonly #firstStreamId: number;
  readonly #exchanges = new Deadlines<Exchange>();
  readonly #connections = new Set<Connection>();
  #state: State = { name: 'idle' };

  constructor(endpoint: Endpoint, options: TransportOptions, open: OpenByteStream, firstStreamId: number) {
    this.#endpoint = endpoint;
    this.#options = options;
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
    for (const connection of this.#connections) if (connection.doubtful) return true;
    return false;
  }

  get maxReceiveBytes(): number {
    return this.#options.maxReceiveBytes;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { method, signal, metadata } = call;
      const request = encodeRequest(method, call.request, this.#options.maxRequestBytes);
      if (this.#state.name === 'closed') throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      const exchange = new UnaryExchange(call, request, this, resolve, reject);
      this.#exchanges.add(exchange);
      this.start(exchange);
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const { method, metadata } = call;
    const { maxRequestBytes } = this.#options;
    const maxReceiveBytes = Math.min(this.maxReceiveBytes, call.maxReceiveBytes ?? this.maxReceiveBytes);
    const exchange = new MessageExchange(method, { maxRequestBytes, maxReceiveBytes }, this, handler);
    const begin = (known: Metadata | undefined): void => {
      checkMetadata(known, method.path);
      exchange.start(known);
    };
    const fail = (error: EtcdError): void => exchange.fail(amended(error, { method: method.path }));
    this.#exchanges.add(exchange);
    // The handler may not know the stream before this returns.
    if (this.#state.name === 'closed') queueMicrotask(() => exchange.fail(clientClosed('not-sent', method.path)));
    else if (metadata instanceof Promise) metadata.then(begin).catch(fail);
    else if (isSendable(metadata)) begin(metadata);
    else Promise.resolve(metadata).then(begin).catch(fail);
    return exchange;
  }

  async close(): Promise<void> {
    const state = this.#state;
    this.#state = { name: 'closed' };
    if (state.name === 'closed') return;
    for (const exchange of this.#exchanges.all()) exchange.close();
    for (const connection of [...this.#connections]) connection.close('the client was closed');
    this.#exchanges.stop();
  }

  // ——— what calls ask for ———

  start(exchange: Exchange): void {
    const state = this.#state;
    switch (state.name) {
      case 'open':
        return begin(exchange, state.connection);
      case 'connecting':
        return void state.waiting.push(exchange);
      case 'idle':
        return this.#dial(exchange);
      case 'closed':
        return exchange.close();
    }
  }

  ended(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
  }

  #dial(exchange: Exchange): void {
    const waiting = [exchange];
    const isCurrent = (): boolean =>
      (this.#state.name === 'connecting' || this.#state.name === 'open') && this.#state.connection === connection;
    const events: ConnectionEvents = {
      ready: () => {
        if (!isCurrent()) return;
        this.#state = { name: 'open', connection };
        for (const each of waiting.splice(0)) this.start(each);
      },
      retired: () => {
        if (isCurrent()) this.#state = { name: 'idle' };
      },
      closed: (problem, cause) => {
        this.#connections.delete(connection);
        if (isCurrent()) this.#state = { name: 'idle' };
        for (const each of waiting.splice(0)) each.notConnected(connectFailed(this.#endpoint, problem, cause));
      },
    };
    const connection: Connection = new Connection(
      this.#endpoint,
      this.#options,
      this.#openBytes,
      events,
      this.#firstStreamId,
    );
    this.#connections.add(connection);
    this.#state = { name: 'connecting', connection, waiting, startedAt: monotonicMs() };
  }
}

function begin(exchange: Exchange, connection: Connection): void {
  const stream = exchange.beginStream();
  if (stream === undefined) return;
  connection.start(stream);
  exchange.begun();
}

/** What a header may hold, less what could break out of it. */
function isSendable(metadata: Metadata | undefined): boolean {
  for (const name in metadata) {
    if (!/^[\x20-\x7e]*$/.test(metadata[name] as string)) return false;
  }
  return true;
}

/** The values stay out of the error: a token may be among them. */
function checkMetadata(metadata: Metadata | undefined, method: string): void {
  if (isSendable(metadata)) return;
  throw new EtcdError('the call could not be handed to the connection: its metadata are not printable ASCII', {
    code: 'Internal',
    reason: 'Other',
    outcome: 'not-sent',
    method,
  });
}
