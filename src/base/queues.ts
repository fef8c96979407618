/**
 * Minimum number of taken items that a `Fifo` removes from its array at once, unless the queue is empty. Each removal
 * copies the other items.
 */
const REMOVED_TOGETHER = 1_024;

/** A first-in, first-out queue. `shift` takes constant time on average, even in a long queue. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  get last(): T | undefined {
    return this.#items.at(-1);
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    // Clears the slot, so that the item can be garbage-collected before the slot is removed from the array.
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (this.length === 0 || (this.#head > REMOVED_TOGETHER && this.#head >= this.length)) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

/**
 * A first-in, first-out queue that contains each item once, and from which any item can be deleted in constant time: a
 * Set, in the order in which the items were added.
 */
export class UniqueQueue<T> extends Set<T> {
  /**
   * An iterator that is positioned behind `#first`. A new iterator for each `take` would visit all items that were
   * deleted at the front, because a Set keeps their slots until it is rehashed.
   */
  #front = this.values();
  /** The item that `#front` returned last. It is the oldest item, unless it was deleted. */
  #first: T | undefined;

  /** The oldest item. Undefined if the queue is empty. */
  get first(): T | undefined {
    if (this.size === 0) return undefined;
    if (this.#first !== undefined && this.has(this.#first)) return this.#first;
    let next = this.#front.next();
    if (next.done) {
      // An iterator that has reached the end does not see items that are added later.
      this.#front = this.values();
      next = this.#front.next();
    }
    this.#first = next.value as T;
    return this.#first;
  }

  /** Removes and returns the oldest item. Returns undefined if the queue is empty. */
  take(): T | undefined {
    const { first } = this;
    if (first !== undefined) this.delete(first);
    this.#first = undefined;
    return first;
  }
}

/** Settles a pending call of `next`. */
type Reader<T> = (result: IteratorResult<T, undefined> | Promise<IteratorResult<T, undefined>>) => void;

/**
 * Passes items from a producer that cannot wait to a consumer that can wait. The queue accepts every item until `end`
 * is called. The producer can pause its source while `size` is large. The queue calls `onTake` each time the consumer
 * takes an item out of the queue, so that the producer can resume the source.
 *
 * A client may have thousands of queues that are empty and have one reader, so such a queue takes little memory.
 */
export class AsyncQueue<T> {
  /** Undefined until an item has to wait for a reader. */
  #items: Fifo<{ item: T; readonly size: number }> | undefined;
  #size = 0;
  #readers: Reader<T>[] = [];
  #end: { readonly error: unknown } | undefined;
  readonly #onTake: (() => void) | undefined;

  constructor(onTake?: () => void) {
    this.#onTake = onTake;
  }

  /** Sum of the sizes of the items in the queue. */
  get size(): number {
    return this.#size;
  }

  get isEmpty(): boolean {
    return !this.#items?.length;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  push(item: T, size = 1): void {
    if (this.#end !== undefined) return;
    const reader = this.#readers.shift();
    if (reader !== undefined) return reader({ done: false, value: item });
    this.#items ??= new Fifo();
    this.#items.push({ item, size });
    this.#size += size;
  }

  /** Adds an item of size 0. Replaces the last item instead if `isObsolete` returns true for that item. */
  pushLatest(item: T, isObsolete: (last: T) => boolean): void {
    const last = this.#items?.last;
    if (last !== undefined && this.#end === undefined && isObsolete(last.item)) last.item = item;
    else this.push(item, 0);
  }

  /**
   * Ends the queue, which then ignores further items. The items in the queue can still be read. If `error` is given,
   * one call of `next` then rejects with `error`. All other calls report the end of the iteration.
   */
  end(error?: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { error };
    for (const reader of this.takeReaders()) this.#finish(reader);
  }

  /** Drops the items in the queue, and ends the queue. */
  discard(): void {
    this.#items = undefined;
    this.#size = 0;
    this.end();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    return new Promise((resolve) => {
      const entry = this.#items?.shift();
      if (entry !== undefined) {
        this.#size -= entry.size;
        this.#onTake?.();
        resolve({ done: false, value: entry.item });
      } else if (this.#end !== undefined) this.#finish(resolve);
      // `push` would reserve room for 17 readers.
      else if (this.#readers.length === 0) this.#readers = [resolve];
      else this.#readers.push(resolve);
    });
  }

  /** Removes the pending calls of `next`. The caller must settle them. */
  takeReaders(): Reader<T>[] {
    return this.#readers.splice(0);
  }

  #finish(reader: Reader<T>): void {
    const error = this.#end?.error;
    this.#end = { error: undefined };
    reader(error === undefined ? { done: true, value: undefined } : Promise.reject(error));
  }
}
