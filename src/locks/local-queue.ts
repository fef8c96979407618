import { onAbort, UniqueQueue } from '../base/index.js';

/**
 * The queue of the lockers in one session: the callers in this process that want the same lock. The lockers share one
 * queue key in etcd, so etcd cannot tell them apart. The local queue lets one locker at a time use that key, in order
 * of arrival. `SelfHealingSession` uses a local queue without a key, so that its calls run one at a time.
 */
export class LocalQueue {
  #occupied = false;
  readonly #waiters = new UniqueQueue<() => void>();
  readonly #onEmpty: () => void;

  /** The queue calls `onEmpty` when the last locker has left. */
  constructor(onEmpty: () => void = () => {}) {
    this.#onEmpty = onEmpty;
  }

  /**
   * Waits until the caller may use the queue key. Resolves with a function that leaves the queue.
   *
   * @throws the abort reason of `signal`, if `signal` aborts first.
   */
  enter(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leaveLocalQueue = this.tryEnter();
      if (leaveLocalQueue !== undefined) return resolve(leaveLocalQueue);
      const waiter = (): void => {
        offAbort();
        resolve(this.#occupy());
      };
      const offAbort = onAbort(signal, () => {
        this.#waiters.delete(waiter);
        reject(signal.reason);
      });
      this.#waiters.add(waiter);
    });
  }

  /** Enters the queue if it is empty and returns a function that leaves the queue. Otherwise returns undefined. */
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
      this.#waiters.take()?.();
      if (!this.#occupied) this.#onEmpty();
    };
  }
}
