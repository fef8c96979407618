import { Fifo } from './fifo.js';

interface Waiter<T> {
  resolve(result: IteratorResult<T, undefined>): void;
  reject(error: unknown): void;
}

/**
 * Hands items from a producer that cannot wait to a consumer that can. The queue itself refuses nothing: `size` tells
 * the producer how much lies here, and `onTake` when it has become less, so that it can stop its source meanwhile.
 */
export class AsyncQueue<T> {
  readonly #items = new Fifo<{ readonly item: T; readonly size: number }>();
  #size = 0;
  #waiters: Waiter<T>[] = [];
  #end: { readonly error: unknown } | undefined;
  readonly #onTake: () => void;

  constructor(onTake: () => void = () => {}) {
    this.#onTake = onTake;
  }

  /** Sum of the sizes of what has not been taken. */
  get size(): number {
    return this.#size;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  get ended(): boolean {
    return this.#end !== undefined;
  }

  push(item: T, size = 1): void {
    if (this.#end !== undefined) return;
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve({ done: false, value: item });
    this.#items.push({ item, size });
    this.#size += size;
  }

  /** No more items. What lies here can still be taken; then comes the end, or `error` for the first who asks. */
  end(error?: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    for (const waiter of this.#waiters.splice(0)) this.#finish(waiter);
  }

  /** Ends and forgets what lies here. */
  discard(error?: unknown): void {
    this.#items.clear();
    this.#size = 0;
    this.end(error);
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const entry = this.#items.shift();
    if (entry !== undefined) {
      this.#size -= entry.size;
      this.#onTake();
      return Promise.resolve({ done: false, value: entry.item });
    }
    return new Promise((resolve, reject) => {
      if (this.#end !== undefined) this.#finish({ resolve, reject });
      else this.#waiters.push({ resolve, reject });
    });
  }

  #finish(waiter: Waiter<T>): void {
    const error = this.#end?.error;
    this.#end = { error: undefined };
    if (error === undefined) waiter.resolve({ done: true, value: undefined });
    else waiter.reject(error);
  }
}
