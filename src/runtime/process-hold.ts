import { after } from './timers.js';

/** A delay in milliseconds that is longer than any program runs. */
const FOREVER_MS = 2 ** 52;

/** Keeps the process alive with a timer, for a connection without a socket of the runtime that does. */
export class ProcessHold {
  #release: (() => void) | undefined;

  set(busy: boolean): void {
    if (busy) this.#release ??= after(FOREVER_MS, () => {});
    else {
      this.#release?.();
      this.#release = undefined;
    }
  }
}
