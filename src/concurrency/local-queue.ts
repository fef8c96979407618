import { onAbort } from '../runtime/signals.js';

/** Who uses the key: one that wants the lock, or one that sees to it that the key is gone. */
type Occupant = 'locker' | 'guard';

interface Waiter {
  readonly occupant: Occupant;
  take(leave: () => void): void;
}

/**
 * First come, first served, within one process. Lockers of one session share one key in etcd and could not be told
 * apart there, so they queue here and one of them at a time goes on to the cluster.
 */
export class LocalQueue {
  #occupant: Occupant | undefined;
  readonly #waiters: Waiter[] = [];
  readonly #onLeft: (() => void)[] = [];
  readonly #onEmpty: () => void;

  /** `onEmpty` is called when the last one has left. */
  constructor(onEmpty: () => void = () => {}) {
    this.#onEmpty = onEmpty;
  }

  get occupant(): Occupant | undefined {
    return this.#occupant;
  }

  /** Resolves with the function that leaves again; rejects with the signal's reason. */
  enter(signal: AbortSignal, occupant: Occupant = 'locker'): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = this.tryEnter(occupant);
      if (leave !== undefined) return resolve(leave);
      const waiter: Waiter = {
        occupant,
        take: (next) => {
          offAbort();
          resolve(next);
        },
      };
      const offAbort = onAbort(signal, () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        reject(signal.reason);
      });
      this.#waiters.push(waiter);
    });
  }

  /** The function that leaves again, or undefined where somebody is in. */
  tryEnter(occupant: Occupant = 'locker'): (() => void) | undefined {
    if (this.#occupant !== undefined) return undefined;
    return this.#seat(occupant);
  }

  /** Resolves when whoever is in now has left, or the signal aborts. */
  left(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const offAbort = onAbort(signal, resolve);
      this.#onLeft.push(() => {
        offAbort();
        resolve();
      });
    });
  }

  #seat(occupant: Occupant): () => void {
    this.#occupant = occupant;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#occupant = undefined;
      const next = this.#waiters.shift();
      next?.take(this.#seat(next.occupant));
      for (const tell of this.#onLeft.splice(0)) tell();
      if (this.#occupant === undefined) this.#onEmpty();
    };
  }
}
