/**
 * What comes in batches, one by one. By hand: a generator over a generator costs more than all else of an item.
 * A batch is read item by item as they are asked for.
 */
export class FlatIterator<Batch, Item> implements AsyncIterableIterator<Item> {
  readonly #batches: AsyncIterator<Batch, unknown>;
  readonly #itemsOf: (batch: Batch) => Iterable<Item>;
  #items: Iterator<Item> | undefined;
  /** The last of those who wait: who asks meanwhile comes after. */
  #pending: Promise<unknown> | undefined;

  constructor(batches: AsyncIterator<Batch, unknown>, itemsOf: (batch: Batch) => Iterable<Item>) {
    this.#batches = batches;
    this.#itemsOf = itemsOf;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    return this.#pending === undefined ? this.#take() : this.#wait(this.#pending.then(() => this.#take()));
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#items = undefined;
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(): Promise<IteratorResult<Item, undefined>> {
    try {
      const item = this.#items?.next();
      if (item !== undefined && !item.done) return Promise.resolve(item);
    } catch (error) {
      return this.#fail(error);
    }
    const fetched = this.#fetch();
    return this.#pending === undefined ? this.#wait(fetched) : fetched;
  }

  async #fetch(): Promise<IteratorResult<Item, undefined>> {
    const { done, value } = await this.#batches.next();
    if (done) return { done, value: undefined };
    this.#items = this.#itemsOf(value as Batch)[Symbol.iterator]();
    return this.#take();
  }

  #wait<T>(result: Promise<T>): Promise<T> {
    const pending = result
      .catch(() => {})
      .then(() => {
        if (this.#pending === pending) this.#pending = undefined;
      });
    this.#pending = pending;
    return result;
  }

  /** An item could not be read: the batches are no longer wanted, as with a loop that throws. */
  async #fail(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
