import { NO_BYTES } from '../../bytes.js';
import { readUint32 } from './frame.js';

/** Compressed flag and length: https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export const MESSAGE_PREFIX_BYTES = 5;
/** What is set aside for a message on its length's word alone; beyond that there is as much as has come. */
const TRUSTED_BYTES = 65_536;
/** A buffer is used again for the next message if it is no longer. */
const KEPT_BYTES = 1_048_576;

/** What ends the stream instead of a message. */
export type Refusal = 'too large' | 'compressed' | 'malformed';

export interface AssemblerEvents {
  /** A whole message, there only for the time of the call. False: take no more for now. */
  message(bytes: Uint8Array, start: number, end: number): boolean;
  refused(why: Refusal, length: number): void;
}

/** Cuts the data of a stream into gRPC's length-prefixed messages. One that lies whole in a frame is not copied. */
export class MessageAssembler {
  readonly #maxBytes: number;
  readonly #events: AssemblerEvents;
  #partial: Uint8Array = NO_BYTES;
  #partialLength = 0;

  constructor(maxBytes: number, events: AssemblerEvents) {
    this.#maxBytes = maxBytes;
    this.#events = events;
  }

  /** Whether the data ends within a message. */
  get midMessage(): boolean {
    return this.#partialLength > 0;
  }

  /** Takes data; gives where it stopped: at `end`, or behind the message after which no more is wanted. */
  push(bytes: Uint8Array, start: number, end: number): number {
    let at = start;
    while (at < end) {
      if (this.#partialLength > 0) {
        const next = this.#complete(bytes, at, end);
        if (next < 0) return -next;
        at = next;
        continue;
      }
      if (end - at < MESSAGE_PREFIX_BYTES) {
        this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES);
        return end;
      }
      const length = this.#lengthOf(bytes, at);
      if (length < 0) return end;
      const messageEnd = at + MESSAGE_PREFIX_BYTES + length;
      if (messageEnd > end) {
        this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES + length);
        return end;
      }
      at = messageEnd;
      if (!this.#events.message(bytes, messageEnd - length, messageEnd)) return at;
    }
    return end;
  }

  /** Adds to the message that is not all there; gives where it ends, negated if no more is wanted. */
  #complete(bytes: Uint8Array, start: number, end: number): number {
    let at = start;
    if (this.#partialLength < MESSAGE_PREFIX_BYTES) {
      at = Math.min(end, start + MESSAGE_PREFIX_BYTES - this.#partialLength);
      this.#keep(bytes, start, at, MESSAGE_PREFIX_BYTES);
      if (this.#partialLength < MESSAGE_PREFIX_BYTES) return at;
    }
    const length = this.#lengthOf(this.#partial, 0);
    if (length < 0) return end;
    const total = MESSAGE_PREFIX_BYTES + length;
    const next = Math.min(end, at + total - this.#partialLength);
    this.#keep(bytes, at, next, total);
    if (this.#partialLength < total) return next;
    const message = this.#partial;
    this.#partialLength = 0;
    if (message.length > KEPT_BYTES) this.#partial = NO_BYTES;
    return this.#events.message(message, MESSAGE_PREFIX_BYTES, total) ? next : -next;
  }

  /** -1 where there will be no message. */
  #lengthOf(bytes: Uint8Array, at: number): number {
    const length = readUint32(bytes, at + 1);
    const flag = bytes[at] as number;
    if (flag === 0 && length <= this.#maxBytes) return length;
    this.#partialLength = 0;
    this.#events.refused(flag === 1 ? 'compressed' : flag === 0 ? 'too large' : 'malformed', length);
    return -1;
  }

  #keep(bytes: Uint8Array, start: number, end: number, expected: number): void {
    const needed = this.#partialLength + end - start;
    if (needed > this.#partial.length) {
      const trusted = Math.min(expected, Math.max(TRUSTED_BYTES, 2 * this.#partial.length));
      const grown = new Uint8Array(Math.max(needed, trusted));
      grown.set(this.#partial.subarray(0, this.#partialLength));
      this.#partial = grown;
    }
    this.#partial.set(bytes.subarray(start, end), this.#partialLength);
    this.#partialLength = needed;
  }
}
