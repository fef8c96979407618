import { at, monotonicMs } from './timers.js';

/** An item of `Deadlines`: a call that expires at its deadline. */
export interface Expiring {
  /**
   * The index of the item in the heap of `Deadlines`, or -1 if the item is not in the heap. Only `Deadlines` writes
   * this field.
   */
  slot: number;
  /** When the item expires, in milliseconds on the monotonic clock. */
  readonly deadline: number;
  /** Called when the deadline has passed, after `Deadlines` has removed the item. */
  expire(): void;
}

/**
 * The deadlines of the calls under way, with one timer for all of them. Tens of thousands of calls start and end each
 * second, and few of them expire. A binary heap by deadline keeps the cost of each call logarithmic.
 *
 * The heap is an array rather than a Set or a Map. When a hash table of V8 grows or shrinks, the old table keeps a
 * reference to the new table. Once one such discarded table is in the old generation, each minor garbage collection
 * treats all later tables in this chain as alive.
 */
export class Deadlines<T extends Expiring> {
  /** The item at `index` expires no later than the items at `2 * index + 1` and `2 * index + 2`. */
  readonly #heap: T[] = [];
  /**
   * When the timer fires. The call for which the timer was set may have ended by then. In that case, the timer fires
   * although no call expires.
   */
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};

  /** All items, in no particular order. */
  all(): readonly T[] {
    return [...this.#heap];
  }

  add(call: T): void {
    this.#heap.push(call);
    this.#moveUp(call, this.#heap.length - 1);
    if (call.deadline < this.#due) this.#arm(call.deadline);
  }

  /** Removes the call. Does nothing if the call is not in the heap. */
  delete(call: T): void {
    const { slot } = call;
    if (slot < 0) return;
    call.slot = -1;
    const last = this.#heap.pop() as T;
    if (last === call) return;
    if (last.deadline < call.deadline) this.#moveUp(last, slot);
    else this.#moveDown(last, slot);
  }

  /** Stops the timer. Called when no call is left. */
  stop(): void {
    this.#stopTimer();
  }

  /**
   * Sets the timer. It does not keep the process alive. The connection of the calls does so, or the calls ahead of them.
   */
  #arm(due: number): void {
    this.#stopTimer();
    this.#due = due;
    this.#stopTimer = at(due, () => this.#expire(), 'background');
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

  /** Puts the call at the index, or at the index of an ancestor, so that no parent expires later than its children. */
  #moveUp(call: T, index: number): void {
    let at = index;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = this.#heap[above] as T;
      if (parent.deadline <= call.deadline) break;
      this.#put(parent, at);
      at = above;
    }
    this.#put(call, at);
  }

  /** Puts the call at the index, or at the index of a descendant, so that no parent expires later than its children. */
  #moveDown(call: T, index: number): void {
    const { length } = this.#heap;
    let at = index;
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
