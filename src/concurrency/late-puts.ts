import type { Keyspace } from '../keyspace.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import { after, monotonicMs } from '../runtime/timers.js';

/** After a release; each look after it comes twice as late as the one before. */
export const FIRST_LOOK_MS = 4_000;
/** A request that is held up for longer, in a paused member for example, is not reckoned with. */
export const GUARD_MS = 300_000;
/** Keys that are remembered at most, some hundred bytes each; beyond that the oldest are forgotten. */
const MAX_KEYS = 4_096;

interface Released {
  readonly forgetAt: number;
  /** Deletes the key, unless it is in use again. */
  readonly clear: () => Promise<void>;
}

/**
 * Keys that a session has released. A copy of the request that put such a key, which a proxy or a paused member held back,
 * puts it once more, under the lease that is still alive: a contender that nobody waits for, and that blocks all others.
 * So for five minutes after a release the session looks, ever more rarely, which keys its lease has, and deletes what it
 * has released.
 */
export class LatePuts {
  readonly #client: Keyspace;
  readonly #lease: bigint;
  readonly #lifetime: AbortSignal;
  readonly #released = new Map<string, Released>();
  readonly #firstLookMs: number;
  #delayMs: number;
  #stopTimer: (() => void) | undefined;

  /** `lifetime` ends the looks: with the lease the keys go. */
  constructor(client: Keyspace, lease: bigint, lifetime: AbortSignal, firstLookMs: number) {
    this.#firstLookMs = firstLookMs;
    this.#delayMs = firstLookMs;
    this.#client = client;
    this.#lease = lease;
    this.#lifetime = lifetime;
  }

  /** The key was released: from now on a put of it is a late one. */
  released(key: BytesLike, clear: () => Promise<void>): void {
    if (this.#lifetime.aborted) return;
    const id = idOf(toBytes(key, 'key'));
    this.#released.delete(id);
    this.#released.set(id, { forgetAt: monotonicMs() + GUARD_MS, clear });
    if (this.#released.size > MAX_KEYS) this.#forgetOldest();
    this.#delayMs = this.#firstLookMs;
    if (this.#stopTimer === undefined) this.#schedule();
  }

  /** The key is in use again. */
  inUse(key: BytesLike): void {
    this.#released.delete(idOf(toBytes(key, 'key')));
  }

  #forgetOldest(): void {
    const [oldest] = this.#released.keys();
    if (oldest !== undefined) this.#released.delete(oldest);
  }

  #schedule(): void {
    const look = (): void => {
      this.#stopTimer = undefined;
      // Where it fails, the next look may do better.
      this.#look()
        .catch(() => {})
        .finally(() => {
          if (this.#released.size > 0 && !this.#lifetime.aborted && this.#stopTimer === undefined) this.#schedule();
        });
    };
    this.#stopTimer = after(this.#delayMs, look, 'background');
    this.#delayMs *= 2;
  }

  async #look(): Promise<void> {
    if (this.#lifetime.aborted || this.#released.size === 0) return;
    const { keys } = await this.#client.lease.timeToLive(this.#lease, { keys: true, signal: this.#lifetime });
    await Promise.all(keys.map((key) => this.#released.get(idOf(key))?.clear()));
    const now = monotonicMs();
    for (const [id, { forgetAt }] of this.#released) if (forgetAt <= now) this.#released.delete(id);
  }
}
