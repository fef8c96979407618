import type { WatchBatch, WatchEvent } from './event.js';

/** The events of batches one by one. By hand: a generator over a generator costs more than all else of an event. */
export class EventIterator implements AsyncIterableIterator<WatchEvent> {
  readonly #batches: AsyncIterableIterator<WatchBatch>;
  #events: readonly WatchEvent[] = [];
  #index = 0;
  /** The batch that somebody waits for: who asks meanwhile comes after. */
  #pending: Promise<unknown> | undefined;

  constructor(batches: AsyncIterableIterator<WatchBatch>) {
    this.#batches = batches;
  }

  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    if (this.#pending !== undefined) return this.#pending.then(() => this.next());
    const value = this.#events[this.#index];
    if (value === undefined) return this.#fetch();
    this.#index += 1;
    return Promise.resolve({ done: false, value });
  }

  async return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.#events = [];
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #fetch(): Promise<IteratorResult<WatchEvent, undefined>> {
    const fetched = this.#batches
      .next()
      .then(
        ({ done, value }): IteratorResult<WatchEvent, undefined> | Promise<IteratorResult<WatchEvent, undefined>> => {
          this.#pending = undefined;
          if (done) return { done, value: undefined };
          this.#events = value.events;
          this.#index = 0;
          return this.next();
        },
      );
    this.#pending = fetched.catch(() => {
      this.#pending = undefined;
    });
    return fetched;
  }
}
