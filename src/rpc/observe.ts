import { type EtcdError, monotonicMs } from '../base/index.js';
import { diagnosticsChannel } from '../host/node.js';
import {
  type AttemptObserver,
  bothObservers,
  type Copy,
  forwardStream,
  type Metadata,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type UnaryCall,
} from '../wire/index.js';

/** A failure because of which the client canceled a stream. */
export type CancelFailure = Pick<EtcdError, 'code' | 'reason' | 'message'>;

/** The failures that the arguments of `OutgoingStream.cancel` stand for. */
const CANCEL_FAILURES = {
  unresponsive: {
    code: 'DeadlineExceeded',
    reason: 'DeadlineExceeded',
    message: 'the server did not answer in time',
  },
  unauthenticated: {
    code: 'Unauthenticated',
    reason: 'InvalidAuthToken',
    message: 'the server refused the token',
  },
} as const satisfies Readonly<Record<string, CancelFailure>>;

/**
 * Observes one unary call or stream. Its methods must not throw, and cannot change the call. The messages contain keys
 * and values.
 */
export interface CallObserver extends AttemptObserver {
  /** The caller has sent a message on the stream. */
  request?(message: unknown): void;
  /** A message has arrived on the stream. */
  response?(message: unknown): void;
  /**
   * The call has ended, successfully if `error` is undefined. The error is an `EtcdError`, unless an interceptor threw
   * something else. Each call or stream ends with one call of this method or of `canceled`.
   */
  ended(error: unknown): void;
  /** The client canceled the stream. `failure` is undefined if the client no longer needs the stream. */
  canceled?(failure: CancelFailure | undefined): void;
}

/** Makes a unary call with `metadata`. Reports the call to `observer` and to the observer that the call already has. */
export async function observeUnary<Request, Response>(
  observer: CallObserver,
  call: UnaryCall<Request, Response>,
  next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  metadata: Metadata | undefined = call.metadata,
): Promise<Response> {
  // Name each property, because V8 needs more than a microsecond for `{ ...call, observer }`.
  const { method, request, endpoint, signal, timeoutMs, deadline, urgent, retryWrites, retryAfter } = call;
  const observed: Copy<UnaryCall<Request, Response>> = {
    method,
    request,
    metadata,
    endpoint,
    signal,
    timeoutMs,
    deadline,
    urgent,
    retryWrites,
    retryAfter,
    observer: bothObservers(observer, call.observer),
  };
  let response: Response;
  try {
    response = await next(observed);
  } catch (error) {
    observer.ended(error);
    throw error;
  }
  observer.ended(undefined);
  return response;
}

/** Opens a stream, and reports its messages and its end to the observer. */
export function observeStream<Request, Response>(
  observer: CallObserver,
  call: StreamCall<Request, Response>,
  handler: StreamHandler<Response>,
  next: (call: StreamCall<Request, Response>, handler: StreamHandler<Response>) => OutgoingStream<Request>,
): OutgoingStream<Request> {
  // The client may cancel a stream after the end of the stream. The observer must not see this.
  let ended = false;
  const observed = { ...call, observer: bothObservers(observer, call.observer) };
  const end = (error: unknown): void => {
    if (ended) return;
    ended = true;
    observer.ended(error);
  };
  let stream: OutgoingStream<Request>;
  try {
    stream = next(observed, {
      message: (message) => {
        if (!ended) observer.response?.(message);
        handler.message(message);
      },
      leaving: () => handler.leaving?.(),
      end: (error) => {
        end(error);
        handler.end(error);
      },
    });
  } catch (error) {
    end(error);
    throw error;
  }
  return forwardStream(stream, {
    send: (message) => {
      stream.send(message);
      if (!ended) observer.request?.(message);
    },
    cancel: (why) => {
      stream.cancel(why);
      if (ended) return;
      ended = true;
      observer.canceled?.(why && CANCEL_FAILURES[why]);
    },
  });
}

/**
 * Describes one unary call or stream on the diagnostics channels `etcdwire:call:start` and `etcdwire:call:end`. For
 * each call, both channels publish the same object. The object contains no key, value, token or password.
 *
 * @example
 * import { subscribe } from 'node:diagnostics_channel';
 *
 * subscribe('etcdwire:call:end', (message) => {
 *   const { method, durationMs, error } = message as CallDiagnostics;
 *   console.log(method, durationMs, error?.reason ?? 'OK');
 * });
 */
export interface CallDiagnostics {
  /** gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  readonly kind: 'unary' | 'stream';
  /** Start of the call in milliseconds, on the monotonic clock. */
  readonly startMs: number;
  /** URLs of the endpoints that were tried, in order. A stream tries a single endpoint. */
  readonly endpoints: string[];
  /** Number of messages sent on a stream. 0 for a unary call. */
  sent: number;
  /** Number of messages received on a stream. 0 for a unary call. */
  received: number;
  /** Duration of the call in milliseconds. Undefined until the call ends. */
  durationMs: number | undefined;
  /**
   * Why the call failed. Undefined while the call is in progress, if it succeeded, and if the client canceled the
   * stream.
   */
  error: EtcdError | undefined;
}

const started = diagnosticsChannel('etcdwire:call:start');
const ended = diagnosticsChannel('etcdwire:call:end');

function hasSubscribers(): boolean {
  return started.hasSubscribers || ended.hasSubscribers;
}

/**
 * Returns a transport that publishes every call on `node:diagnostics_channel`, if the runtime has that module. Without
 * a subscriber, the extra cost of a call is two property reads.
 */
export function withDiagnostics(inner: Transport): Transport {
  return {
    unary: (call) =>
      hasSubscribers()
        ? observeUnary(publish(call.method.path, 'unary'), call, (observed) => inner.unary(observed))
        : inner.unary(call),
    stream: (call, handler) =>
      hasSubscribers()
        ? observeStream(publish(call.method.path, 'stream'), call, handler, (observed, receiver) =>
            inner.stream(observed, receiver),
          )
        : inner.stream(call, handler),
    close: () => inner.close(),
  };
}

/** Publishes the start of a call. Returns an observer that publishes the end of the call. */
function publish(method: string, kind: CallDiagnostics['kind']): CallObserver {
  const record: CallDiagnostics = {
    method,
    kind,
    startMs: monotonicMs(),
    endpoints: [],
    sent: 0,
    received: 0,
    durationMs: undefined,
    error: undefined,
  };
  const end = (error: EtcdError | undefined): void => {
    record.durationMs = monotonicMs() - record.startMs;
    record.error = error;
    ended.publish(record);
  };
  started.publish(record);
  return {
    attempt: (endpoint) => void record.endpoints.push(endpoint),
    request: () => {
      record.sent += 1;
    },
    response: () => {
      record.received += 1;
    },
    ended: (error) => end(error as EtcdError | undefined),
    canceled: () => end(undefined),
  };
}
