interface Waiter {
  enter(leave: () => void): void;
}

/**
 * First come, first served, within one process. Lockers of one session share one key in etcd and could not be told
 * apart there, so they queue here and one of them at a time goes on to the cluster.
 */
export class LocalQueue {
  #busy = false;
  readonly #waiters: Waiter[] = [];

  /** Resolves with the function that leaves again; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = this.tryEnter();
      if (leave !== undefined) return resolve(leave);
      const waiter: Waiter = {
        enter: (next) => {
          signal.removeEventListener('abort', onAbort);
          resolve(next);
        },
      };
      const onAbort = (): void => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
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
      if (next === undefined) this.#busy = false;
      else next.enter(this.#leaveOnce());
    };
  }
}
