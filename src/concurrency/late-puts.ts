import type { CoreKeyspace } from '../keyspace.js';
import { type Keys, resolveKeys } from '../kv/keys.js';
import { compare, op } from '../kv/txn.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import { onAbort, orAborted } from '../runtime/signals.js';
import { after, monotonicMs, pause } from '../runtime/timers.js';
import { untilDone } from './waiting.js';

/** The times of the search for late puts: puts that take effect after the session has released their key. */
export const LATE_PUT_TIMES = {
  /**
   * Milliseconds between the release of a key and the first sweep, which looks for late puts among all keys of the
   * lease. Each further delay is twice as long.
   */
  firstSweepMs: 4_000,
  /**
   * How long, in milliseconds, the session looks for late puts of a key after the key's release. The key of a put that
   * takes effect even later stays in etcd until the lease ends.
   */
  expectedMs: 300_000,
} as const;
/**
 * Maximum number of released keys that a session remembers, at a few hundred bytes each. Beyond this number, the
 * session forgets the key that was released first.
 */
const MAX_RELEASED = 4_096;
/**
 * Maximum number of replaced uses of a key that a session remembers. Without a limit, this number could grow forever,
 * because callers need not end a use that they replace.
 */
const MAX_REPLACED_USES = 8;
/** Milliseconds before an interrupted watch for late puts is created again. */
const REWATCH_MS = 1_000;

/** A use of a key by a session, such as a lock attempt. A later use of the same key replaces an earlier use. */
export interface KeyUse {
  /**
   * Ends this use. Also ends all uses that it has replaced, unless a later use has replaced this use. Each put of the
   * key that takes effect afterwards is a late put. If the outcome of one of the key's puts is unknown, `watched` is
   * the range to watch for that put. Several keys may share one range, and so share one watch.
   */
  release(watched?: Keys): void;
  /** Ends this use because it failed. Unlike `release`, does not end the uses that this use has replaced. */
  cancel(watched?: Keys): void;
}

/** A watch for late puts in one range. */
interface LatePutWatch {
  /** The keys that have a put with an unknown outcome. The map key is `idOf` of the etcd key. */
  readonly keys: Map<string, Uint8Array>;
  readonly stop: AbortController;
  /** Cancels the timer and the listener that end the watch. */
  postpone: () => void;
}

/**
 * Deletes the keys that late puts create under a session's lease. A late put is a put that takes effect after the
 * session has released the key, because a proxy or a suspended member delayed the put. It is either a put whose outcome
 * is unknown, or a second copy of a put. The key that a late put creates belongs to no contender, and would block all
 * contenders until the lease ends.
 *
 * The session looks for late puts for five minutes after a release. It watches the keys with a put whose outcome is
 * unknown. For all released keys it also lists the keys of its lease at growing intervals (a sweep), because second
 * copies are rare and do not justify a watch for each key.
 *
 * A key in use is never deleted, because a new use of a key waits until a running deletion has ended, and no deletion
 * begins during a use.
 */
export class LatePuts {
  readonly #client: CoreKeyspace;
  readonly #lease: bigint;
  readonly #lifetime: AbortSignal;
  readonly #times: { readonly firstSweepMs: number; readonly expectedMs: number };
  /** For each key in use, its uses that have not ended. The latest use is the last one. */
  readonly #uses = new Map<string, readonly KeyUse[]>();
  /** When to forget each released key, in milliseconds of the monotonic clock. The oldest release comes first. */
  readonly #released = new Map<string, number>();
  readonly #deletions = new Map<string, Promise<void>>();
  readonly #watches = new Map<string, LatePutWatch>();
  #sweepDelayMs = 0;
  #stopTimer: (() => void) | undefined;

  /** `lifetime` aborts when the session ends. Then all work ends, because etcd deletes the keys with the lease. */
  constructor(client: CoreKeyspace, lease: bigint, lifetime: AbortSignal, times: typeof LATE_PUT_TIMES) {
    this.#client = client;
    this.#lease = lease;
    this.#lifetime = lifetime;
    this.#times = times;
    // A running timer would keep the closed session in memory.
    onAbort(lifetime, () => this.#stopTimer?.());
  }

  /**
   * Waits until no deletion of the key is running, and then starts a use of the key. The new use replaces earlier uses
   * of the same key.
   *
   * @throws the abort reason of `signal`, if `signal` aborts first.
   */
  async use(key: BytesLike, signal: AbortSignal): Promise<KeyUse> {
    const bytes = toBytes(key, 'key');
    const id = idOf(bytes);
    for (let deletion = this.#deletions.get(id); deletion !== undefined; deletion = this.#deletions.get(id))
      await orAborted(deletion, signal);
    const use: KeyUse = {
      release: (watched) => {
        const uses = this.#uses.get(id) ?? [];
        this.#end(id, bytes, uses.at(-1) === use ? uses : [use], watched);
      },
      cancel: (watched) => this.#end(id, bytes, [use], watched),
    };
    this.#uses.set(id, [...(this.#uses.get(id) ?? []).slice(-MAX_REPLACED_USES), use]);
    return use;
  }

  #end(id: string, key: Uint8Array, ended: readonly KeyUse[], watched: Keys | undefined): void {
    const before = this.#uses.get(id) ?? [];
    const left = before.filter((use) => !ended.includes(use));
    if (left.length > 0) this.#uses.set(id, left);
    else this.#uses.delete(id);
    if (this.#lifetime.aborted) return;
    if (watched !== undefined) this.#watch(id, key, watched);
    if (before.length === 0 || left.length > 0) return;
    this.#remember(id);
    // The watch may have shown a late put while the key was in use.
    if ([...this.#watches.values()].some(({ keys }) => keys.has(id))) void this.#delete(id, key);
  }

  #remember(id: string): void {
    const [oldest] = this.#released.keys();
    this.#released.delete(id);
    this.#released.set(id, monotonicMs() + this.#times.expectedMs);
    if (this.#released.size > MAX_RELEASED) this.#released.delete(oldest as string);
    this.#sweepDelayMs = this.#times.firstSweepMs;
    if (this.#stopTimer === undefined) this.#scheduleSweep();
  }

  #scheduleSweep(): void {
    const sweep = async (): Promise<void> => {
      this.#stopTimer = undefined;
      // A failed sweep is ignored, because the next sweep may succeed.
      await this.#sweep().catch(() => {});
      if (this.#released.size > 0 && !this.#lifetime.aborted && this.#stopTimer === undefined) this.#scheduleSweep();
    };
    this.#stopTimer = after(this.#sweepDelayMs, () => void sweep(), 'background');
    this.#sweepDelayMs *= 2;
  }

  /** Deletes the released keys that are attached to the lease, and forgets the keys that were released long ago. */
  async #sweep(): Promise<void> {
    if (this.#lifetime.aborted || this.#released.size === 0) return;
    const { keys } = await this.#client.lease.timeToLive(this.#lease, { keys: true, signal: this.#lifetime });
    await Promise.all(keys.map((key) => this.#delete(idOf(key), key)));
    const now = monotonicMs();
    for (const [id, forgetAt] of this.#released) if (forgetAt <= now) this.#released.delete(id);
  }

  /** Deletes the key if it was released and is not in use. Never rejects. */
  #delete(id: string, key: Uint8Array): Promise<void> {
    if (!this.#released.has(id) || this.#uses.has(id)) return Promise.resolve();
    const before = this.#deletions.get(id);
    const deletion = Promise.resolve(before)
      .then(() => deleteLatePut(this.#client, key, this.#lease, this.#lifetime))
      // The deletion fails only when the session ends, and then etcd deletes the key with the lease.
      .catch(() => {})
      .finally(() => {
        if (this.#deletions.get(id) === deletion) this.#deletions.delete(id);
      });
    this.#deletions.set(id, deletion);
    return deletion;
  }

  #watch(id: string, key: Uint8Array, range: Keys): void {
    const { key: start, rangeEnd } = resolveKeys(range, 'range');
    const rangeId = rangeEnd.length === 0 ? id : `from ${idOf(start)} to ${idOf(rangeEnd)}`;
    let watch = this.#watches.get(rangeId);
    if (watch === undefined) {
      watch = { keys: new Map(), stop: new AbortController(), postpone: () => {} };
      this.#watches.set(rangeId, watch);
      void this.#follow(range, watch);
    }
    const { keys, stop, postpone } = watch;
    keys.set(id, key);
    postpone();
    const end = (): void => {
      watch?.postpone();
      if (this.#watches.get(rangeId) === watch) this.#watches.delete(rangeId);
      stop.abort();
    };
    const undos = [onAbort(this.#lifetime, end), after(this.#times.expectedMs, end, 'background')];
    watch.postpone = () => {
      for (const undo of undos) undo();
    };
  }

  /** Watches the range and deletes each late put that appears, until `stop` aborts. */
  async #follow(range: Keys, { keys, stop: { signal } }: LatePutWatch): Promise<void> {
    while (!signal.aborted) {
      const puts = this.#client.watch(range, { only: 'put', signal });
      try {
        await puts.created();
        for (const [id, key] of keys) await this.#delete(id, key);
        for await (const event of puts)
          if (event.type === 'put' && event.kv.lease === this.#lease) await this.#delete(idOf(event.key), event.key);
      } catch {
        // The watch was interrupted. The loop creates another watch.
      }
      await pause(REWATCH_MS, signal);
    }
  }
}

/**
 * Deletes a key if the key is attached to `lease`. A key with another lease belongs to another client. The deletion is
 * safe to repeat, because its transaction checks the create revision and the lease of the key.
 *
 * @throws the abort reason of `lifetime`, if `lifetime` aborts first.
 */
export async function deleteLatePut(
  client: CoreKeyspace,
  key: BytesLike,
  lease: bigint,
  lifetime: AbortSignal,
): Promise<void> {
  const own = await untilDone(lifetime, (options) => client.get(key, options));
  if (own?.lease !== lease) return;
  const isOwn = [compare.createRevision(key, '==', own.createRevision), compare.lease(key, '==', lease)];
  await untilDone(lifetime, (options) => client.txn({ if: isOwn, then: [op.delete(key)] }, options));
}
