import { type BytesLike, idOf, toBytes } from '../bytes.js';
import type { Keyspace } from '../keyspace.js';
import type { Keys } from '../kv/key-range.js';
import { after } from '../time.js';
import { leaveQueue, leaveQueueIfEntered } from './queue-entry.js';
import { watchPuts } from './watch-puts.js';

/** A request held up for longer, by a member paused in the middle of it, say, is not reckoned with. */
export const GUARD_MS = 300_000;

/**
 * Keys of which a put may still be on its way although nobody uses them any more. Should one appear it is deleted. One
 * watch for all of a range, for as long as there are any.
 */
export class Strays {
  readonly #client: Keyspace;
  readonly #range: Keys;
  readonly #lifetime: AbortSignal;
  readonly #gone: () => void;
  readonly #keys = new Map<string, { readonly key: Uint8Array; readonly stopTimer: () => void }>();
  #none = new AbortController();

  /** `lifetime` ends it: with the lease the keys go. `gone` is called when there are none any more. */
  constructor(client: Keyspace, range: Keys, lifetime: AbortSignal, gone: () => void) {
    this.#client = client;
    this.#range = range;
    this.#lifetime = lifetime;
    this.#gone = gone;
  }

  /** The key, which lies in the range, is nobody's from now on. */
  add(key: BytesLike): void {
    const bytes = toBytes(key, 'key');
    this.#keys.get(idOf(bytes))?.stopTimer();
    this.#keys.set(idOf(bytes), { key: bytes, stopTimer: after(GUARD_MS, () => this.delete(bytes)) });
    if (this.#keys.size > 1) return;
    this.#none = new AbortController();
    // Ends with the session, or when there are none.
    this.#keepClear(this.#none.signal).catch(() => this.#forget());
  }

  /** The key is in use again. */
  delete(key: BytesLike): void {
    const id = idOf(toBytes(key, 'key'));
    this.#keys.get(id)?.stopTimer();
    this.#keys.delete(id);
    if (this.#keys.size === 0) this.#forget();
  }

  #forget(): void {
    for (const { stopTimer } of this.#keys.values()) stopTimer();
    this.#keys.clear();
    this.#none.abort();
    this.#gone();
  }

  #keepClear(over: AbortSignal): Promise<never> {
    const [client, lifetime] = [this.#client, this.#lifetime];
    return watchPuts(
      client,
      this.#range,
      { lifetime, over },
      {
        stands: async () => {
          for (const { key } of this.#keys.values()) await leaveQueueIfEntered(client, key, lifetime);
        },
        put: async ({ key, createRevision }) => {
          if (this.#keys.has(idOf(key))) await leaveQueue(client, key, createRevision, lifetime);
        },
      },
    );
  }
}
