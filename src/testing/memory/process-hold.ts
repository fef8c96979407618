import { after } from '../../runtime/timers.js';

/** A delay in milliseconds that is longer than any test. */
const FOREVER_MS = 2 ** 52;

/** Keeps the process alive with a timer, because a connection inside the process has no socket that does. */
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
