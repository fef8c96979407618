import { NO_BYTES } from '../../../../src/internal.js';

/** Bytes in the order of their arrival. The cost of adding bytes does not depend on how many bytes are waiting. */
export class ByteQueue {
  #buffer: Uint8Array = NO_BYTES;
  #start = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#start;
  }

  /** All bytes. The view is valid until the next call of a method. */
  get view(): Uint8Array {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  add(bytes: Uint8Array): void {
    if (this.#end + bytes.length > this.#buffer.length) {
      const waiting = this.view;
      this.#buffer = new Uint8Array(Math.max(2 * waiting.length, waiting.length + bytes.length));
      this.#buffer.set(waiting);
      this.#start = 0;
      this.#end = waiting.length;
    }
    this.#buffer.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Removes the first bytes, by default all, and returns a copy of them. */
  take(count: number = this.length): Uint8Array {
    const taken = this.#buffer.slice(this.#start, this.#start + count);
    this.#start += count;
    if (this.#start === this.#end) {
      this.#buffer = NO_BYTES;
      this.#start = 0;
      this.#end = 0;
    }
    return taken;
  }
}
