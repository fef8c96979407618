import type { EtcdError } from '../errors/etcd-error.js';
import type { Endpoint } from '../host/endpoint.js';
import type { TlsSource } from '../host/tls.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';

/** gRPC metadata: header names in lower case. */
export type Metadata = Readonly<Record<string, string>>;

interface Call<Request, Response> {
  readonly method: Method<Request, Response>;
  /** The one endpoint to go to, where the call concerns one member. A transport of one endpoint takes no notice. */
  readonly endpoint?: string | undefined;
  /** Called with the URL of each endpoint that is tried. */
  readonly onAttempt?: ((endpoint: string) => void) | undefined;
}

/** A stream that is to be opened. */
export interface StreamCall<Request, Response> extends Call<Request, Response> {
  /** What is not known yet holds the stream up; where it is not to be had, that is how the stream ends. */
  readonly metadata?: Metadata | Promise<Metadata> | undefined;
  /** Longest response taken, in bytes, where that is less than the transport's own limit. */
  readonly maxReceiveBytes?: number | undefined;
}

/** A call of one request and one response. */
export interface UnaryCall<Request, Response> extends Call<Request, Response> {
  readonly metadata?: Metadata | undefined;
  readonly request: Init<Request>;
  readonly signal?: AbortSignal | undefined;
  /** What the caller asked for, for the error's text. */
  readonly timeoutMs: number;
  /** When the time is up, on the monotonic clock. */
  readonly deadline: number;
  /** Called each time the request is handed to a connection. */
  readonly onSent?: (() => void) | undefined;
  /** Called with each failure after which the call is made again. */
  readonly onRetry?: ((error: EtcdError) => void) | undefined;
}

/** The receiving end of a stream. No call of it may throw. */
export interface StreamHandler<Response> {
  /** A message has come. */
  message(message: Response): void;
  /** Comes once, last: without an error when the server ended the stream with status OK. */
  end(error: EtcdError | undefined): void;
  /**
   * The peer is about to go, and said so in good time (GOAWAY): a stream without an end of its own had better be opened
   * anew, elsewhere. This one goes on as long as the peer does. May come more than once; grpc-js does not tell.
   */
  leaving?(): void;
}

/** The sending end of a stream. Everything but `send` may be called at any time; after the end it does nothing. */
export interface OutgoingStream<Request> {
  /** Messages leave in this order. Before the connection stands they wait. */
  send(message: Init<Request>): void;
  /** Half-close: nothing more to send. */
  end(): void;
  /**
   * Ends the stream at once, with RST_STREAM. The handler hears no more of it, not even its end. `unresponsive`: the
   * peer owes an answer, so another endpoint had better be tried. `unauthenticated`: it refused the stream's token.
   */
  cancel(why?: 'unresponsive' | 'unauthenticated'): void;
  /** Stops delivery, and by flow control in the end the server. */
  pause(): void;
  /** Goes on with delivery. */
  resume(): void;
  /**
   * Whether the process is kept alive for the stream. It is, until the owner says otherwise. A transport that does not
   * have this method keeps the process alive in any case.
   */
  hold?(busy: boolean): void;
}

/**
 * What carries calls to etcd: one endpoint's connection, or a choice among several. Errors are `EtcdError`s whose
 * `outcome` tells whether the request may have been processed.
 */
export interface Transport {
  /** The peer has been silent for so long that new calls had better go to another endpoint, if there is one. */
  readonly suspect?: boolean;
  /** Makes a call. Rejects with an `EtcdError`. */
  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response>;
  /** Opens a stream of any kind; a server-streaming method gets one `send` and `end`. */
  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request>;
  /** Ends every call with reason `ClientClosed` and lets the connections go. */
  close(): Promise<void>;
}

/** How a connection to one endpoint is made and watched over. */
export interface TransportOptions {
  readonly tls: TlsSource | undefined;
  /** From the start of dialling to the peer's SETTINGS: a peer that accepts and never speaks is given up then. */
  readonly connectTimeoutMs: number;
  /**
   * How often a connection with open calls or streams is probed. etcd drops a client that pings more often than every 5 s.
   * Apart from that, a request that is left without any byte for a second is followed by a probe, as far as etcd allows.
   */
  readonly pingIntervalMs: number;
  /** How long a probe may go unanswered before the connection is closed. */
  readonly pingTimeoutMs: number;
  /** Longest request sent, in bytes; a longer one is refused. */
  readonly maxRequestBytes: number;
  /** Longest response taken, in bytes. */
  readonly maxReceiveBytes: number;
  /** Operations that a transaction may have, for a transport that adds some of its own. Default 128. */
  readonly maxTxnOps?: number | undefined;
}

/** What holds where the caller says nothing else. */
export const TRANSPORT_DEFAULTS = {
  connectTimeoutMs: 3_000,
  pingIntervalMs: 6_000,
  pingTimeoutMs: 2_500,
  maxRequestBytes: 1_572_864,
  maxReceiveBytes: 2 ** 31 - 1,
} as const satisfies Omit<TransportOptions, 'tls' | 'maxTxnOps'>;

/** Makes the transport of one endpoint. Nothing is dialled before the first call. */
export type TransportFactory = (endpoint: Endpoint, options: TransportOptions) => Transport;

/** The same stream, with some of its methods replaced: for transports that stand on others. */
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
