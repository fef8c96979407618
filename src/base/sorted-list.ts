const BLOCK_ITEMS = 512;

/**
 * A list of items in the order of their keys, with at most one item for each key. An insertion or a deletion moves the
 * items of one block only, so it stays fast in a list of a million items.
 */
export class SortedList<Item, Key> {
  /** Blocks of sorted items, in order. No block is empty. */
  #blocks: Item[][] = [];
  #size = 0;
  readonly #compare: (item: Item, key: Key) => number;

  /** `compare` returns a number below, equal to or above 0 if the item belongs before, at or after the key. */
  constructor(compare: (item: Item, key: Key) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#size;
  }

  get first(): Item | undefined {
    return this.#blocks[0]?.[0];
  }

  get(key: Key): Item | undefined {
    const block = this.#blocks[this.#blockOf(key)];
    if (block === undefined) return undefined;
    const item = block[this.#indexIn(block, key)] as Item;
    return this.#compare(item, key) === 0 ? item : undefined;
  }

  /** Adds an item, or replaces the item with the same key. */
  put(key: Key, item: Item): void {
    const at = Math.min(this.#blockOf(key), this.#blocks.length - 1);
    const block = this.#blocks[at];
    if (block === undefined) {
      this.#blocks.push([item]);
      this.#size = 1;
      return;
    }
    const index = this.#indexIn(block, key);
    if (index < block.length && this.#compare(block[index] as Item, key) === 0) {
      block[index] = item;
      return;
    }
    block.splice(index, 0, item);
    this.#size += 1;
    // Half of a long block moves to a new block. If the new item is the last one, only this item moves, so that blocks
    // that are filled in ascending order stay full.
    if (block.length > BLOCK_ITEMS)
      this.#blocks.splice(at + 1, 0, block.splice(index === block.length - 1 ? index : BLOCK_ITEMS / 2));
  }

  delete(key: Key): void {
    const at = this.#blockOf(key);
    const block = this.#blocks[at];
    if (block === undefined) return;
    const index = this.#indexIn(block, key);
    if (this.#compare(block[index] as Item, key) !== 0) return;
    block.splice(index, 1);
    this.#size -= 1;
    if (block.length === 0) this.#blocks.splice(at, 1);
  }

  clear(): void {
    this.#blocks = [];
    this.#size = 0;
  }

  /** Yields the items from `first` on, in order. The list must not change meanwhile. */
  *from(first: Key): Generator<Item, void> {
    const start = this.#blockOf(first);
    for (let at = start; at < this.#blocks.length; at += 1) {
      const block = this.#blocks[at] as Item[];
      for (let index = at === start ? this.#indexIn(block, first) : 0; index < block.length; index += 1)
        yield block[index] as Item;
    }
  }

  /** Returns the items from `first` up to, but not including, `end`, or all items from `first` on. */
  slice(first: Key, end: Key | undefined): Item[] {
    const start = this.#blockOf(first);
    const stop = end === undefined ? this.#blocks.length : this.#blockOf(end);
    return this.#blocks.slice(start, stop + 1).flatMap((block, offset) => {
      const from = offset === 0 ? this.#indexIn(block, first) : 0;
      return block.slice(from, start + offset === stop ? this.#indexIn(block, end as Key) : undefined);
    });
  }

  /** The index of the first block with an item that is not before `key`. */
  #blockOf(key: Key): number {
    return lowerBound(this.#blocks.length, (at) => this.#compare(this.#blocks[at]?.at(-1) as Item, key) < 0);
  }

  /** The index in a block of the first item that is not before `key`. */
  #indexIn(block: readonly Item[], key: Key): number {
    return lowerBound(block.length, (at) => this.#compare(block[at] as Item, key) < 0);
  }
}

/** Returns the first index for which `isBelow` is false, if it is true up to some index and false from there on. */
export function lowerBound(length: number, isBelow: (index: number) => boolean): number {
  let low = 0;
  for (let high = length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (isBelow(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
