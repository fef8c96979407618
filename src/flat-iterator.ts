/**
 * What comes in batches, one by one. By hand: a generator over a generator costs more than all else of an item.
 * A batch is read item by item as they are asked for.
 */
export class FlatIterator<Batch, Item> implements AsyncIterableIterator<Item> {
  readonly #batches: AsyncIterator<Batch, unknown>;
  readonly #itemsOf: (batch: Batch) => Iterable<Item>;
  #items: Iterator<Item> | undefined;
  /** The batch that somebody waits for: who asks meanwhile comes after. */
  #pending: Promise<unknown> | undefined;

  constructor(batches: AsyncIterator<Batch, unknown>, itemsOf: (batch: Batch) => Iterable<Item>) {
    this.#batches = batches;
    this.#itemsOf = itemsOf;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    if (this.#pending !== undefined) return this.#pending.then(() => this.next());
    try {
      const item = this.#items?.next();
      return item === undefined || item.done ? this.#fetch() : Promise.resolve(item);
    } catch (error) {
      return this.#fail(error);
    }
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#items = undefined;
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #fetch(): Promise<IteratorResult<Item, undefined>> {
    const fetched = this.#batches.next().then(({ done, value }) => {
      this.#pending = undefined;
      if (done) return { done, value: undefined } as const;
      this.#items = this.#itemsOf(value as Batch)[Symbol.iterator]();
      return this.next();
    });
    this.#pending = fetched.catch(() => {
      this.#pending = undefined;
    });
    return fetched;
  }

  /** An item could not be read: the batches are no longer wanted, as with a loop that throws. */
  async #fail(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
