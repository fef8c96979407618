import type { Socket } from 'node:net';
import { pause } from '../runtime/timers.js';

/** How bytes travel: undefined where they go on as they come. */
export interface Pace {
  /** Milliseconds by which each read is late. */
  readonly delayMs: number | undefined;
  /** At most so many bytes in one write. */
  readonly sliceBytes: number | undefined;
  /** Nothing is read. */
  readonly paused: boolean;
}

/** One direction of one connection through a proxy: bytes leave in the order in which they came, however late. */
export class Lane {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #pace: () => Pace;
  #last: Promise<void> | undefined;

  constructor(from: Socket, to: Socket, pace: () => Pace) {
    this.#from = from;
    this.#to = to;
    this.#pace = pace;
    // A sender that is faster than the receiver has to wait, as without a proxy.
    to.on('drain', () => {
      if (!pace().paused) from.resume();
    });
  }

  push(bytes: Uint8Array): void {
    const { delayMs, sliceBytes } = this.#pace();
    if (this.#last === undefined && delayMs === undefined && sliceBytes === undefined) return this.#write(bytes);
    const arrivedAt = performance.now();
    const sent = (this.#last ?? Promise.resolve()).then(async () => {
      await pause(arrivedAt + (delayMs ?? 0) - performance.now());
      await this.#writeSlices(bytes, sliceBytes ?? bytes.length);
      if (this.#last === sent) this.#last = undefined;
    });
    this.#last = sent;
  }

  async #writeSlices(bytes: Uint8Array, sliceBytes: number): Promise<void> {
    for (let at = 0; at < bytes.length; at += sliceBytes) {
      if (at > 0) await new Promise((resolve) => setImmediate(resolve));
      this.#write(bytes.subarray(at, at + sliceBytes));
    }
  }

  #write(bytes: Uint8Array): void {
    if (!this.#to.destroyed && !this.#to.write(bytes)) this.#from.pause();
  }
}
