/** The properties of an event that decide its order. */
export interface Due {
  /** When the event is due. */
  readonly due: number;
  /** Decides between events that are due at the same time. */
  readonly order: number;
}

/** Events in the order in which they are due: a binary heap. */
export class EventQueue<Event extends Due> {
  readonly #heap: Event[] = [];

  get first(): Event | undefined {
    return this.#heap[0];
  }

  push(event: Event): void {
    const heap = this.#heap;
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const other = heap[parent] as Event;
      if (!isBefore(event, other)) break;
      heap[at] = other;
      at = parent;
    }
    heap[at] = event;
  }

  removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop() as Event;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1;
      if (!isBefore(heap[child] as Event, last)) break;
      heap[at] = heap[child] as Event;
      at = child;
    }
    heap[at] = last;
  }
}

function isBefore(a: Due, b: Due): boolean {
  return a.due < b.due || (a.due === b.due && a.order < b.order);
}
