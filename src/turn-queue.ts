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
