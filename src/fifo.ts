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
