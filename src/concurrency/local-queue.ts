import { onAbort } from '../runtime/signals.js';

/**
 * The local queue: the lockers of one session wait in it, in order of arrival, and one of them at a time uses the
 * session's queue key in etcd. They share that key, so etcd could not tell them apart.
 */
export class LocalQueue {
  #occupied = false;
  readonly #waiters: (() => void)[] = [];
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last locker has left. */
  constructor(onEmpty: () => void = () => {}) {
    this.#onEmpty = onEmpty;
  }

  /** Resolves with the function that leaves the queue again. @throws the signal's reason. */
  enter(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = this.tryEnter();
      if (leave !== undefined) return resolve(leave);
      const waiter = (): void => {
        offAbort();
        resolve(this.#occupy());
      };
      const offAbort = onAbort(signal, () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(signal.reason);
      });
      this.#waiters.push(waiter);
    });
  }

  /** Returns the function that leaves the queue again, or undefined if another locker is in it. */
  tryEnter(): (() => void) | undefined {
    return this.#occupied ? undefined : this.#occupy();
  }

  #occupy(): () => void {
    this.#occupied = true;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#occupied = false;
      this.#waiters.shift()?.();
      if (!this.#occupied) this.#onEmpty();
    };
  }
}
