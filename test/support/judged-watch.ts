import { equal } from 'node:assert/strict';
import { EtcdError } from '../../src/base/etcd-error.js';
import type { WatchBatch } from '../../src/client/watch/event.js';
import type { Watch } from '../../src/client/watch/watch.js';
import type { SimulatedStore } from './simulated-watches.js';

/** Reads one watch of a simulated store and compares each batch with the changes in the store. */
export class JudgedWatch {
  readonly watch: Watch;
  readonly #store: SimulatedStore;
  readonly #isWatched: (key: string) => boolean;
  readonly #iterator: ReturnType<Watch['batches']>;
  /** The next expected revision. Undefined for a watch without a start revision until the server has created it. */
  #next: bigint | undefined;
  #asked = 0;
  #toRead = 0;
  #over = false;
  #isDelivered = false;
  batches = 0;
  readonly problems: unknown[] = [];

  constructor(watch: Watch, store: SimulatedStore, isWatched: (key: string) => boolean, start: bigint) {
    this.watch = watch;
    this.#store = store;
    this.#isWatched = isWatched;
    this.#iterator = watch.batches();
    this.#next = start === 0n ? undefined : start;
    watch.created().then(
      (revision) => {
        this.#next ??= revision + 1n;
      },
      () => {},
    );
  }

  take(batches: number): void {
    for (; this.#asked < batches && !this.#over; this.#asked += 1) {
      void this.#takeOne().then(() => {
        this.#asked -= 1;
      });
    }
  }

  read(batches: number): void {
    const isRead = this.#toRead > 0;
    this.#toRead = batches;
    if (!isRead) void this.#readOn();
  }

  /**
   * Returns the first watched revision in the store that the watch has not delivered, or `created` if the watch does
   * not exist on the server yet. Returns undefined if nothing is missing, apart from events that the watch may miss
   * because the client cannot notice a restore.
   */
  missing(): bigint | 'created' | undefined {
    if (this.#over) return undefined;
    if (this.#next === undefined) return 'created';
    return this.#firstMissing(this.#next);
  }

  /** Whether the watch has delivered later revisions than the store contains, because the store was restored. */
  isAheadOf(revision: bigint): boolean {
    return !this.#over && this.#isDelivered && (this.#next ?? 0n) > revision + 1n;
  }

  async close(): Promise<void> {
    this.#over = true;
    await this.watch.close();
  }

  async #readOn(): Promise<void> {
    for (; this.#toRead > 0 && !this.#over; this.#toRead -= 1) await this.#takeOne();
  }

  async #takeOne(): Promise<void> {
    try {
      const { done, value } = await this.#iterator.next();
      if (this.#over) return;
      if (done) throw new Error('the watch ended by itself');
      this.#delivered(value);
    } catch (error) {
      if (!this.#over) this.#ended(error);
    }
  }

  #delivered({ revision, events }: WatchBatch): void {
    if (this.#next === undefined) throw new Error(`the watch delivered revision ${revision} before it was created`);
    if (events.length === 0) {
      // A batch without events means that there are no events up to its revision.
      const expected = this.#firstMissing(this.#next);
      if (expected !== undefined && expected <= revision)
        throw new Error(`the watch delivered revision ${revision} without the events of revision ${expected}`);
    } else {
      // A watch may deliver an event of a former history that it received before a restore. The watch must then end
      // with ClusterChanged, because it is ahead of the store.
      const allowed = this.#store.next(this.#next, this.#isWatched);
      const texts = allowed.map((change) => change.keys.map((key) => `${key} ${change.revision}`).join());
      const delivered = events.map((event) => `${event.key} ${event.modRevision}`).join();
      if (!texts.includes(delivered)) equal(delivered, texts.join(' or '));
    }
    if (revision >= this.#next) this.#next = revision + 1n;
    this.#isDelivered = true;
    this.batches += 1;
  }

  /**
   * Returns the first watched revision from `next` on that the store contains and the watch must deliver.
   */
  #firstMissing(next: bigint): bigint | undefined {
    const noticeable = this.#store.unnoticeable + 1n;
    return this.#store.changes(next > noticeable ? next : noticeable, this.#isWatched).next().value?.revision;
  }

  #ended(error: unknown): void {
    this.#over = true;
    // A watch may end with ClusterChanged, which reports that the store was restored from an older copy.
    if (error instanceof EtcdError && error.reason === 'ClusterChanged') return;
    const isCompacted = error instanceof EtcdError && error.reason === 'Compacted';
    // A watch may end with Compacted only if it needs revisions that were compacted when the server canceled it. A
    // restore may have brought these revisions back since.
    const { highestOldest } = this.#store;
    if (!isCompacted || (this.#next ?? 0n) >= highestOldest) this.problems.push(error);
    else if ((error.compactRevision ?? 0n) <= 0n || (error.compactRevision ?? 0n) > highestOldest)
      this.problems.push(error);
  }
}
