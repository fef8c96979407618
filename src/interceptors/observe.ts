import type { EtcdError } from '../errors/etcd-error.js';
import {
  type AttemptObserver,
  bothObservers,
  forwardStream,
  type Metadata,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  type UnaryCall,
} from '../transport/transport.js';

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
 * Learns what happens to one unary call or stream. Its methods must not throw, and cannot change the call. The messages
 * contain keys and values.
 */
export interface CallObserver extends AttemptObserver {
  /** The caller has sent a message on the stream. */
  request?(message: unknown): void;
  /** A message has arrived on the stream. */
  response?(message: unknown): void;
  /**
   * The call has ended, successfully if `error` is undefined. The error is an `EtcdError`, unless an interceptor threw
   * something else. Either this method or `canceled` is called, once.
   */
  ended(error: unknown): void;
  /** The client canceled the stream. `failure` is undefined if the client does not need the stream any more. */
  canceled?(failure: CancelFailure | undefined): void;
}

/** `T` with every property, so that the compiler refuses a copy that lacks one. */
type Copy<T> = { readonly [K in keyof Required<T>]: T[K] };

/** Makes a unary call with this metadata, and tells the observer about it, as well as the observer that the call has. */
export async function observeUnary<Request, Response>(
  observer: CallObserver,
  call: UnaryCall<Request, Response>,
  next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  metadata: Metadata | undefined = call.metadata,
): Promise<Response> {
  // Each property is named, because V8 needs more than a microsecond for `{ ...call, observer }`.
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

/** Opens a stream, and tells the observer about it until the stream ends. */
export function observeStream<Request, Response>(
  observer: CallObserver,
  call: StreamCall<Request, Response>,
  handler: StreamHandler<Response>,
  next: (call: StreamCall<Request, Response>, handler: StreamHandler<Response>) => OutgoingStream<Request>,
): OutgoingStream<Request> {
  // A stream may be canceled after its end.
  let isOver = false;
  const observed = { ...call, observer: bothObservers(observer, call.observer) };
  const ended = (error: unknown): void => {
    if (isOver) return;
    isOver = true;
    observer.ended(error);
  };
  let stream: OutgoingStream<Request>;
  try {
    stream = next(observed, {
      message: (message) => {
        if (!isOver) observer.response?.(message);
        handler.message(message);
      },
      leaving: () => handler.leaving?.(),
      end: (error) => {
        ended(error);
        handler.end(error);
      },
    });
  } catch (error) {
    ended(error);
    throw error;
  }
  return forwardStream(stream, {
    send: (message) => {
      stream.send(message);
      if (!isOver) observer.request?.(message);
    },
    cancel: (why) => {
      stream.cancel(why);
      if (isOver) return;
      isOver = true;
      observer.canceled?.(why && CANCEL_FAILURES[why]);
    },
  });
}
