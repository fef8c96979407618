import { SERVER_ERRORS, type ServerReason, type StatusCode } from '../../base/index.js';
import type { Init, Metadata, Method } from '../../wire/index.js';

/** The gRPC status with which the server ends a call that failed. The message is the status message. */
export class StatusError extends Error {
  override readonly name = 'StatusError';
  readonly code: StatusCode;

  constructor(code: StatusCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Returns the status for an error of a handler. An error that is no `StatusError` is a defect of the handler. */
export function statusOfHandler(error: unknown): StatusError {
  if (error instanceof StatusError) return error;
  const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new StatusError('Internal', `the handler failed: ${problem}`);
}

/** Returns one of the errors that etcd defines, with the status code and the message that etcd sends. */
export function serverError(reason: ServerReason): StatusError {
  const [code, message] = SERVER_ERRORS[reason];
  return new StatusError(code, message);
}

/** A call that a client makes to the server. */
export interface ServerCall {
  readonly metadata: Metadata;
  /** The URL of the endpoint at which the call arrived. */
  readonly endpoint: string;
  /**
   * Aborts when the client cancels the call, when the deadline of the call passes, or when the connection is lost. The
   * transport then discards the response of the call.
   */
  readonly signal: AbortSignal;
}

/** An abort reason that no handler reads. It is cheaper than the default reason, an error with a stack. */
const CANCELED = 'canceled';

/** A call that its transport can cancel. Creates the signal on demand, because most handlers do not read it. */
export class CancelableCall implements ServerCall {
  readonly metadata: Metadata;
  readonly endpoint: string;
  #controller: AbortController | undefined;
  #canceled = false;

  constructor(metadata: Metadata, endpoint: string) {
    this.metadata = metadata;
    this.endpoint = endpoint;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#canceled) this.#controller.abort(CANCELED);
    return this.#controller.signal;
  }

  /** Aborts the signal. */
  cancel(): void {
    this.#canceled = true;
    this.#controller?.abort(CANCELED);
  }
}

/** The responses of a streaming call. All methods do nothing after `end`. */
export interface ResponseStream<Response> {
  send(message: Init<Response>): void;
  /** Ends the call with the status of the error, or with status OK. */
  end(error?: StatusError): void;
}

/** Receives the requests of a streaming call. */
export interface RequestSink<Request> {
  /** Called with each request, in order. */
  message(request: Request): void;
  /** Called when the client has half-closed the stream: it sends no more requests. */
  halfClosed(): void;
  /** Called if the call ends before the handler calls `ResponseStream.end`. Called at most once, as the last method. */
  canceled(): void;
}

/** Serves a unary method. Throws, or rejects with, a `StatusError`. */
export type UnaryHandler<Request, Response> = (
  request: Request,
  call: ServerCall,
) => Init<Response> | Promise<Init<Response>>;

/** Serves a method with a stream of responses. */
export type StreamingHandler<Request, Response> = (
  responses: ResponseStream<Response>,
  call: ServerCall,
) => RequestSink<Request>;

/** A unary method and the handler that serves it. */
export interface UnaryRoute {
  readonly method: Method<unknown, unknown>;
  readonly unary: UnaryHandler<unknown, unknown>;
}

/** A method with a stream of responses, and the handler that serves it. */
interface StreamingRoute {
  readonly method: Method<unknown, unknown>;
  readonly streaming: StreamingHandler<unknown, unknown>;
}

/**
 * A method and the handler that serves it. The type parameters are erased, because a `Router` has methods of all types.
 */
export type Route = UnaryRoute | StreamingRoute;

/** The handlers of the methods that a server implements. */
export class Router {
  readonly #routes = new Map<string, Route>();

  unary<Request, Response>(method: Method<Request, Response, 'unary'>, handler: UnaryHandler<Request, Response>): void {
    this.#routes.set(method.path, { method, unary: handler as UnaryHandler<unknown, unknown> });
  }

  streaming<Request, Response>(
    method: Method<Request, Response, 'server-streaming' | 'bidi-streaming'>,
    handler: StreamingHandler<Request, Response>,
  ): void {
    this.#routes.set(method.path, { method, streaming: handler as StreamingHandler<unknown, unknown> });
  }

  /** Registers a method that answers its request with the yielded responses. The handler throws `StatusError`. */
  responses<Request, Response>(
    method: Method<Request, Response, 'server-streaming'>,
    handler: (request: Request, call: ServerCall) => Iterable<Init<Response>>,
  ): void {
    this.streaming(method, (responses, call) => ({
      message(request) {
        try {
          for (const response of handler(request, call)) responses.send(response);
          responses.end();
        } catch (error) {
          if (!(error instanceof StatusError)) throw error;
          responses.end(error);
        }
      },
      halfClosed() {},
      canceled() {},
    }));
  }

  /** The paths of all methods. */
  get paths(): readonly string[] {
    return [...this.#routes.keys()];
  }

  /** @throws StatusError with status `Unimplemented` if the server does not implement the method. */
  find(path: string): Route {
    const route = this.#routes.get(path);
    if (route !== undefined) return route;
    const at = path.lastIndexOf('/');
    if (at <= 0 || !path.startsWith('/'))
      throw new StatusError('Unimplemented', `malformed method name: ${JSON.stringify(path)}`);
    const service = path.slice(1, at);
    const name = path.slice(at + 1);
    const isKnown = [...this.#routes.keys()].some((known) => known.startsWith(`/${service}/`));
    throw new StatusError(
      'Unimplemented',
      isKnown ? `unknown method ${name} for service ${service}` : `unknown service ${service}`,
    );
  }
}

/** A server without a transport: it has the handlers of its methods. `MemoryEtcd` implements this interface. */
export interface Service {
  /** Maximum length in bytes of a message that the server receives. */
  readonly maxMessageBytes: number;
  /**
   * Registers a connection. The service calls `lost` when it stops. Returns a function that unregisters the connection,
   * or undefined if the service accepts no connection. A service without this method accepts every connection.
   */
  connect?(lost: () => void): (() => void) | undefined;
  /** @throws StatusError with status `Unimplemented` if the server does not implement the method. */
  find(path: string): Route;
}

/**
 * Returns the route of a unary method.
 *
 * @throws StatusError with status `Unimplemented` if the server does not implement the method, or with status
 *   `Internal` if the server implements it as a streaming method.
 */
export function unaryRoute(service: Pick<Service, 'find'>, path: string): UnaryRoute {
  const route = service.find(path);
  if ('unary' in route) return route;
  throw new StatusError('Internal', `${path} is not a unary method`);
}

/**
 * Returns the route of a streaming method.
 *
 * @throws StatusError with status `Unimplemented` if the server does not implement the method, or with status
 *   `Internal` if the server implements it as a unary method.
 */
export function streamingRoute(service: Pick<Service, 'find'>, path: string): StreamingRoute {
  const route = service.find(path);
  if ('streaming' in route) return route;
  throw new StatusError('Internal', `${path} is not a streaming method`);
}

/**
 * Refuses a message that is too long, before it is decoded.
 *
 * @throws StatusError with the status and text of grpc-go.
 */
export function checkMessageBytes({ maxMessageBytes: max }: Service, bytes: number): void {
  if (bytes > max)
    throw new StatusError('ResourceExhausted', `grpc: received message larger than max (${bytes} vs. ${max})`);
}
