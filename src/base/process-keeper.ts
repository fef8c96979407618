import { after } from './timers.js';

/** A delay in milliseconds that is longer than any program runs. */
const FOREVER_MS = 2 ** 52;

/** Keeps the process alive with a timer, for a connection that has no socket of the runtime. */
export class ProcessKeeper {
  #stopTimer: (() => void) | undefined;

  keepProcessAlive(busy: boolean): void {
    if (busy) this.#stopTimer ??= after(FOREVER_MS, () => {});
    else {
      this.#stopTimer?.();
      this.#stopTimer = undefined;
    }
  }
}
