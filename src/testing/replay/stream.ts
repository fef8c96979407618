import { monotonicMs, settledWithin } from '../../base/index.js';
import { type JsonObject, objectsIn } from '../../extras/transports/json/index.js';

/** The calls that wait in a queue of the server. */
export const WAITING: readonly string[] = ['Lock/Lock', 'Election/Campaign'];

/** The greatest part of a time limit in milliseconds that one timer measures. */
const SLICE_MS = 10;

/** An event of a watch, and the recorded time of the step at which it arrived. */
interface Arrived {
  readonly event: JsonObject;
  readonly ms: number;
}

/**
 * The answers of the server on one stream, which wait for the recorded ones. A server may divide the events of a watch
 * into answers in several ways, and may report progress at any time. So the events wait in one list for each watch, and
 * reports of progress are left out.
 */
export class PlayedStream {
  readonly rpc: string;
  /** How the server has ended the stream. Undefined while it is open. */
  ended: string | undefined;
  readonly #answers: JsonObject[] = [];
  readonly #events = new Map<string, Arrived[]>();
  #notify: () => void = () => {};

  constructor(rpc: string) {
    this.rpc = rpc;
  }

  get isWatch(): boolean {
    return this.rpc === 'Watch/Watch';
  }

  /** Receives an answer of the server. `ms` is the recorded time of the current step. */
  receive(answer: JsonObject, ms: number): void {
    for (const event of objectsIn(answer.events)) this.eventsOf(answer).push({ event, ms });
    if (!this.isWatch || isControl(answer)) this.#answers.push(answer);
    this.#notify();
  }

  end(status: string): void {
    this.ended = status;
    this.#notify();
  }

  /** The events that have arrived for the watch of an answer, and that no recorded event has matched. */
  eventsOf({ watch_id = '0' }: JsonObject): Arrived[] {
    const events = this.#events.get(String(watch_id)) ?? [];
    this.#events.set(String(watch_id), events);
    return events;
  }

  /** Removes and returns the events of a watch that no recorded event has matched, or those of all watches. */
  leave(answer?: JsonObject): readonly Arrived[] {
    if (answer !== undefined) return this.eventsOf(answer).splice(0);
    const left = [...this.#events.values()].flat();
    this.#events.clear();
    return left;
  }

  /** Whether the answer that stands for a recorded one has arrived. */
  has(recorded: JsonObject): boolean {
    return this.#find(recorded) >= 0;
  }

  /** Takes the answer that stands for a recorded one. Returns undefined if it has not arrived. */
  take(recorded: JsonObject): JsonObject | undefined {
    const index = this.#find(recorded);
    return index < 0 ? undefined : this.#answers.splice(index, 1)[0];
  }

  #find(recorded: JsonObject): number {
    if (!this.isWatch) return this.#answers.length === 0 ? -1 : 0;
    return this.#answers.findIndex(
      ({ watch_id, created }) => watch_id === recorded.watch_id && created === recorded.created,
    );
  }

  /**
   * Waits until `isDone` returns true, or the stream has ended, but at most `timeoutMs`. Leaves out the time in which the
   * process did nothing, because a busy machine would otherwise cause differences.
   */
  async until(isDone: () => boolean, timeoutMs: number): Promise<void> {
    let waitedMs = 0;
    while (!isDone() && this.ended === undefined && waitedMs < timeoutMs) {
      const changed = new Promise<void>((resolve) => {
        this.#notify = resolve;
      });
      const startedMs = monotonicMs();
      await settledWithin(SLICE_MS, changed);
      waitedMs += Math.min(monotonicMs() - startedMs, SLICE_MS);
    }
  }
}

/** Whether an answer of a watch says more than events and progress. */
export function isControl({ created, canceled }: JsonObject): boolean {
  return created === true || canceled === true;
}
