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
    return result;
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

function ignore(): void {}
