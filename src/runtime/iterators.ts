import { withCallers } from '../errors/etcd-error.js';

/** One action after the other, in the order in which they were asked for, whether those before succeed or fail. */
export class InTurn {
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  /** Nobody waits: what is at hand may be taken without a turn. */
  get isFree(): boolean {
    return this.#waiting === 0;
  }

  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#after(this.#last, action);
    // Not the result itself, which would be kept.
    this.#last = result.then(ignore, ignore);
    return awaited(result);
  }

  async #after<T>(last: Promise<void>, action: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    try {
      await last;
      return await action();
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** A promise that only the caller awaits: V8 shows no callers of one that has a second reaction. */
async function awaited<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw withCallers(error);
  }
}

function ignore(): void {}

const END = { done: true, value: undefined } as const;

/**
 * What comes in batches, one by one. By hand: a generator over a generator costs more than all else of an item.
 * A batch is read item by item as they are asked for.
 */
export class FlatIterator<Batch, Item> implements AsyncIterableIterator<Item> {
  readonly #batches: AsyncIterator<Batch, unknown>;
  readonly #itemsOf: (batch: Batch) => Iterable<Item>;
  #items: Iterator<Item> | undefined;
  readonly #turns = new InTurn();
  #over = false;

  constructor(batches: AsyncIterator<Batch, unknown>, itemsOf: (batch: Batch) => Iterable<Item>) {
    this.#batches = batches;
    this.#itemsOf = itemsOf;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    const item = this.#turns.isFree ? this.#atHand() : undefined;
    return item ?? this.#turns.run(() => this.#atHand() ?? this.#fetch());
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#over = true;
    this.#items = undefined;
    await this.#batches.return?.();
    return END;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #atHand(): Promise<IteratorResult<Item, undefined>> | undefined {
    try {
      const item = this.#items?.next();
      return item === undefined || item.done ? undefined : Promise.resolve(item);
    } catch (error) {
      return this.#fail(error);
    }
  }

  async #fetch(): Promise<IteratorResult<Item, undefined>> {
    const { done, value } = this.#over ? END : await this.#batches.next();
    if (done || this.#over) return END;
    this.#items = this.#itemsOf(value as Batch)[Symbol.iterator]();
    return this.#atHand() ?? this.#fetch();
  }

  /** An item could not be read: the batches are no longer wanted, as with a loop that throws. */
  async #fail(error: unknown): Promise<never> {
    await this.return();
    throw error;
  }
}
