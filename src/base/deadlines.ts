import { at, monotonicMs } from './timers.js';

/** An item of `Deadlines`, such as a call that expires at its deadline. */
export interface Expiring {
  /** Index in the heap of `Deadlines`, or -1 outside the heap. Only `Deadlines` writes it. */
  slot: number;
  /** When the item expires, in milliseconds on the monotonic clock. Must not change while the item is in the heap. */
  readonly deadline: number;
  /** Called when the deadline has passed, after `Deadlines` has removed the item. */
  expire(): void;
}

/** Maximum number of items that expire in one turn of the event loop, so that other timers can run. */
const EXPIRED_IN_A_TURN = 1_000;

/**
 * The deadlines of many items, such as the calls under way, with one timer for all of them. Tens of thousands of calls
 * start and end each second, and few of them expire. A binary heap by deadline keeps the cost of each call logarithmic.
 * Up to 1,000 due items expire in one turn of the event loop.
 *
 * The heap is an array rather than a Set or a Map. When a hash table of V8 grows or shrinks, the old table keeps a
 * reference to the new table. Once one such discarded table is in the old generation, each minor garbage collection
 * treats all later tables in this chain as alive.
 */
export class Deadlines<T extends Expiring> {
  /** The item at `index` expires no later than the items at `2 * index + 1` and `2 * index + 2`. */
  readonly #heap: T[] = [];
  /** When the timer fires. The item for which the timer was set may be deleted before then. */
  #due = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};
  readonly #place: 'background' | undefined;

  /** If `place` is `background`, the timer does not keep the process alive. */
  constructor(place?: 'background') {
    this.#place = place;
  }

  /** All items, in no particular order. */
  all(): readonly T[] {
    return [...this.#heap];
  }

  add(item: T): void {
    this.#heap.push(item);
    this.#moveUp(item, this.#heap.length - 1);
    if (item.deadline < this.#due) this.#arm(item.deadline);
  }

  /** Removes the item. Does nothing if the item is not in the heap. */
  delete(item: T): void {
    const { slot } = item;
    if (slot < 0) return;
    item.slot = -1;
    const last = this.#heap.pop() as T;
    // Without items, the timer must not keep the process alive. A timer in the background may fire without a due item,
    // because stopping this timer for each of many short calls would cost more.
    if (this.#heap.length === 0 && this.#place === undefined) this.stop();
    if (last === item) return;
    if (last.deadline < item.deadline) this.#moveUp(last, slot);
    else this.#moveDown(last, slot);
  }

  stop(): void {
    this.#stopTimer();
    this.#due = Number.POSITIVE_INFINITY;
  }

  #arm(due: number): void {
    this.#stopTimer();
    this.#due = due;
    this.#stopTimer = at(due, () => this.#expire(), this.#place);
  }

  #expire(): void {
    const now = monotonicMs();
    this.#due = Number.POSITIVE_INFINITY;
    let expired = 0;
    for (let [first] = this.#heap; first !== undefined && first.deadline <= now; [first] = this.#heap) {
      if (expired === EXPIRED_IN_A_TURN) break;
      expired += 1;
      this.delete(first);
      first.expire();
    }
    const [next] = this.#heap;
    if (next !== undefined && next.deadline < this.#due) this.#arm(next.deadline);
  }

  /** Puts the item at the index, or at the index of an ancestor, so that no parent expires later than its children. */
  #moveUp(item: T, index: number): void {
    let at = index;
    while (at > 0) {
      const above = (at - 1) >>> 1;
      const parent = this.#heap[above] as T;
      if (parent.deadline <= item.deadline) break;
      this.#put(parent, at);
      at = above;
    }
    this.#put(item, at);
  }

  /** Puts the item at the index, or at the index of a descendant, so that no parent expires later than its children. */
  #moveDown(item: T, index: number): void {
    const { length } = this.#heap;
    let at = index;
    for (let below = 2 * at + 1; below < length; below = 2 * at + 1) {
      const right = this.#heap[below + 1];
      if (right !== undefined && right.deadline < (this.#heap[below] as T).deadline) below += 1;
      const child = this.#heap[below] as T;
      if (child.deadline >= item.deadline) break;
      this.#put(child, at);
      at = below;
    }
    this.#put(item, at);
  }

  #put(item: T, at: number): void {
    this.#heap[at] = item;
    item.slot = at;
  }
}
