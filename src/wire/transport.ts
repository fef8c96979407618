import type { EtcdError } from '../base/index.js';
import type { Endpoint, TlsSource } from '../host/index.js';
import type { Method } from './protobuf/schema.js';
import type { Init } from './protobuf/writer.js';

/** gRPC metadata. The names are in lower case, and the values are printable ASCII. */
export type Metadata = Readonly<Record<string, string>>;

/** Observes the attempts of a call. Its methods must not throw, and cannot change the call. */
export interface AttemptObserver {
  /** The client makes an attempt at the endpoint with this URL. */
  attempt?(endpoint: string): void;
  /**
   * The client begins to send the request of a unary call. From then on, the server may receive the request. The
   * client may call this method several times, even within one attempt.
   */
  sent?(): void;
  /** An attempt of a unary call failed with this error. */
  failed?(error: EtcdError): void;
  /** The client will make another attempt of a unary call, because the last one failed with this error. */
  retry?(error: EtcdError): void;
  /** A response to a unary call has arrived. */
  answered?(): void;
}

interface Call<Request, Response> {
  readonly method: Method<Request, Response>;
  /**
   * The URL of the only endpoint that may carry the call, if the call concerns one member. A transport of one endpoint
   * ignores this field.
   */
  readonly endpoint?: string | undefined;
  readonly observer?: AttemptObserver | undefined;
}

/** A streaming call: any number of requests, any number of responses. */
export interface StreamCall<Request, Response> extends Call<Request, Response> {
  /** If this is a promise, the call waits for the metadata. If the promise rejects, the stream ends with that error. */
  readonly metadata?: Metadata | Promise<Metadata> | undefined;
  /**
   * Allows the transport to pass on a long response in pieces while it arrives. Each piece consists of whole fields of
   * the response. This function returns the message that the handler receives for a piece. `first` is the first piece
   * of the same response. @throws EtcdError if the response cannot be divided in this way.
   */
  readonly ofPiece?: ((piece: Response, first: Response, isLast: boolean) => Response) | undefined;
}

/** A unary call: one request and one response. */
export interface UnaryCall<Request, Response> extends Call<Request, Response> {
  readonly metadata?: Metadata | undefined;
  readonly request: Init<Request>;
  readonly signal?: AbortSignal | undefined;
  /** The time limit of the call, in milliseconds. The transports use it only in error messages. */
  readonly timeoutMs: number;
  /** When the call times out, in milliseconds on the monotonic clock. */
  readonly deadline: number;
  /**
   * Whether the call must not wait behind calls that are not urgent, because other clients or calls wait for its
   * effect. Example: the release of a lock.
   */
  readonly urgent?: boolean | undefined;
  /**
   * Whether the client guards the write and repeats it until a server answers: see `retriedWrites`. Undefined for the
   * default of the client.
   */
  readonly retryWrites?: boolean | undefined;
  /**
   * Decides whether the client makes another attempt after an error. `failures` counts the failed attempts. `isSafe`
   * says whether the client would make another attempt without this function. The result is the delay in milliseconds
   * before the next attempt, undefined for the client's own delay, or false for no further attempt. The client never
   * repeats a write that has no guard unless `isSafe` is true.
   */
  readonly retryAfter?:
    | ((error: EtcdError, failures: number, isSafe: boolean) => number | false | undefined)
    | undefined;
}

/** Receives the responses of a streaming call. Its methods must not throw. */
export interface StreamHandler<Response> {
  /** Receives a message. */
  message(message: Response): void;
  /** Receives the end of the stream. The status is OK if `error` is undefined. Called once, after all other methods. */
  end(error: EtcdError | undefined): void;
  /**
   * The connection will probably close soon: the server has announced the end with GOAWAY, the server has been silent
   * for too long while a large request is unanswered, or the connection has used up its stream identifiers. The stream
   * continues until the connection closes. The owner of a long-lived stream should open a new stream, which uses
   * another connection. Only the HTTP/2 transport calls this method. It may call the method more than once.
   */
  leaving?(): void;
}

/**
 * Sends the requests of a streaming call. The caller must not call `send` after `end`, but may call all other methods
 * at any time. After the stream has ended, the methods do nothing.
 */
export interface OutgoingStream<Request> {
  /**
   * Sends a message. The stream sends the messages in the order of the calls of `send`. Until the stream opens, the
   * messages wait in a queue.
   */
  send(message: Init<Request>): void;
  /** Half-closes the stream: the client sends no more messages. */
  end(): void;
  /**
   * Ends the stream at once. Over HTTP/2, the client sends RST_STREAM if the stream is open. The handler receives no
   * further calls. The caller passes `unresponsive` if the server did not answer in time. New calls then prefer another
   * endpoint. The caller passes `unauthenticated` if the server refused the token.
   */
  cancel(why?: 'unresponsive' | 'unauthenticated'): void;
  /** Stops the delivery of messages. If the pause is long, flow control also stops the server from sending. */
  pause(): void;
  /** Continues the delivery of messages after `pause`. */
  resume(): void;
  /**
   * Sets whether the stream keeps the process alive, which it does by default. A stream without this method always
   * keeps the process alive.
   */
  keepProcessAlive?(busy: boolean): void;
}

/**
 * Carries calls to etcd, to one endpoint or to several. Every error is an `EtcdError` whose `outcome` says whether the
 * server may have processed the request.
 */
export interface Transport {
  /**
   * Whether new calls should go to another endpoint, if there is one, because the server has been silent for too long,
   * or because the connection takes too long to open.
   */
  readonly suspect?: boolean;
  /** The number of streams that the server allows on a connection, as far as the transport knows. Default: no limit. */
  readonly maxStreams?: number;
  /** Makes a unary call. Rejects with an `EtcdError`. */
  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response>;
  /** Makes a streaming call. The caller of a server-streaming method sends one message and then calls `end`. */
  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request>;
  /** Ends every call with reason `ClientClosed`, and closes the connections. */
  close(): Promise<void>;
}

/** Options of the transport to one endpoint. */
export interface TransportOptions {
  /** The TLS options. Used only if the endpoint is an https: URL. Undefined for the defaults. */
  readonly tls: TlsSource | undefined;
  /** The time limit in milliseconds for opening a connection, from dialing to the arrival of the server's SETTINGS. */
  readonly connectTimeoutMs: number;
  /**
   * The interval in milliseconds between probes (PING frames) on a connection with open calls or streams. It should be
   * longer than 5 s, because etcd disconnects a client that pings more often than that. In addition, the transport
   * sends a probe when the server has sent nothing for a second after a request, provided that etcd's limit allows the
   * probe.
   */
  readonly pingIntervalMs: number;
  /**
   * The time limit in milliseconds for the answer to a probe. If no answer arrives, the transport closes the
   * connection, unless the probe or its answer may be queued behind other data.
   */
  readonly pingTimeoutMs: number;
  /** The maximum length of a request in bytes. The transport refuses a longer request instead of sending it. */
  readonly maxRequestBytes: number;
  /** The maximum length of a response in bytes. A call fails if its response is longer. */
  readonly maxReceiveBytes: number;
  /**
   * @internal Called once for a connection when calls have to wait because streams without a time limit take all the
   * places that the server allows. `problem` names the limit and the streams.
   */
  readonly onCrowded?: ((problem: string) => void) | undefined;
}

export const TRANSPORT_DEFAULTS = {
  connectTimeoutMs: 3_000,
  pingIntervalMs: 6_000,
  pingTimeoutMs: 2_500,
  maxRequestBytes: 1_572_864,
  maxReceiveBytes: 2 ** 31 - 1,
} as const satisfies Omit<TransportOptions, 'tls' | 'onCrowded'>;

/** Returns a transport that guards the writes of the given keyspace: see `retriedWrites`. */
export type Guarding = (keyspace: never) => Transport;

/** Creates the transport of one endpoint. The transport connects at the first call. */
export interface TransportFactory {
  (endpoint: Endpoint, options: TransportOptions): Transport;
  /** @internal Guards the writes of a client. Set if this transport may send a request twice. */
  readonly guarding?: Guarding | undefined;
}

/**
 * A transport factory that defines the endpoints, such as the factory of `memory(server)` for a server in this process.
 */
export type EmbeddedTransportFactory = TransportFactory & {
  /** The URLs of the endpoints. A client without the option `endpoints` uses them. */
  readonly endpoints: readonly string[];
};

/** Returns an observer that calls both observers. */
export function bothObservers(first: AttemptObserver, second: AttemptObserver | undefined): AttemptObserver {
  if (second === undefined) return first;
  return {
    attempt: (endpoint) => {
      first.attempt?.(endpoint);
      second.attempt?.(endpoint);
    },
    sent: () => {
      first.sent?.();
      second.sent?.();
    },
    failed: (error) => {
      first.failed?.(error);
      second.failed?.(error);
    },
    retry: (error) => {
      first.retry?.(error);
      second.retry?.(error);
    },
    answered: () => {
      first.answered?.();
      second.answered?.();
    },
  };
}

/** Returns a stream that forwards all method calls to `stream`, except those of the methods in `replaced`. */
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
    keepProcessAlive: (busy) => stream.keepProcessAlive?.(busy),
    ...replaced,
  };
}

/** `T` with every property required, so that the compiler refuses a copy of a `T` that lacks a property. */
export type Copy<T> = { readonly [K in keyof Required<T>]: T[K] };
