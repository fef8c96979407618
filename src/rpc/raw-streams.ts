import {
  AsyncQueue,
  at,
  backoffMs,
  canceled,
  checkSignal,
  checkText,
  EtcdError,
  monotonicMs,
  onAbort,
  pause,
  timedOut,
} from '../base/index.js';
import type { Init, Method } from '../wire/index.js';
import { mayRenewToken, mayRetry } from './attempts.js';
import { needsLeader } from './cluster-identity.js';
import { type CallOptions, REQUIRE_LEADER, type Rpc } from './rpc.js';

/** When a stream has this many unread messages, the client makes the server pause by means of flow control. */
const READ_AHEAD = 16;

/** Maximum number of times that the client opens a stream that keeps failing before its first message. */
const MAX_ATTEMPTS = 5;

/** Options of a stream: a signal that cancels the stream, and the endpoint where the client opens it. */
export type StreamOptions = Pick<CallOptions, 'signal' | 'endpoint'>;
export const STREAM_OPTIONS = { signal: checkSignal, endpoint: checkText } as const;

/**
 * A bidirectional stream. Iterate over the stream to read the responses. Breaking out of the loop cancels the stream.
 *
 * @example
 * const stream = etcd.raw.lease.leaseKeepAlive();
 * stream.send({ id: lease.id });
 * for await (const { ttl } of stream) {
 *   console.log(ttl);
 *   break;
 * }
 */
export interface BidiStream<Request, Response> extends AsyncIterableIterator<Response> {
  /** Sends a message after the messages of earlier calls. Does nothing after the stream has ended. */
  send(message: Init<Request>): void;
  /** Half-closes the stream: the client sends no more messages, and still receives responses. */
  end(): void;
  /** Cancels the stream at once, in both directions. Discards the responses that the caller has not read yet. */
  cancel(): void;
}

/** Opens a stream and returns it as an iterator. Flow control makes the server pause while the caller does not read. */
export function openStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  { signal, endpoint }: StreamOptions = {},
  request: Init<Request> | undefined = undefined,
): BidiStream<Request, Response> {
  rpc.checkOpen(method.path);
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
    { endpoint, metadata: needsLeader({ method, request: request ?? {} }) ? REQUIRE_LEADER : undefined },
  );
  const cancel = (error?: unknown): void => {
    finish(error);
    messages.discard();
    stream.cancel();
  };
  if (signal !== undefined && signal !== null) {
    const abort = (): void => cancel(canceled(signal, 'unknown', method.path));
    offAbort = onAbort(signal, abort);
    if (signal.aborted) abort();
  }
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

/** Opens a server stream: sends one request, half-closes the stream, and returns the responses. */
export function openServerStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  request: Init<Request>,
  options?: StreamOptions,
): AsyncIterableIterator<Response> {
  const stream = openStream(rpc, method, options, request);
  try {
    stream.send(request);
  } catch (error) {
    stream.cancel();
    throw error;
  }
  stream.end();
  return stream;
}

/**
 * Opens and reads a server stream. If the stream fails before its first message with an error after which the client
 * would retry a unary call, opens the stream again, but at most `MAX_ATTEMPTS` times in total. A failure after the
 * first message ends the iteration, because only the caller knows where to continue. `timeoutMs` limits the wait for
 * each message.
 */
export async function* readStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  request: Init<Request>,
  options: CallOptions & { readonly timeoutMs: number },
): AsyncGenerator<Response, void> {
  const { timeoutMs } = options;
  let hasMessage = false;
  let dueMs = monotonicMs() + timeoutMs;
  for (let attempt = 0; ; attempt += 1) {
    const messages = openServerStream(rpc, method, request, options);
    let isTimedOut = false;
    let stopTimer = (): void => {};
    const startTimer = (): void => {
      stopTimer = at(dueMs, () => {
        isTimedOut = true;
        void messages.return?.();
      });
    };
    try {
      startTimer();
      for await (const message of messages) {
        stopTimer();
        hasMessage = true;
        yield message;
        dueMs = monotonicMs() + timeoutMs;
        startTimer();
      }
      if (isTimedOut) throw timedOut('the wait for the next message', timeoutMs, 'unknown', method.path);
      return;
    } catch (error) {
      if (!(error instanceof EtcdError) || hasMessage || !mayReopen(rpc, method, error, attempt)) throw error;
    } finally {
      stopTimer();
    }
    await pause(backoffMs(attempt), options.signal);
  }
}

function mayReopen(
  rpc: Rpc,
  method: Pick<Method<unknown, unknown>, 'repeatable'>,
  error: EtcdError,
  attempt: number,
): boolean {
  if (mayRenewToken(rpc.settings.renewsTokens, error, attempt)) return true;
  return mayRetry(method, error) && attempt + 1 < MAX_ATTEMPTS;
}
