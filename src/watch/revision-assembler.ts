import type { Event as WireEvent } from '../gen/mvccpb/kv.js';
import { type WatchBatch, type WatchEvent, watchEvent } from './event.js';

/**
 * Puts revisions together. A response may be split into fragments anywhere, also within a revision, so the last
 * revision seen is held back until an event of the next one, or the last fragment, shows that it is whole.
 */
export class RevisionAssembler {
  #revision = 0n;
  #events: WatchEvent[] = [];

  /** Takes the events of a response; gives the revisions that are whole now. */
  push(events: readonly WireEvent[], moreFragments: boolean): WatchBatch[] {
    const whole: WatchBatch[] = [];
    for (const { type, kv, prevKv } of events) {
      if (kv === undefined) continue;
      if (kv.modRevision !== this.#revision) {
        this.#takeInto(whole);
        this.#revision = kv.modRevision;
      }
      this.#events.push(watchEvent(type, kv, prevKv));
    }
    if (!moreFragments) this.#takeInto(whole);
    return whole;
  }

  /** The stream broke: what is not whole will come again. */
  reset(): void {
    this.#events = [];
  }

  /** Whether part of a revision is held back. */
  get partial(): boolean {
    return this.#events.length > 0;
  }

  #takeInto(whole: WatchBatch[]): void {
    if (this.#events.length > 0) whole.push({ revision: this.#revision, events: this.#events });
    this.#events = [];
  }
}
