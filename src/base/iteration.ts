import { checkSignal, type SignalOption } from './arguments.js';
import { onAbort } from './signals.js';

const END = { done: true, value: undefined } as const;

/**
 * Returns an iterator over the items that `generate` yields. `generate` runs at the first call of `next`. The signal
 * that it gets aborts when `signal` aborts, and when the iteration ends.
 *
 * `return` ends the iteration at once: a pending call of `next` then reports the end. `return` of a generator would wait
 * for that call, which may wait for an event that never happens.
 */
export function iterate<T>(
  signal: SignalOption,
  generate: (signal: AbortSignal) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  return new Iteration(signal, generate);
}

class Iteration<T> implements AsyncGenerator<T, void> {
  readonly #signal: SignalOption;
  readonly #generate: (signal: AbortSignal) => AsyncGenerator<T, void>;
  readonly #controller = new AbortController();
  #items: AsyncGenerator<T, void> | undefined;
  #hasEnded = false;
  #offAbort = (): void => {};

  constructor(signal: SignalOption, generate: (signal: AbortSignal) => AsyncGenerator<T, void>) {
    this.#signal = signal;
    this.#generate = generate;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    if (this.#hasEnded) return END;
    this.#items ??= this.#begin();
    try {
      const result = await this.#items.next();
      if (!this.#hasEnded && !result.done) return result;
    } catch (error) {
      if (!this.#hasEnded) {
        this.#end();
        throw error;
      }
    }
    this.#end();
    return END;
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#end();
    // Runs the `finally` blocks of a generator that waits for the next call of `next`.
    this.#items?.return().catch(() => {});
    return END;
  }

  async throw(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #begin(): AsyncGenerator<T, void> {
    const signal = this.#signal;
    checkSignal(signal);
    const abort = (): void => this.#controller.abort(signal?.reason);
    this.#offAbort = onAbort(signal, abort);
    if (signal?.aborted) abort();
    return this.#generate(this.#controller.signal);
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#offAbort();
    this.#controller.abort();
  }
}
