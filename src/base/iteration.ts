import { checkSignal, type SignalOption } from './arguments.js';
import type { Batches } from './async.js';
import { onAbort } from './signals.js';

const END = { done: true, value: undefined } as const;

/**
 * Returns an iterator over the items that `generate` yields. `generate` runs at the first call of `next`. The signal
 * that it gets aborts when `given` aborts, and when the iteration ends.
 *
 * `return` ends the iteration at once: a pending call of `next` then reports the end. `return` of a generator would wait
 * for that call, which may wait for an event that never happens.
 */
export function iterate<T>(
  given: SignalOption,
  generate: (signal: AbortSignal) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> & Batches<T> {
  const controller = new AbortController();
  let items: AsyncGenerator<T, void> | undefined;
  let hasEnded = false;
  let offAbort = (): void => {};

  const begin = (): AsyncGenerator<T, void> => {
    checkSignal(given);
    const abort = (): void => controller.abort(given?.reason);
    offAbort = onAbort(given, abort);
    if (given?.aborted) abort();
    return generate(controller.signal);
  };
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    offAbort();
    controller.abort();
  };

  const iteration: AsyncGenerator<T, void> & Batches<T> = {
    get isOver() {
      return controller.signal.aborted;
    },
    async next() {
      if (hasEnded) return END;
      items ??= begin();
      try {
        const result = await items.next();
        if (!hasEnded && !result.done) return result;
      } catch (error) {
        if (!hasEnded) {
          end();
          throw error;
        }
      }
      end();
      return END;
    },
    async return() {
      end();
      // Runs the `finally` blocks of a generator that waits for the next call of `next`.
      items?.return().catch(() => {});
      return END;
    },
    async throw(error) {
      await iteration.return();
      throw error;
    },
    [Symbol.asyncIterator]: () => iteration,
    async [Symbol.asyncDispose]() {
      await iteration.return();
    },
  };
  return iteration;
}
