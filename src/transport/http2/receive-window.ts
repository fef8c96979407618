/**
 * What the peer may still send, and when to allow it more: RFC 9113, section 6.9. An allowance goes out once half of
 * the window is used, so that a fast peer never waits and few frames are spent on it.
 */
export class ReceiveWindow {
  readonly #size: number;
  #left: number;
  #consumed = 0;

  constructor(size: number) {
    this.#size = size;
    this.#left = size;
  }

  /** Takes so many bytes off the window; false if the peer was not allowed to send them. */
  receive(bytes: number): boolean {
    this.#left -= bytes;
    return this.#left >= 0;
  }

  /** The bytes are dealt with; gives by how much to open the window now, 0 for not yet. */
  consume(bytes: number): number {
    this.#consumed += bytes;
    if (this.#consumed * 2 < this.#size) return 0;
    const increment = this.#consumed;
    this.#consumed = 0;
    this.#left += increment;
    return increment;
  }
}
