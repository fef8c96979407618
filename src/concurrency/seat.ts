import type { Keyspace } from '../keyspace.js';
import { after } from '../runtime/timers.js';
import { GUARD_MS } from './late-puts.js';
import { LocalQueue } from './local-queue.js';
import { deleteLatePut } from './queue-entry.js';
import { watchPuts } from './watch-puts.js';

/**
 * The one key that a session has under a name. Its lockers queue for it locally, and where an attempt to put it may
 * still be on its way, the key is guarded for a while: should it appear while nobody here uses it, it is deleted.
 */
export class Seat {
  readonly localQueue: LocalQueue;
  readonly #client: Keyspace;
  readonly #key: string;
  readonly #lease: bigint;
  readonly #lifetime: AbortSignal;
  /** Greatest create revision that a locker knows to be its own. */
  #claimed = 0n;
  #guarding: AbortController | undefined;
  #stopTimer: () => void = () => {};

  /** `vacant` is called when nobody uses the seat any more. */
  constructor(client: Keyspace, key: string, lease: bigint, lifetime: AbortSignal, vacant: () => void) {
    this.#client = client;
    this.#key = key;
    this.#lease = lease;
    this.#lifetime = lifetime;
    this.localQueue = new LocalQueue(() => {
      if (this.#guarding === undefined) vacant();
    });
  }

  /** A locker found the key to be its own, at this create revision. */
  claim(revision: bigint): void {
    if (revision > this.#claimed) this.#claimed = revision;
  }

  /** Deletes the key if it is there and no locker uses it. */
  async clear(): Promise<void> {
    if (this.localQueue.occupant === undefined) await this.#clear();
  }

  /** A put of the key has an unknown outcome: it may come through at any time, as long as the lease lives. */
  guard(): void {
    this.#stopTimer();
    this.#stopTimer = after(GUARD_MS, () => this.#unguard());
    if (this.#guarding !== undefined) return;
    const guarding = new AbortController();
    this.#guarding = guarding;
    // Fails only when it is over, and ends with the session: then the key goes with the lease.
    this.#keepClear(guarding.signal).catch(() => {
      if (this.#guarding === guarding) this.#unguard();
    });
  }

  #unguard(): void {
    this.#stopTimer();
    this.#guarding?.abort();
    this.#guarding = undefined;
    // Tells `vacant` where nobody is in.
    this.localQueue.tryEnter('guard')?.();
  }

  #keepClear(over: AbortSignal): Promise<never> {
    return watchPuts(
      this.#client,
      this.#key,
      { lifetime: this.#lifetime, over },
      { stands: () => this.#clear(), put: (kv) => this.#clear(kv.createRevision) },
    );
  }

  /**
   * Takes a turn among the lockers: whoever is in uses the key, and puts no second one. When the turn comes, a key put
   * at `revision` has either been claimed by one of them, or is nobody's.
   */
  async #clear(revision?: bigint): Promise<void> {
    const leave = await this.localQueue.enter(this.#lifetime, 'guard');
    try {
      if (revision !== undefined && revision <= this.#claimed) return;
      await deleteLatePut(this.#client, this.#key, this.#lease, this.#lifetime);
    } finally {
      leave();
    }
  }
}
