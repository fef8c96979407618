import { onAbort } from '../on-abort.js';

/**
 * First come, first served, within one process. Lockers of one session share one key in etcd and could not be told
 * apart there, so they queue here and one of them at a time goes on to the cluster.
 */
export class LocalQueue {
  #busy = false;
  readonly #waiters: ((leave: () => void) => void)[] = [];

  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last one has left. */
  constructor(onEmpty: () => void = () => {}) {
    this.#onEmpty = onEmpty;
  }

  /** Resolves with the function that leaves again; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = this.tryEnter();
      if (leave !== undefined) return resolve(leave);
      const waiter = (next: () => void): void => {
        offAbort();
        resolve(next);
      };
      const offAbort = onAbort(signal, () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(signal.reason);
      });
      this.#waiters.push(waiter);
    });
  }

  /** The function that leaves again, or undefined where somebody is in. */
  tryEnter(): (() => void) | undefined {
    if (this.#busy) return undefined;
    this.#busy = true;
    return this.#leaveOnce();
  }

  #leaveOnce(): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = this.#waiters.shift();
      if (next !== undefined) return next(this.#leaveOnce());
      this.#busy = false;
      this.#onEmpty();
    };
  }
}
