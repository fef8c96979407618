import type { Keyspace } from '../keyspace.js';
import type { Keys } from '../kv/key-range.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import { after } from '../runtime/timers.js';
import { GUARD_MS } from './late-puts.js';
import { deleteLatePut } from './queue-entry.js';
import { watchPuts } from './watch-puts.js';

/**
 * Keys of which a put may still be on its way although nobody uses them any more. Should one appear it is deleted. One
 * watch for all of a range, for as long as there are any.
 */
export class Strays {
  readonly #client: Keyspace;
  readonly #range: Keys;
  readonly #lease: bigint;
  readonly #lifetime: AbortSignal;
  readonly #gone: () => void;
  readonly #keys = new Map<string, { readonly key: Uint8Array; readonly stopTimer: () => void }>();
  #none = new AbortController();
  /** Everything that is being deleted. Never rejects. */
  #clearing: Promise<unknown> = Promise.resolve();

  /** `lifetime` ends it: with the lease the keys go. `gone` is called when nothing is left to do. */
  constructor(client: Keyspace, range: Keys, lease: bigint, lifetime: AbortSignal, gone: () => void) {
    this.#client = client;
    this.#range = range;
    this.#lease = lease;
    this.#lifetime = lifetime;
    this.#gone = gone;
  }

  /** The key, which lies in the range, is nobody's from now on. */
  add(key: BytesLike): void {
    const bytes = toBytes(key, 'key');
    this.#keys.get(idOf(bytes))?.stopTimer();
    this.#keys.set(idOf(bytes), { key: bytes, stopTimer: after(GUARD_MS, () => void this.delete(bytes)) });
    if (this.#keys.size > 1) return;
    const none = new AbortController();
    this.#none = none;
    // Ends with the session, or when there are none.
    this.#keepClear(none.signal).catch(() => {
      if (this.#none === none) this.#forget();
    });
  }

  /** The key is in use again, once this resolves: what is on its way to delete it might find it anew. Never rejects. */
  async delete(key: BytesLike): Promise<void> {
    const id = idOf(toBytes(key, 'key'));
    this.#keys.get(id)?.stopTimer();
    this.#keys.delete(id);
    if (this.#keys.size === 0) this.#forget();
    await this.#clearing;
  }

  #forget(): void {
    for (const { stopTimer } of this.#keys.values()) stopTimer();
    this.#keys.clear();
    this.#none.abort();
    void this.#clearing.then(() => {
      if (this.#keys.size === 0) this.#gone();
    });
  }

  #clear(clearing: Promise<void>): Promise<void> {
    this.#clearing = Promise.allSettled([this.#clearing, clearing]);
    return clearing;
  }

  #keepClear(over: AbortSignal): Promise<never> {
    const [client, lifetime] = [this.#client, this.#lifetime];
    return watchPuts(
      client,
      this.#range,
      { lifetime, over },
      {
        stands: async () => {
          for (const { key } of this.#keys.values())
            await this.#clear(deleteLatePut(client, key, this.#lease, lifetime));
        },
        put: async ({ key, lease }) => {
          // Under another lease it is another client's key.
          if (lease !== this.#lease || !this.#keys.has(idOf(key))) return;
          await this.#clear(deleteLatePut(client, key, lease, lifetime));
        },
      },
    );
  }
}
