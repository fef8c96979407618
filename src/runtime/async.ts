import { withCallers } from '../errors/etcd-error.js';

/** Returns a function that runs `action` at its first call. Every later call returns the promise of the first call. */
export function once<Args extends readonly unknown[], T>(
  action: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let result: Promise<T> | undefined;
  return (...args) => {
    if (result === undefined) {
      // `result` is set before `action` runs. Otherwise, if `action` itself called the returned function, `action`
      // would run again.
      let resolveResult: (value: Promise<T>) => void = () => {};
      result = new Promise((resolve) => {
        resolveResult = resolve;
      });
      resolveResult(action(...args));
    }
    return result;
  };
}

/**
 * Runs asynchronous actions one after another, in the order of the calls of `run`. Each action runs even if the
 * previous one fails.
 */
export class SerialRunner {
  #pending = 0;
  #last: Promise<void> = Promise.resolve();

  /** Whether no action is running or waiting. */
  get isIdle(): boolean {
    return this.#pending === 0;
  }

  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#runAfter(this.#last, action);
    // `#last` resolves without the value of the action, so that the runner does not keep the value in memory.
    this.#last = result.then(ignore, ignore);
    return rethrownWithCallers(result);
  }

  async #runAfter<T>(last: Promise<void>, action: () => Promise<T>): Promise<T> {
    this.#pending += 1;
    try {
      await last;
      return await action();
    } finally {
      this.#pending -= 1;
    }
  }
}

/**
 * Returns a promise that only the caller of `run` awaits, so that the stack trace of an error shows the caller.
 * `result` itself is not suitable, because the next action awaits it too, and V8 shows no callers for a promise that is
 * awaited in two places.
 */
async function rethrownWithCallers<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw withCallers(error);
  }
}

function ignore(): void {}

const END = { done: true, value: undefined } as const;

/**
 * Iterates over the single items of batches. Reads each item of a batch only when the caller asks for it. This class is
 * not an async generator: an async generator that iterates over another async generator would cost more time for each
 * item than all other work on the item.
 */
export class BatchItemIterator<Batch, Item> implements AsyncIterableIterator<Item> {
  readonly #batches: AsyncIterator<Batch, unknown>;
  readonly #itemsOf: (batch: Batch) => Iterable<Item>;
  #items: Iterator<Item> | undefined;
  readonly #reads = new SerialRunner();
  #closed = false;

  constructor(batches: AsyncIterator<Batch, unknown>, itemsOf: (batch: Batch) => Iterable<Item>) {
    this.#batches = batches;
    this.#itemsOf = itemsOf;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    const item = this.#reads.isIdle ? this.#nextOfBatch() : undefined;
    return item ?? this.#reads.run(() => this.#nextOfBatch() ?? this.#nextBatch());
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#closed = true;
    this.#items = undefined;
    await this.#batches.return?.();
    return END;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #nextOfBatch(): Promise<IteratorResult<Item, undefined>> | undefined {
    try {
      const item = this.#items?.next();
      return item === undefined || item.done ? undefined : Promise.resolve(item);
    } catch (error) {
      return this.#closeAndThrow(error);
    }
  }

  async #nextBatch(): Promise<IteratorResult<Item, undefined>> {
    const { done, value } = this.#closed ? END : await this.#batches.next();
    if (done || this.#closed) return END;
    this.#items = this.#itemsOf(value as Batch)[Symbol.iterator]();
    return this.#nextOfBatch() ?? this.#nextBatch();
  }

  /** Closes the batches, as a `for await` loop does when its body throws, and throws `error`. */
  async #closeAndThrow(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
