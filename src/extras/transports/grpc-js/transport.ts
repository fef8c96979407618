import {
  type Client,
  type ClientDuplexStream,
  type ClientUnaryCall,
  Metadata as GrpcMetadata,
  type ServiceError,
} from '@grpc/grpc-js';
import {
  amended,
  at,
  canceled,
  clientClosed,
  EtcdError,
  errorFromStatus,
  onAbort,
  statusCode,
  timedOut,
} from '../../../base/index.js';
import type { Endpoint } from '../../../host/index.js';
import {
  checkMetadata,
  decodeResponse,
  encodeRequest,
  type Init,
  isPrintable,
  type Metadata,
  type OutgoingStream,
  responseTooLarge,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type TransportFactory,
  type TransportOptions,
  type UnaryCall,
} from '../../../wire/index.js';
import { asBuffer, GrpcJsConnection } from './connection.js';

/** Matches grpc-js's status text for a response that is too large. Servers refuse a large request with another text. */
const TOO_LARGE = /^Received message larger than max \((\d+) vs (\d+)\)$/;

/**
 * Matches the status text of grpc-js for a response without gRPC. Does not match the HTTP statuses with which a server
 * refuses a single request: see `REFUSES_REQUEST` in http2/response.ts.
 */
const WITHOUT_GRPC =
  /^Received (?:HTTP status code (?!408|413|414|431)\d+|RST_STREAM with code 0 \(Call ended without)/;

/**
 * Returns a transport that uses `@grpc/grpc-js` in place of this package's own HTTP/2 implementation. Install
 * `@grpc/grpc-js` along with this package.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { grpcJs } from 'etcdwire/grpc-js';
 *
 * const client = new Client({ endpoints: ['http://127.0.0.1:2379'], transport: grpcJs() });
 */
export function grpcJs(): TransportFactory {
  return (endpoint, options) => new GrpcJsTransport(endpoint, options);
}

class GrpcJsTransport implements Transport {
  readonly url: string;
  readonly options: TransportOptions;
  /** Functions that end the calls under way at the close, because grpc-js lets calls continue on a closed channel. */
  readonly live = new Set<() => void>();
  readonly #connection: GrpcJsConnection;
  #closed = false;

  constructor(endpoint: Endpoint, options: TransportOptions) {
    this.url = endpoint.url;
    this.options = options;
    this.#connection = new GrpcJsConnection(endpoint, options);
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal } = call;
    return new Promise((resolve, reject) => {
      const request = encodeRequest(method, call.request, this.options.maxRequestBytes);
      let running: ClientUnaryCall | undefined;
      let ended = false;
      let offAbort = (): void => {};
      const outcome = (): 'not-sent' | 'unknown' => (running === undefined ? 'not-sent' : 'unknown');
      /** Marks the call as ended. Returns false if the call had already ended. */
      const finish = (): boolean => {
        if (ended) return false;
        ended = true;
        stopTimer();
        offAbort();
        this.live.delete(close);
        return true;
      };
      const fail = (error: EtcdError): void => {
        if (finish()) reject(error);
        running?.cancel();
      };
      const close = (): void => fail(clientClosed(outcome(), method.path));
      const abort = (): void => fail(canceled(signal as AbortSignal, outcome(), method.path));
      const onDeadline = (): void => fail(timedOut('call', call.timeoutMs, outcome(), method.path));
      const stopTimer = at(call.deadline, onDeadline);
      if (this.#closed) return close();
      if (signal?.aborted) return abort();
      if (signal !== undefined) offAbort = onAbort(signal, abort);
      this.live.add(close);

      const onResponse = (error: ServiceError | null, bytes?: Uint8Array): void => {
        if (!finish()) return;
        if (error !== null) return reject(statusError(error, method.path, this.url));
        try {
          resolve(decodeResponse(method, this.url, bytes as Uint8Array));
        } catch (malformed) {
          reject(malformed);
        }
      };
      const send = (client: Client): void => {
        if (ended) return;
        call.observer?.sent?.();
        // The observer may have ended the call.
        if (ended) return;
        const metadata = grpcMetadata(call.metadata, method.path);
        running = client.makeUnaryRequest(method.path, asBuffer, unchanged, request, metadata, onResponse);
      };
      // If the connection fails, all calls that wait for the connection get the same error object. Therefore each call
      // adds its own method to a copy of the error.
      const refuse = (error: unknown): void => fail(asEtcdError(error, method.path));
      const { ready } = this.#connection;
      if (ready === undefined) return void this.#connection.connect().then(send).catch(refuse);
      try {
        send(ready);
      } catch (error) {
        refuse(error);
      }
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const { method, metadata } = call;
    const stream = new GrpcJsStream(call, this, handler);
    if (this.#closed) {
      queueMicrotask(stream.close);
      return stream;
    }
    this.live.add(stream.close);
    const { ready } = this.#connection;
    const start = async (known: Metadata | undefined): Promise<void> => {
      if (!stream.ended) stream.start(await this.#connection.connect(), known);
    };
    if (ready !== undefined && !(metadata instanceof Promise) && isPrintable(metadata)) stream.start(ready, metadata);
    else
      Promise.resolve(metadata)
        .then(start)
        .catch((error: unknown) => stream.fail(asEtcdError(error, method.path)));
    return stream;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const close of [...this.live]) close();
    this.#connection.close();
  }
}

/** A streaming call on grpc-js. Its messages wait in `#unsent` until the connection is open. */
class GrpcJsStream<Request, Response> implements OutgoingStream<Request> {
  readonly #call: StreamCall<Request, Response>;
  readonly #transport: GrpcJsTransport;
  readonly #handler: StreamHandler<Response>;
  #stream: ClientDuplexStream<Uint8Array, Uint8Array> | undefined;
  #unsent: Uint8Array[] = [];
  #halfClosed = false;
  #paused = false;
  /** Whether the stream was canceled, or has ended. */
  ended = false;

  constructor(call: StreamCall<Request, Response>, transport: GrpcJsTransport, handler: StreamHandler<Response>) {
    this.#call = call;
    this.#transport = transport;
    this.#handler = handler;
  }

  start(client: Client, metadata: Metadata | undefined): void {
    if (this.ended) return;
    const { path } = this.#call.method;
    const stream = client.makeBidiStreamRequest(path, asBuffer, unchanged, grpcMetadata(metadata, path));
    this.#stream = stream;
    let status: EtcdError | undefined;
    stream.on('data', (bytes: Uint8Array) => this.#receive(bytes));
    // Never remove this listener, because grpc-js may emit several errors, even after the stream has been canceled.
    stream.on('error', (error: ServiceError) => {
      status ??= statusError(error, path, this.#transport.url);
    });
    // The status may arrive before the stream has delivered the last message. The event "end" follows the status and
    // all messages.
    stream.on('end', () => this.fail(status));
    stream.on('close', () => this.fail(status));
    if (this.#paused) stream.pause();
    for (const bytes of this.#unsent.splice(0)) stream.write(bytes);
    if (this.#halfClosed) stream.end();
  }

  send(message: Init<Request>): void {
    if (this.ended || this.#halfClosed) return;
    const bytes = encodeRequest(this.#call.method, message, this.#transport.options.maxRequestBytes);
    if (this.#stream === undefined) this.#unsent.push(bytes);
    else this.#stream.write(bytes);
  }

  end(): void {
    this.#halfClosed = true;
    this.#stream?.end();
  }

  cancel(): void {
    if (this.ended) return;
    this.ended = true;
    this.#transport.live.delete(this.close);
    this.#unsent = [];
    this.#stream?.cancel();
    // Unread messages would keep a paused stream open. After `resume`, `#receive` discards them.
    this.#stream?.resume();
  }

  pause(): void {
    this.#paused = true;
    this.#stream?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#stream?.resume();
  }

  /** Ends the stream, and notifies the handler. If `error` is undefined, the stream ends with status OK. */
  readonly fail = (error: EtcdError | undefined): void => {
    if (this.ended) return;
    this.cancel();
    this.#handler.end(error);
  };

  /** Ends the stream because the client closes. */
  readonly close = (): void =>
    this.fail(clientClosed(this.#stream === undefined ? 'not-sent' : 'unknown', this.#call.method.path));

  #receive(bytes: Uint8Array): void {
    if (this.ended) return;
    let message: Response;
    try {
      message = decodeResponse(this.#call.method, this.#transport.url, bytes);
    } catch (malformed) {
      return this.fail(malformed as EtcdError);
    }
    this.#handler.message(message);
  }
}

function statusError(error: ServiceError, method: string, endpoint: string): EtcdError {
  const where = { method, endpoint };
  const tooLarge = TOO_LARGE.exec(error.details ?? '');
  if (tooLarge !== null) return responseTooLarge(Number(tooLarge[1]), Number(tooLarge[2]), where);
  // If a call was not sent, grpc-js reports this only in the status text. The outcome must not depend on that text,
  // because a server may send the same text.
  const status = errorFromStatus(statusCode(error.code), error.details ?? error.message, where);
  const isWithoutGrpc = WITHOUT_GRPC.test(status.problem) && status.code !== 'Unavailable';
  return isWithoutGrpc ? amended(status, { reason: 'NotEtcd' }) : status;
}

/**
 * Adds the method to an `EtcdError`. Replaces an error that grpc-js throws, because the message of such an error may
 * contain the metadata, including a token.
 */
function asEtcdError(error: unknown, method: string): EtcdError {
  if (error instanceof EtcdError) return amended(error, { method });
  return new EtcdError('grpc-js refused to send the call', {
    code: 'Internal',
    reason: 'Other',
    outcome: 'not-sent',
    method,
  });
}

/** @throws EtcdError if a value is not text, because grpc-js would send the text of another value. */
function grpcMetadata(metadata: Metadata | undefined, method: string): GrpcMetadata {
  checkMetadata(metadata, method);
  const result = new GrpcMetadata();
  for (const [name, value] of Object.entries(metadata ?? {})) result.set(name, value);
  return result;
}

function unchanged(bytes: Uint8Array): Uint8Array {
  return bytes;
}
