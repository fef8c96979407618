import { NO_BYTES } from '../../runtime/bytes.js';
import { Fifo } from '../../runtime/queues.js';
import { MESSAGE_PREFIX_BYTES, writeMessage } from './message-prefix.js';

/** What a stream has still to send, for want of a window or of the stream itself. */
export class Outgoing {
  /** Messages with their prefix; the first one from `#sentOfFirst` on. Undefined until one has to wait. */
  #messages: Fifo<Uint8Array> | undefined;
  #sentOfFirst = 0;
  #complete = false;

  /** Nothing is added any more: END_STREAM goes with the last of it. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Whether there are bytes to send. */
  get waiting(): boolean {
    return this.#messages !== undefined && this.#messages.length > 0;
  }

  end(): void {
    this.#complete = true;
  }

  push(message: Uint8Array): void {
    const framed = new Uint8Array(MESSAGE_PREFIX_BYTES + message.length);
    writeMessage(framed, 0, message);
    this.#messages ??= new Fifo();
    this.#messages.push(framed);
  }

  /** What the next frame is to carry; undefined where there is nothing, or no window for it. */
  take(maxBytes: number): { readonly bytes: Uint8Array; readonly endStream: boolean } | undefined {
    const first = this.#messages?.first;
    if (first === undefined) return this.#complete ? { bytes: NO_BYTES, endStream: true } : undefined;
    const start = this.#sentOfFirst;
    const end = Math.min(first.length, start + maxBytes);
    if (end <= start) return undefined;
    this.#sentOfFirst = end === first.length ? 0 : end;
    if (end === first.length) this.#messages?.shift();
    return { bytes: first.subarray(start, end), endStream: this.#complete && !this.waiting };
  }

  clear(): void {
    this.#messages = undefined;
  }
}
