import { at, callTimedOut, canceled, type Failures, monotonicMs, onAbort } from '../base/index.js';
import type { UnaryCall } from '../wire/index.js';

/**
 * Waits for something that a call needs before the client can send it, such as a token, but no longer than the deadline
 * and the signal of the call allow. The error of a wait that times out names the `failures` so far.
 *
 * @throws EtcdError with outcome `not-sent` if the wait ends early, or the error with which `needed` rejects.
 */
export function beforeSending<T>(
  call: UnaryCall<unknown, unknown>,
  needed: Promise<T>,
  failures?: Failures,
): Promise<T> {
  const { method, signal, deadline } = call;
  const undos: (() => void)[] = [];
  const waiting = new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(canceled(signal as AbortSignal, 'not-sent', method.path));
    const expire = (): void => reject(callTimedOut(call, 'not-sent', failures));
    undos.push(at(deadline, expire));
    if (signal !== undefined) undos.push(onAbort(signal, abort));
    if (signal?.aborted) abort();
    if (deadline <= monotonicMs()) expire();
    needed.then(resolve, reject);
  });
  return waiting.finally(() => {
    for (const undo of undos) undo();
  });
}
