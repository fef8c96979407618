/** Some hundred requests; longer frames get a slab of their own length. */
const SLAB_BYTES = 65_536;

/**
 * Gathers the frames of one turn of the event loop, so that they leave in one write. Bytes that were handed on are never
 * written over: the host may still be sending them.
 */
export class Outbox {
  /** Where frames are written; `reserve` tells where in it. */
  bytes: Uint8Array = new Uint8Array(SLAB_BYTES);
  #start = 0;
  #end = 0;
  #full: Uint8Array[] = [];
  /** Bytes gathered since the last `take`. */
  length = 0;

  /** Makes room; gives where in `bytes` to write. */
  reserve(length: number): number {
    if (this.#end + length > this.bytes.length) {
      if (this.#end > this.#start) this.#full.push(this.bytes.subarray(this.#start, this.#end));
      this.bytes = new Uint8Array(Math.max(SLAB_BYTES, length));
      this.#start = 0;
      this.#end = 0;
    }
    const at = this.#end;
    this.#end += length;
    this.length += length;
    return at;
  }

  /** What was gathered, in order. */
  take(): readonly Uint8Array[] {
    const parts = this.#full;
    if (this.#end > this.#start) parts.push(this.bytes.subarray(this.#start, this.#end));
    this.#full = [];
    this.#start = this.#end;
    this.length = 0;
    return parts;
  }
}
