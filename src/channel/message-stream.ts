import { canceled } from '../errors/etcd-error.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';
import { checkSignal } from '../runtime/arguments.js';
import { AsyncQueue } from '../runtime/queues.js';
import { onAbort } from '../runtime/signals.js';
import type { CallOptions, Rpc } from './rpc.js';

/** Messages read ahead of the consumer of a stream before the server is made to wait. */
const READ_AHEAD = 16;

/** What ends a stream early, and at which endpoint it is opened. */
export type StreamOptions = Pick<CallOptions, 'signal' | 'endpoint'>;
export const STREAM_OPTIONS = { signal: true, endpoint: true } as const;

/** Both directions of a bidirectional stream. Breaking out of the iteration cancels it. */
export interface BidiStream<Request, Response> extends AsyncIterableIterator<Response> {
  /** Sends a message. Messages leave in this order. */
  send(message: Init<Request>): void;
  /** Half-close. */
  end(): void;
  /** Ends the stream at once, in both directions. */
  cancel(): void;
}

/** A stream of messages as an iterator, with flow control in place of a buffer. */
export function openStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  { signal, endpoint }: StreamOptions = {},
): BidiStream<Request, Response> {
  checkSignal(signal);
  const messages = new AsyncQueue<Response>(() => {
    if (messages.size < READ_AHEAD) stream.resume();
  });
  let offAbort = (): void => {};
  const finish = (error?: unknown): void => {
    offAbort();
    messages.end(error);
  };
  const stream = rpc.stream(
    method,
    {
      message: (message) => {
        messages.push(message);
        if (messages.size >= READ_AHEAD) stream.pause();
      },
      end: finish,
    },
    { endpoint },
  );
  const cancel = (error?: unknown): void => {
    stream.cancel();
    finish(error);
    messages.discard();
  };
  const abort = (): void => cancel(canceled(signal as AbortSignal, 'unknown', method.path));
  if (signal !== undefined) offAbort = onAbort(signal, abort);
  if (signal?.aborted) abort();
  const result: BidiStream<Request, Response> = {
    send: (message) => stream.send(message),
    end: () => stream.end(),
    cancel: () => cancel(),
    next: () => messages.next(),
    return: async () => {
      cancel();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]: () => result,
  };
  return result;
}

/** A server stream: one request, then only answers. */
export function openServerStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  request: Init<Request>,
  options?: StreamOptions,
): AsyncIterableIterator<Response> {
  const stream = openStream(rpc, method, options);
  try {
    stream.send(request);
  } catch (error) {
    stream.cancel();
    throw error;
  }
  stream.end();
  return stream;
}
