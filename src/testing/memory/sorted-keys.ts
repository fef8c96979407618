/** Maximum number of keys in a block. */
const BLOCK_KEYS = 512;

/**
 * A sorted set of strings. An insertion or a deletion moves the strings of one block only, so it stays fast for 100,000
 * strings.
 */
export class SortedKeys {
  /** Blocks of sorted keys, in order. No block is empty. */
  #blocks: string[][] = [];

  /** Adds a key that is not in the set. */
  add(key: string): void {
    const at = Math.min(this.#blockOf(key), this.#blocks.length - 1);
    const block = this.#blocks[at];
    if (block === undefined) {
      this.#blocks.push([key]);
      return;
    }
    block.splice(firstFrom(block, key), 0, key);
    if (block.length > BLOCK_KEYS) this.#blocks.splice(at + 1, 0, block.splice(BLOCK_KEYS / 2));
  }

  /** Removes a key that is in the set. */
  delete(key: string): void {
    const at = this.#blockOf(key);
    const block = this.#blocks[at] as string[];
    block.splice(firstFrom(block, key), 1);
    if (block.length === 0) this.#blocks.splice(at, 1);
  }

  clear(): void {
    this.#blocks = [];
  }

  /** Yields the keys from `first` on, in order. The set must not change meanwhile. */
  *from(first: string): Generator<string, void> {
    const start = this.#blockOf(first);
    for (let at = start; at < this.#blocks.length; at += 1) {
      const block = this.#blocks[at] as string[];
      for (let index = at === start ? firstFrom(block, first) : 0; index < block.length; index += 1)
        yield block[index] as string;
    }
  }

  /** The index of the first block with a key that is not below `key`. */
  #blockOf(key: string): number {
    return lowerBound(this.#blocks.length, (at) => (this.#blocks[at]?.at(-1) as string) < key);
  }
}

/** The index of the first key that is not below `key`. */
function firstFrom(block: readonly string[], key: string): number {
  return lowerBound(block.length, (at) => (block[at] as string) < key);
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
