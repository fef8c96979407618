import type { EtcdError } from '../errors/etcd-error.js';
import { diagnosticsChannel } from '../host/node.js';
import { monotonicMs } from '../runtime/timers.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import { forwardStream } from '../transport/transport.js';

/** One call or stream, the same object from its start to its end. No key, value, token or password is in it. */
export interface CallDiagnostics {
  /** gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  readonly kind: 'unary' | 'stream';
  /** On the monotonic clock, in milliseconds. */
  readonly startMs: number;
  /** URLs in the order in which they were tried; of a stream the one at which it was opened. */
  readonly endpoints: string[];
  /** Messages of a stream that were sent; of a unary call 0. */
  sent: number;
  /** Messages of a stream that have come; of a unary call 0. */
  received: number;
  /** Set at the end. */
  durationMs: number | undefined;
  error: EtcdError | undefined;
}

const started = diagnosticsChannel('etcdwire:call:start');
const ended = diagnosticsChannel('etcdwire:call:end');

/**
 * Tells of every call on `node:diagnostics_channel`, where the host has it: `etcdwire:call:start` and `etcdwire:call:end`,
 * with a `CallDiagnostics`. Where nobody listens a call costs two looks at a property more.
 */
export class Diagnosed implements Transport {
  readonly #inner: Transport;

  constructor(inner: Transport) {
    this.#inner = inner;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    return started.hasSubscribers || ended.hasSubscribers ? this.#told(call) : this.#inner.unary(call);
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    if (!started.hasSubscribers && !ended.hasSubscribers) return this.#inner.stream(call, handler);
    const told = begin(call, 'stream');
    const stream = this.#inner.stream<Request, Response>(
      { ...call, onAttempt: noting(told, call) },
      {
        message: (message) => {
          told.received += 1;
          handler.message(message);
        },
        leaving: () => handler.leaving?.(),
        end: (error) => {
          end(told, error);
          handler.end(error);
        },
      },
    );
    return forwardStream(stream, {
      send: (message) => {
        stream.send(message);
        told.sent += 1;
      },
      cancel: (why) => {
        stream.cancel(why);
        end(told, undefined);
      },
    });
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #told<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const told = begin(call, 'unary');
    try {
      const response = await this.#inner.unary({
        ...call,
        onAttempt: noting(told, call),
      });
      end(told, undefined);
      return response;
    } catch (error) {
      end(told, error as EtcdError);
      throw error;
    }
  }
}

function begin(
  { method }: { readonly method: { readonly path: string } },
  kind: CallDiagnostics['kind'],
): CallDiagnostics {
  const told: CallDiagnostics = {
    method: method.path,
    kind,
    startMs: monotonicMs(),
    endpoints: [],
    sent: 0,
    received: 0,
    durationMs: undefined,
    error: undefined,
  };
  started.publish(told);
  return told;
}

/** Beside whoever else wants to know. */
function noting(told: CallDiagnostics, { onAttempt }: Pick<UnaryCall<unknown, unknown>, 'onAttempt'>) {
  return (endpoint: string): void => {
    told.endpoints.push(endpoint);
    onAttempt?.(endpoint);
  };
}

/** Once: a stream that has ended may be cancelled afterwards. */
function end(told: CallDiagnostics, error: EtcdError | undefined): void {
  if (told.durationMs !== undefined) return;
  told.durationMs = monotonicMs() - told.startMs;
  told.error = error;
  ended.publish(told);
}
