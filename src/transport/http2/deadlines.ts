import { after, monotonicMs } from '../../time.js';
import type { Slots, Slotted } from './slots.js';

export interface Expiring extends Slotted {
  /** On the monotonic clock. */
  readonly deadline: number;
  /** It is not kept any longer after this. */
  expire(): void;
}

/** The time limits of many calls under one timer: calls come and go by the ten thousand a second, and few expire. */
export class Deadlines {
  readonly #calls: Slots<Expiring>;
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};

  constructor(calls: Slots<Expiring>) {
    this.#calls = calls;
  }

  /** There is a new call. */
  added({ deadline }: Expiring): void {
    if (deadline < this.#due) this.#arm(deadline);
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
    for (const call of this.#calls.all()) {
      if (call.deadline <= now) call.expire();
      else if (call.deadline < next) next = call.deadline;
    }
    if (next < this.#due) this.#arm(next);
  }
}
