import { after, monotonicMs } from '../../time.js';

export interface Expiring {
  /** On the monotonic clock. */
  readonly deadline: number;
  expire(): void;
}

/** The time limits of many calls under one timer: calls come and go by the ten thousand a second, and few expire. */
export class Deadlines {
  readonly #calls = new Set<Expiring>();
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};

  add(call: Expiring): void {
    this.#calls.add(call);
    if (call.deadline < this.#due) this.#arm(call.deadline);
  }

  delete(call: Expiring): void {
    this.#calls.delete(call);
  }

  /** No call is left. */
  stop(): void {
    this.#stopTimer();
  }

  /** It holds no process: the connection of a call under way does. */
  #arm(due: number): void {
    this.#stopTimer();
    this.#due = due;
    this.#stopTimer = after(due - monotonicMs(), () => this.#expire(), 'background');
  }

  #expire(): void {
    const now = monotonicMs();
    this.#due = Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const call of this.#calls) {
      if (call.deadline <= now) {
        this.#calls.delete(call);
        call.expire();
      } else if (call.deadline < next) next = call.deadline;
    }
    if (next < this.#due) this.#arm(next);
  }
}
