import type { EtcdError } from '../errors/etcd-error.js';
import type { Endpoint } from '../host/endpoint.js';
import type { TlsSource } from '../host/tls.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';

/** gRPC metadata. The names are in lower case, and the values are printable ASCII. */
export type Metadata = Readonly<Record<string, string>>;

interface Call<Request, Response> {
  readonly method: Method<Request, Response>;
  /** The URL of the only endpoint that may carry the call, if it concerns one member. One-endpoint transports ignore it. */
  readonly endpoint?: string | undefined;
  /** Called at each attempt with the URL of its endpoint. */
  readonly onAttempt?: ((endpoint: string) => void) | undefined;
}

/** A streaming call: any number of requests, any number of responses. */
export interface StreamCall<Request, Response> extends Call<Request, Response> {
  /** With a promise, the call waits for the metadata. If the promise rejects, the stream ends with that error. */
  readonly metadata?: Metadata | Promise<Metadata> | undefined;
  /** The longest response in bytes, if that is less than `maxReceiveBytes` of the transport. */
  readonly maxReceiveBytes?: number | undefined;
}

/** A unary call: one request and one response. */
export interface UnaryCall<Request, Response> extends Call<Request, Response> {
  readonly metadata?: Metadata | undefined;
  readonly request: Init<Request>;
  readonly signal?: AbortSignal | undefined;
  /** The timeout that the caller set, for the text of an error. */
  readonly timeoutMs: number;
  /** When the call times out, on the monotonic clock. */
  readonly deadline: number;
  /** Called each time the request is handed to a connection. */
  readonly onSent?: (() => void) | undefined;
  /** Called with each error after which the call is attempted again. */
  readonly onRetry?: ((error: EtcdError) => void) | undefined;
}

/** Receives the responses of a streaming call. Its methods must not throw. */
export interface StreamHandler<Response> {
  /** Receives a message. */
  message(message: Response): void;
  /** Receives the end of the stream: with status OK if `error` is undefined. Called once, and last. */
  end(error: EtcdError | undefined): void;
  /**
   * The server announces that it will close the connection (GOAWAY). The stream goes on until then. A long-lived stream
   * should be opened again on another connection. May be called more than once. The grpc-js transport never calls it.
   */
  leaving?(): void;
}

/**
 * Sends the requests of a streaming call. All methods but `send` may be called at any time; after the end of the stream they
 * do nothing.
 */
export interface OutgoingStream<Request> {
  /** Sends a message. Messages are sent in this order. They wait until the connection is open. */
  send(message: Init<Request>): void;
  /** Half-closes the stream: the client sends no more messages. */
  end(): void;
  /**
   * Ends the stream at once, with RST_STREAM. The handler is not called any more. The reason `unresponsive` means that the
   * server did not answer, so another endpoint should be tried. `unauthenticated` means that it refused the token.
   */
  cancel(why?: 'unresponsive' | 'unauthenticated'): void;
  /** Stops the delivery of messages. If that lasts, flow control stops the server, too. */
  pause(): void;
  /** Continues the delivery of messages. */
  resume(): void;
  /**
   * Sets whether the stream keeps the process alive, which it does by default. A transport without this method keeps the
   * process alive in any case.
   */
  hold?(busy: boolean): void;
}

/**
 * Carries calls to etcd, to one endpoint or to several. Every error is an `EtcdError` whose `outcome` tells whether the
 * server may have processed the request.
 */
export interface Transport {
  /** The server has been silent for so long that new calls should go to another endpoint, if there is one. */
  readonly suspect?: boolean;
  /** Makes a unary call. Rejects with an `EtcdError`. */
  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response>;
  /** Makes a streaming call. The caller of a server-streaming method sends one message, and then half-closes. */
  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request>;
  /** Ends every call with reason `ClientClosed`, and closes the connections. */
  close(): Promise<void>;
}

/** Options of the transport of one endpoint. */
export interface TransportOptions {
  readonly tls: TlsSource | undefined;
  /** The time limit for opening a connection, from dialling to the server's SETTINGS. */
  readonly connectTimeoutMs: number;
  /**
   * The interval of the probes on a connection with open calls or streams. etcd disconnects a client that pings more often
   * than every 5 s. In addition, the transport sends a probe when a request has gone without any byte for a second, as far
   * as etcd's limit allows.
   */
  readonly pingIntervalMs: number;
  /** The time limit for the answer to a probe. After it, the transport closes the connection. */
  readonly pingTimeoutMs: number;
  /** The longest request in bytes. A longer one is refused before it is sent. */
  readonly maxRequestBytes: number;
  /** The longest response in bytes. */
  readonly maxReceiveBytes: number;
  /** The most operations in a transaction, for a transport that adds some of its own. Default: 128. */
  readonly maxTxnOps?: number | undefined;
}

/** The defaults of `TransportOptions`. */
export const TRANSPORT_DEFAULTS = {
  connectTimeoutMs: 3_000,
  pingIntervalMs: 6_000,
  pingTimeoutMs: 2_500,
  maxRequestBytes: 1_572_864,
  maxReceiveBytes: 2 ** 31 - 1,
} as const satisfies Omit<TransportOptions, 'tls' | 'maxTxnOps'>;

/** Makes the transport of one endpoint. The transport connects at the first call. */
export type TransportFactory = (endpoint: Endpoint, options: TransportOptions) => Transport;

/** Wraps a stream, and replaces some of its methods. For transports that are built on other transports. */
export function forwardStream<Request>(
  stream: OutgoingStream<Request>,
  replaced: Partial<OutgoingStream<Request>>,
): OutgoingStream<Request> {
  return {
    send: (message) => stream.send(message),
    end: () => stream.end(),
    cancel: (why) => stream.cancel(why),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    hold: (busy) => stream.hold?.(busy),
    ...replaced,
  };
}
