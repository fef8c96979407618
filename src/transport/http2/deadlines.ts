import { after, monotonicMs } from '../../runtime/timers.js';

/** What can be kept in `Deadlines`. */
export interface Expiring {
  /** Its place in the heap, written by `Deadlines`; -1 while it has none. */
  slot: number;
  /** On the monotonic clock. */
  readonly deadline: number;
  /** Its deadline has passed, and it is not kept any longer. */
  expire(): void;
}

/**
 * The calls under way, with their time limits under one timer. Calls come and go by the ten thousand a second, and few
 * expire. They form a binary heap by deadline, so that neither a call that ends nor one that expires costs a look at all
 * the others.
 *
 * The heap is an array because V8's own sets leave behind a chain of their outgrown tables: once one of those is old,
 * each garbage collection takes all that came after it for alive.
 */
export class Deadlines<T extends Expiring> {
  /** The one at `index` expires no later than those at `2 * index + 1` and `2 * index + 2`. */
  readonly #heap: T[] = [];
  /** When the timer is due. It may be early: the call for which it was armed may have ended. */
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};

  /** In no particular order. */
  all(): readonly T[] {
    return [...this.#heap];
  }

  add(call: T): void {
    this.#heap.push(call);
    this.#up(call, this.#heap.length - 1);
    if (call.deadline < this.#due) this.#arm(call.deadline);
  }

  /** Does nothing for a call that is not kept. */
  delete(call: T): void {
    const { slot } = call;
    if (slot < 0) return;
    call.slot = -1;
    const last = this.#heap.pop() as T;
    if (last === call) return;
    if (last.deadline < call.deadline) this.#up(last, slot);
    else this.#down(last, slot);
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
    for (let [first] = this.#heap; first !== undefined && first.deadline <= now; [first] = this.#heap) {
      this.delete(first);
      first.expire();
    }
    const [next] = this.#heap;
    if (next !== undefined && next.deadline < this.#due) this.#arm(next.deadline);
  }

  /** Puts the call at this place or at one above it. */
  #up(call: T, place: number): void {
    let at = place;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = this.#heap[above] as T;
      if (parent.deadline <= call.deadline) break;
      this.#put(parent, at);
      at = above;
    }
    this.#put(call, at);
  }

  /** Puts the call at this place or at one below it. */
  #down(call: T, place: number): void {
    const { length } = this.#heap;
    let at = place;
    for (let below = 2 * at + 1; below < length; below = 2 * at + 1) {
      const right = this.#heap[below + 1];
      if (right !== undefined && right.deadline < (this.#heap[below] as T).deadline) below += 1;
      const child = this.#heap[below] as T;
      if (child.deadline >= call.deadline) break;
      this.#put(child, at);
      at = below;
    }
    this.#put(call, at);
  }

  #put(call: T, at: number): void {
    this.#heap[at] = call;
    call.slot = at;
  }
}
