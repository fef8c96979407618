import { type Client, type ClientUnaryCall, Metadata as GrpcMetadata, type ServiceError } from '@grpc/grpc-js';
import { amended, canceled, clientClosed, EtcdError, timedOut } from '../../errors/etcd-error.js';
import { statusCode } from '../../errors/status.js';
import { errorFromStatus } from '../../errors/status-error.js';
import type { Endpoint } from '../../host/endpoint.js';
import { onAbort } from '../../runtime/signals.js';
import { after, monotonicMs } from '../../runtime/timers.js';
import { decodeResponse, encodeRequest, isPrintable, responseTooLarge } from '../messages.js';
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
import { asBuffer, GrpcJsConnection } from './connection.js';
import { GrpcJsStream } from './stream.js';

/** The status text of grpc-js for a response that is too large. A server words its errors about requests differently. */
const TOO_LARGE = /^Received message larger than max \((\d+) vs (\d+)\)$/;

/**
 * Returns a transport that uses `@grpc/grpc-js` in place of this package's own HTTP/2. Install `@grpc/grpc-js` along with
 * this package.
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
  readonly #endpoint: Endpoint;
  readonly #options: TransportOptions;
  readonly #connection: GrpcJsConnection;
  /** Functions that end the calls under way. grpc-js lets them run when their channel is closed. */
  readonly #live = new Set<(error: EtcdError) => void>();
  #closed = false;

  constructor(endpoint: Endpoint, options: TransportOptions) {
    this.#endpoint = endpoint;
    this.#options = options;
    this.#connection = new GrpcJsConnection(endpoint, options);
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal } = call;
    return new Promise((resolve, reject) => {
      const request = encodeRequest(method, call.request, this.#options.maxRequestBytes);
      let running: ClientUnaryCall | undefined;
      let over = false;
      let offAbort = (): void => {};
      const outcome = (): 'not-sent' | 'unknown' => (running === undefined ? 'not-sent' : 'unknown');
      const finish = (settle: () => void): void => {
        if (over) return;
        over = true;
        stopTimer();
        offAbort();
        this.#live.delete(fail);
        settle();
      };
      const fail = (error: EtcdError): void => {
        finish(() => reject(error));
        running?.cancel();
      };
      const abort = (): void => fail(canceled(signal as AbortSignal, outcome(), method.path));
      const onDeadline = (): void => fail(timedOut('call', call.timeoutMs, outcome(), method.path));
      const stopTimer = after(call.deadline - monotonicMs(), onDeadline);
      if (this.#closed) return fail(clientClosed('not-sent', method.path));
      if (signal?.aborted) return abort();
      if (signal !== undefined) offAbort = onAbort(signal, abort);
      this.#live.add(fail);

      const send = (client: Client): void => {
        if (over) return;
        call.onSent?.();
        running = client.makeUnaryRequest(
          method.path,
          asBuffer,
          (bytes) => bytes,
          request,
          grpcMetadata(call.metadata),
          (error, bytes) => {
            finish(() => {
              if (error !== null) return reject(this.#statusError(error, method.path));
              try {
                resolve(decodeResponse(method, this.#endpoint.url, bytes as Uint8Array));
              } catch (malformed) {
                reject(malformed);
              }
            });
          },
        );
      };
      const ready = this.#connection.ready;
      // Calls that wait for the same connection share its error, but each call adds its own method.
      const refuse = (error: unknown): void => fail(asEtcdError(error, method.path));
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
    const stream = new GrpcJsStream<Request, Response>(call, this.#options.maxRequestBytes, {
      message: (message) => handler.message(message),
      end: (error) => {
        this.#live.delete(fail);
        handler.end(error);
      },
      canceled: () => this.#live.delete(fail),
      endpoint: this.#endpoint.url,
      statusError: (error) => this.#statusError(error, method.path),
    });
    const fail = (error: EtcdError): void => stream.fail(error);
    if (this.#closed) {
      queueMicrotask(() => fail(clientClosed('not-sent', method.path)));
      return stream;
    }
    this.#live.add(fail);
    const ready = this.#connection.ready;
    const start = async (known: Metadata | undefined): Promise<void> => {
      if (!stream.over) stream.start(await this.#connection.connect(), grpcMetadata(known));
    };
    if (ready !== undefined && !(metadata instanceof Promise) && isPrintable(metadata)) {
      stream.start(ready, grpcMetadata(metadata));
    } else {
      Promise.resolve(metadata)
        .then(start)
        .catch((error: unknown) => fail(asEtcdError(error, method.path)));
    }
    return stream;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const fail of [...this.#live]) fail(clientClosed());
    this.#connection.close();
  }

  #statusError(error: ServiceError, method: string): EtcdError {
    const where = { method, endpoint: this.#endpoint.url };
    const tooLarge = TOO_LARGE.exec(error.details ?? '');
    if (tooLarge !== null) return responseTooLarge(Number(tooLarge[1]), Number(tooLarge[2]), where);
    // grpc-js says only in the text that a call was not sent. A server may send the same text, so it proves nothing.
    return errorFromStatus(statusCode(error.code), error.details ?? error.message, where);
  }
}

/** Replaces an error that grpc-js itself throws, because its message may contain the metadata and with them a token. */
function asEtcdError(error: unknown, method: string): EtcdError {
  if (error instanceof EtcdError) return amended(error, { method });
  return new EtcdError('the call could not be sent: grpc-js refused it', {
    code: 'Internal',
    reason: 'Other',
    outcome: 'not-sent',
    method,
  });
}

function grpcMetadata(metadata: Metadata | undefined): GrpcMetadata {
  const result = new GrpcMetadata();
  for (const [name, value] of Object.entries(metadata ?? {})) result.set(name, value);
  return result;
}
