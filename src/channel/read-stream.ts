import { EtcdError, timedOut } from '../errors/etcd-error.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';
import { after, backoffMs, pause } from '../runtime/timers.js';
import { openServerStream } from './message-stream.js';
import { mayRetry } from './retry.js';
import { type CallOptions, checkTimeout, type Rpc } from './rpc.js';
import { isTokenRefused, MAX_RENEWALS } from './token-source.js';

/** Attempts to open a stream that fails before its first message. */
const MAX_ATTEMPTS = 5;

/**
 * The messages of a server stream. Up to the first of them a failure is dealt with as that of a unary call; after it
 * the stream ends with the error, for only the caller knows where to go on. `timeoutMs` holds for each message.
 */
export async function* readStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  request: Init<Request>,
  options: CallOptions & { readonly timeoutMs: number },
): AsyncGenerator<Response, void> {
  const timeoutMs = checkTimeout(options.timeoutMs, 'timeoutMs');
  let begun = false;
  for (let attempt = 0; ; attempt += 1) {
    const messages = openServerStream(rpc, method, request, options);
    let silent = false;
    let stopTimer = (): void => {};
    const wait = (): void => {
      stopTimer = after(timeoutMs, () => {
        silent = true;
        void messages.return?.();
      });
    };
    try {
      wait();
      for await (const message of messages) {
        stopTimer();
        begun = true;
        yield message;
        wait();
      }
      if (silent) throw timedOut('message', timeoutMs, 'unknown', method.path);
      return;
    } catch (error) {
      if (!(error instanceof EtcdError) || begun || !mayOpenAgain(rpc, method, error, attempt)) throw error;
    } finally {
      stopTimer();
    }
    await pause(backoffMs(attempt), options.signal);
  }
}

function mayOpenAgain(rpc: Rpc, method: { readonly repeatable: boolean }, error: EtcdError, attempt: number): boolean {
  if (isTokenRefused(error)) return rpc.settings.renewsTokens && attempt < MAX_RENEWALS;
  return mayRetry(method, error) && attempt + 1 < MAX_ATTEMPTS;
}
