/** What can be kept in `Slots`. */
export interface Slotted {
  /** Its place, written by `Slots`; -1 as long as it has none. */
  slot: number;
}

/**
 * A set of things that come and go by the ten thousand a second. V8's own leaves behind a chain of its outgrown tables:
 * once one of them is old, each garbage collection takes all that came after it for alive.
 */
export class Slots<T extends Slotted> {
  readonly #items: (T | undefined)[] = [];
  readonly #free: number[] = [];

  all(): readonly T[] {
    return this.#items.filter((item) => item !== undefined);
  }

  add(item: T): void {
    item.slot = this.#free.pop() ?? this.#items.length;
    this.#items[item.slot] = item;
  }

  delete(item: T): void {
    if (item.slot < 0) return;
    this.#items[item.slot] = undefined;
    this.#free.push(item.slot);
    item.slot = -1;
  }
}
