import { withCallers } from './errors.js';

/** One action after the other, in the order in which they were asked for, whether those before succeed or fail. */
export class InTurn {
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();

  /** Nobody waits: what is at hand may be taken without a turn. */
  get isFree(): boolean {
    return this.#waiting === 0;
  }

  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#after(this.#last, action);
    // Not the result itself, which would be kept.
    this.#last = result.then(ignore, ignore);
    return awaited(result);
  }

  async #after<T>(last: Promise<void>, action: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    try {
      await last;
      return await action();
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** A promise that only the caller awaits: V8 shows no callers of one that has a second reaction. */
async function awaited<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw withCallers(error);
  }
}

function ignore(): void {}
