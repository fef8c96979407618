import { canceled, clientClosed, type EtcdError, timedOut } from '../../../src/base/etcd-error.js';
import { after, monotonicMs } from '../../../src/base/timers.js';
import type { Endpoint } from '../../../src/host/endpoint.js';
import { connectFailed } from '../../../src/wire/connect-failed.js';
import { checkMetadata, encodeRequest } from '../../../src/wire/messages.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  TransportFactory,
  TransportOptions,
  UnaryCall,
} from '../../../src/wire/transport.js';
import type { SimulatedMember } from '../member.js';
import type { Network } from '../network.js';
import type { Process } from '../process.js';
import { type ClientCall, Connection } from './connection.js';
import { SimulatedStream } from './stream.js';
import { SimulatedUnary } from './unary.js';

/** Returns the transports of a client in a process. They carry whole messages. */
export function messageTransport(network: Network, process: Process): TransportFactory {
  return (endpoint, options) =>
    new SimulatedTransport(network, process, network.cluster.memberAt(endpoint.url), endpoint, options);
}

export class SimulatedTransport implements Transport {
  readonly network: Network;
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly endpoint: Endpoint;
  readonly options: TransportOptions;
  readonly #calls = new Set<ClientCall>();
  #connection: Connection | undefined;
  #closed = false;

  constructor(
    network: Network,
    process: Process,
    member: SimulatedMember,
    endpoint: Endpoint,
    options: TransportOptions,
  ) {
    this.network = network;
    this.process = process;
    this.member = member;
    this.endpoint = endpoint;
    this.options = options;
  }

  get suspect(): boolean {
    return this.#connection?.isSuspect ?? false;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { method, signal, metadata, deadline } = call;
      const bytes = encodeRequest(method, call.request, this.options.maxRequestBytes);
      if (this.#closed) throw clientClosed('not-sent', method.path);
      if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
      checkMetadata(metadata, method.path);
      if (deadline <= monotonicMs()) throw timedOut('call', call.timeoutMs, 'not-sent', method.path);
      const unary = new SimulatedUnary(this, call, bytes, resolve, reject);
      this.begin(unary);
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const stream = new SimulatedStream(this, call, handler);
    const start = (metadata: Metadata): void => {
      checkMetadata(metadata, call.method.path);
      stream.metadata = metadata;
      this.begin(stream);
    };
    if (this.#closed) queueMicrotask(() => stream.fail(clientClosed('not-sent', call.method.path)));
    else if (call.metadata instanceof Promise)
      call.metadata.then(start).catch((error: EtcdError) => stream.fail(error));
    else start(call.metadata ?? {});
    return stream.outgoing;
  }

  /** Sends a call, as soon as a connection is open. */
  begin(call: ClientCall): void {
    if (this.#closed) return call.fail(clientClosed('not-sent'));
    this.#calls.add(call);
    const connection = this.#connection ?? this.#connect();
    connection.calls.add(call);
    connection.watchSilence();
    if (connection.isOpen) call.send(connection);
  }

  ended(call: ClientCall, connection: Connection | undefined): void {
    this.#calls.delete(call);
    connection?.calls.delete(call);
    this.#connection?.calls.delete(call);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const call of [...this.#calls]) call.fail(clientClosed());
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection === undefined) return;
    connection.isLost = true;
    connection.cut(true);
  }

  /** The server announces that it closes the connection. */
  leave(connection: Connection): void {
    if (this.#connection === connection) this.#connection = undefined;
    for (const call of [...connection.calls]) call.leaving();
  }

  #connect(): Connection {
    const { network, process, member } = this;
    const { world } = network;
    const connection: Connection = new Connection(network, process, member, () => {
      if (this.#connection === connection) this.#connection = undefined;
    });
    connection.onLeaving = () => this.leave(connection);
    this.#connection = connection;
    const failed = (reason: string): void => {
      if (connection.isOpen || connection.isLost) return;
      connection.isLost = true;
      connection.isCut = true;
      network.connections.delete(connection);
      if (this.#connection === connection) this.#connection = undefined;
      const error = connectFailed(this.endpoint, reason);
      for (const call of [...connection.calls]) call.fail(error);
    };
    const stopTimer = after(this.options.connectTimeoutMs, () => failed('the server sent nothing'), 'background');
    const arrive = (): void => {
      const isRefused = member.isDown || connection.path.refusedUntil > world.now;
      connection.carry('to-client', isRefused ? 'is refused by' : 'is connected to', member.url, () => {
        stopTimer();
        if (connection.isLost) return;
        if (isRefused) network.onRefused(process, member);
        if (isRefused) return failed('connect ECONNREFUSED');
        connection.isOpen = true;
        for (const call of [...connection.calls]) call.send(connection);
      });
    };
    connection.carry('to-server', 'accepts a connection of', process.name, arrive);
    return connection;
  }
}
