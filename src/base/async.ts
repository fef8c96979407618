import { withCallers } from './etcd-error.js';

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

const END = { done: true, value: undefined } as const;

/** Rejects with the error. Its stack trace then shows the code that awaits the returned promise. */
function rethrow(error: unknown): never {
  throw withCallers(error);
}

/** An iterator over batches. */
export interface Batches<Batch> extends AsyncIterator<Batch, unknown> {
  /** Whether the consumer gets no more items, not even those of a batch that it has begun. */
  readonly isOver?: boolean;
}

/**
 * Iterates over the single items of batches. Reads each item of a batch only when the caller asks for it. Concurrent
 * calls of `next` get their items in the order of the calls. If the iterator of the batches `isOver`, drops the rest of
 * the current batch.
 *
 * This class is not an async generator: an async generator that iterates over another async generator would cost more
 * time for each item than all other work on the item. A program may have thousands of iterators that wait for a batch,
 * so the wait is not an async method either, because each frame of such a method takes several hundred bytes.
 */
export class BatchItemIterator<Batch, Item> implements AsyncIterableIterator<Item>, Batches<Item> {
  readonly #batches: Batches<Batch>;
  readonly #itemsOf: (batch: Batch) => Iterable<Item>;
  #items: Iterator<Item> | undefined;
  /** Number of calls of `next` that wait for a batch or for an earlier call. Includes calls that have failed. */
  #waiting = 0;
  /** The promise of the latest call that waits. Undefined if `#waiting` is 0. */
  #last: Promise<IteratorResult<Item, undefined>> | undefined;
  #closed = false;

  constructor(batches: Batches<Batch>, itemsOf: (batch: Batch) => Iterable<Item>) {
    this.#batches = batches;
    this.#itemsOf = itemsOf;
  }

  /** @internal */
  get isOver(): boolean {
    return this.#closed || this.#batches.isOver === true;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    if (this.#closed) return Promise.resolve(END);
    const last = this.#last;
    const item = last === undefined ? this.#nextOfBatch() : undefined;
    if (item !== undefined) return item;
    this.#waiting += 1;
    const read = (): Promise<IteratorResult<Item, undefined>> | typeof END => this.#read();
    this.#last = last === undefined ? this.#nextBatch() : last.then(read, read);
    return this.#last;
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
      const item = this.#batches.isOver ? undefined : this.#items?.next();
      return item === undefined || item.done ? undefined : Promise.resolve(item);
    } catch (error) {
      return this.#closeAndThrow(error);
    }
  }

  #nextBatch(): Promise<IteratorResult<Item, undefined>> {
    return this.#batches.next().then(({ done, value }) => {
      if (done) this.#closed = true;
      if (!this.#closed) this.#items = this.#itemsOf(value as Batch)[Symbol.iterator]();
      return this.#read();
    }, rethrow);
  }

  /** Continues the oldest call that waits. */
  #read(): Promise<IteratorResult<Item, undefined>> | typeof END {
    if (this.#closed) return this.#finish(END);
    const item = this.#nextOfBatch();
    return item === undefined ? this.#nextBatch() : this.#finish(item);
  }

  /** Ends the wait of the oldest call with this result. */
  #finish<T>(result: T): T {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#last = undefined;
    return result;
  }

  /** Closes the batches, as a `for await` loop does when its body throws, and throws `error`. */
  async #closeAndThrow(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
