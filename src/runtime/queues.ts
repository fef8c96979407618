/** Taken entries are dropped when there are so many, and as many as those that are left: to drop any moves the others. */
const DROPPED_TOGETHER = 1_024;

/** First in, first out, however many there are: taking from the front of a long array would move all of it. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    // What was taken must not be held here until the array is cut.
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (this.length === 0 || (this.#head > DROPPED_TOGETHER && this.#head >= this.length)) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}

/** First in, first out, each once; any of them can leave before its turn. Every operation takes constant time. */
export class TurnQueue<T> {
  readonly #items = new Set<T>();
  /**
   * Stands at the front, because what it has passed was taken. A new iterator for each `take` would pass over everything
   * that was deleted at the front, which a Set keeps until it is rehashed.
   */
  #front = this.#items.values();

  get size(): number {
    return this.#items.size;
  }

  has(item: T): boolean {
    return this.#items.has(item);
  }

  clear(): void {
    this.#items.clear();
  }

  /** Adds the item at the end, unless it is in the queue. */
  add(item: T): void {
    this.#items.add(item);
  }

  /** Whether it was in the queue. */
  delete(item: T): boolean {
    return this.#items.delete(item);
  }

  /** Takes the item that has waited longest. */
  take(): T | undefined {
    if (this.#items.size === 0) return undefined;
    let next = this.#front.next();
    if (next.done) {
      // An iterator that has come to the end stays there.
      this.#front = this.#items.values();
      next = this.#front.next();
    }
    const item = next.value as T;
    this.#items.delete(item);
    return item;
  }
}

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
