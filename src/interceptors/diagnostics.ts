import type { EtcdError } from '../errors/etcd-error.js';
import { diagnosticsChannel } from '../host/node.js';
import { monotonicMs } from '../runtime/timers.js';
import type { Transport } from '../transport/transport.js';
import { type CallObserver, observeStream, observeUnary } from './observe.js';

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
