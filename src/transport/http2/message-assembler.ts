import { copyOf, NO_BYTES } from '../../runtime/bytes.js';
import { Fifo } from '../../runtime/queues.js';
import { readUint32 } from './frame.js';
import { MESSAGE_PREFIX_BYTES } from './message-prefix.js';

/** What is set aside for a message on its length's word alone; beyond that there is as much as has come. */
const TRUSTED_BYTES = 65_536;
/** A buffer is used again for the next message if it is no longer. */
const KEPT_BYTES = 1_048_576;

/** What ends the stream instead of a message. */
export type Refusal = 'too large' | 'compressed' | 'malformed';

export interface AssemblerEvents {
  /** A whole message, there only for the time of the call. */
  message(bytes: Uint8Array, start: number, end: number): void;
  refused(why: Refusal, length: number): void;
}

/**
 * Cuts the data of a stream into gRPC's length-prefixed messages, as long as they are wanted; what comes meanwhile is
 * held. A message that lies whole in a frame is not copied.
 */
export class MessageAssembler {
  readonly #maxBytes: number;
  readonly #events: AssemblerEvents;
  #partial: Uint8Array = NO_BYTES;
  #partialLength = 0;
  /** Data that nobody has wanted yet; the first piece from `#heldFrom` on. Most streams never hold any. */
  #held: Fifo<Uint8Array> | undefined;
  #heldFrom = 0;
  #paused = false;
  #busy = false;
  #closed = false;

  constructor(maxBytes: number, events: AssemblerEvents) {
    this.#maxBytes = maxBytes;
    this.#events = events;
  }

  /** Whether the data ends within a message. */
  get midMessage(): boolean {
    return this.#partialLength > 0;
  }

  /** Whether there may be messages in what has come already. */
  get pending(): boolean {
    return this.#busy || this.#held !== undefined;
  }

  /** Takes data; gives how much of it is dealt with, and not held. */
  receive(bytes: Uint8Array, start: number, end: number): number {
    if (this.#closed || start === end) return end - start;
    const stopped = this.#paused || this.pending ? start : this.#cut(bytes, start, end);
    if (stopped < end && !this.#closed) {
      this.#held ??= new Fifo();
      this.#held.push(copyOf(bytes, stopped, end));
    }
    return stopped - start;
  }

  pause(): void {
    this.#paused = true;
  }

  /** Gives how much of what was held is dealt with now. */
  resume(): number {
    this.#paused = false;
    let dealtWith = 0;
    for (
      let first = this.#held?.first;
      first !== undefined && !this.#paused && !this.#busy;
      first = this.#held?.first
    ) {
      const stopped = this.#cut(first, this.#heldFrom, first.length);
      dealtWith += stopped - this.#heldFrom;
      this.#heldFrom = stopped;
      if (stopped === first.length) this.#dropFirst();
    }
    return dealtWith;
  }

  /** No message is wanted any more. */
  close(): void {
    this.#closed = true;
    this.#held = undefined;
  }

  #dropFirst(): void {
    this.#heldFrom = 0;
    this.#held?.shift();
    if (this.#held?.length === 0) this.#held = undefined;
  }

  /** Cuts messages off; gives where it stopped: at `end`, or behind the message after which no more is wanted. */
  #cut(bytes: Uint8Array, start: number, end: number): number {
    this.#busy = true;
    let at = start;
    while (at < end && !this.#paused && !this.#closed) at = this.#next(bytes, at, end);
    this.#busy = false;
    return at;
  }

  /** One message, or the beginning of one; gives where the next one begins. */
  #next(bytes: Uint8Array, at: number, end: number): number {
    if (this.#partialLength > 0) return this.#complete(bytes, at, end);
    if (end - at < MESSAGE_PREFIX_BYTES) return this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES);
    const length = this.#lengthOf(bytes, at);
    if (length < 0) return end;
    const messageEnd = at + MESSAGE_PREFIX_BYTES + length;
    if (messageEnd > end) return this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES + length);
    this.#events.message(bytes, messageEnd - length, messageEnd);
    return messageEnd;
  }

  /** Adds to the message that is not all there. */
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
    this.#events.message(message, MESSAGE_PREFIX_BYTES, total);
    return next;
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

  #keep(bytes: Uint8Array, start: number, end: number, expected: number): number {
    const needed = this.#partialLength + end - start;
    if (needed > this.#partial.length) {
      const trusted = Math.min(expected, Math.max(TRUSTED_BYTES, 2 * this.#partial.length));
      const grown = new Uint8Array(Math.max(needed, trusted));
      grown.set(this.#partial.subarray(0, this.#partialLength));
      this.#partial = grown;
    }
    this.#partial.set(bytes.subarray(start, end), this.#partialLength);
    this.#partialLength = needed;
    return end;
  }
}
