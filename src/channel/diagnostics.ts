import type { EtcdError } from '../errors/etcd-error.js';
import { diagnosticsChannel } from '../host/node.js';
import { monotonicMs } from '../runtime/timers.js';
import { forwardStream, type Transport, type UnaryCall } from '../transport/transport.js';

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
  /** Why the call failed. Undefined while the call is in progress, and if it succeeded. */
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
    unary: (call) => (hasSubscribers() ? publishedUnary(inner, call) : inner.unary(call)),
    stream: (call, handler) => {
      if (!hasSubscribers()) return inner.stream(call, handler);
      const record = publishStart(call, 'stream');
      const recorded = { ...call, onAttempt: recordingAttempts(record, call) };
      const stream = inner.stream(recorded, {
        message: (message) => {
          record.received += 1;
          handler.message(message);
        },
        leaving: () => handler.leaving?.(),
        end: (error) => {
          publishEnd(record, error);
          handler.end(error);
        },
      });
      return forwardStream(stream, {
        send: (message) => {
          stream.send(message);
          record.sent += 1;
        },
        cancel: (why) => {
          stream.cancel(why);
          publishEnd(record, undefined);
        },
      });
    },
    close: () => inner.close(),
  };
}

async function publishedUnary<Request, Response>(
  inner: Transport,
  call: UnaryCall<Request, Response>,
): Promise<Response> {
  const record = publishStart(call, 'unary');
  try {
    const response = await inner.unary({ ...call, onAttempt: recordingAttempts(record, call) });
    publishEnd(record, undefined);
    return response;
  } catch (error) {
    publishEnd(record, error as EtcdError);
    throw error;
  }
}

type AnyCall = Pick<UnaryCall<unknown, unknown>, 'onAttempt'> & { readonly method: { readonly path: string } };

function publishStart({ method }: AnyCall, kind: CallDiagnostics['kind']): CallDiagnostics {
  const record: CallDiagnostics = {
    method: method.path,
    kind,
    startMs: monotonicMs(),
    endpoints: [],
    sent: 0,
    received: 0,
    durationMs: undefined,
    error: undefined,
  };
  started.publish(record);
  return record;
}

/** Returns an `onAttempt` function that records the endpoint, and then calls the `onAttempt` of the given call. */
function recordingAttempts(record: CallDiagnostics, { onAttempt }: AnyCall) {
  return (endpoint: string): void => {
    record.endpoints.push(endpoint);
    onAttempt?.(endpoint);
  };
}

/**
 * Publishes the end of a call. Ignores a second end of the same call, because a stream may be canceled after its end.
 */
function publishEnd(record: CallDiagnostics, error: EtcdError | undefined): void {
  if (record.durationMs !== undefined) return;
  record.durationMs = monotonicMs() - record.startMs;
  record.error = error;
  ended.publish(record);
}
