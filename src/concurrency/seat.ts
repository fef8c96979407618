import type { Client } from '../client.js';
import { pause } from '../time.js';
import { LocalQueue } from './local-queue.js';
import { leaveQueueIfEntered } from './queue-entry.js';

const REWATCH_MS = 1_000;

/**
 * The one key that a session has under a name. Its lockers queue for it locally, and where an attempt to put it may
 * still be on its way, the key is guarded: should it appear while nobody here uses it, it is deleted.
 */
export class Seat {
  readonly localQueue: LocalQueue;
  readonly #client: Client;
  readonly #key: string;
  readonly #lifetime: AbortSignal;
  #guarded = false;

  /** `vacant` is called when nobody uses the seat any more. */
  constructor(client: Client, key: string, lifetime: AbortSignal, vacant: () => void) {
    this.#client = client;
    this.#key = key;
    this.#lifetime = lifetime;
    this.localQueue = new LocalQueue(() => {
      if (!this.#guarded) vacant();
    });
  }

  /** A put of the key has an unknown outcome: it may come through at any time, as long as the lease lives. */
  readonly guard = (): void => {
    if (this.#guarded) return;
    this.#guarded = true;
    // Ends with the session, and then the key goes with the lease.
    this.#keepClear().catch(() => {});
  };

  async #keepClear(): Promise<void> {
    for (;;) {
      const watch = this.#client.watch(this.#key, { filters: ['noDelete'], signal: this.#lifetime });
      try {
        await watch.created();
        await this.#clear();
        for await (const _put of watch.batches()) await this.#clear();
      } catch {
        await pause(REWATCH_MS, this.#lifetime);
        this.#lifetime.throwIfAborted();
      }
    }
  }

  /** Takes a turn among the lockers: whoever is in uses the key, and puts no second one. */
  async #clear(): Promise<void> {
    const leave = await this.localQueue.enter(this.#lifetime);
    try {
      await leaveQueueIfEntered(this.#client, this.#key, this.#lifetime);
    } finally {
      leave();
    }
  }
}
