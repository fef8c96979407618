import { toBytes } from '../bytes.js';
import { invalidInput } from '../errors.js';
import { after } from '../time.js';
import { Held } from './held.js';
import {
  enqueue,
  enqueueIfEmpty,
  leaveQueue,
  leaveQueueIfEntered,
  type QueueEntry,
  type QueueKey,
  queueKey,
  waitForTurn,
  watchEntry,
} from './queue-entry.js';
import type { Session } from './session.js';
import { type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';

/** How long a wait that was given up stays for its key to be deleted, before that goes on in the background. */
const CLEANUP_WAIT_MS = 1_000;

/**
 * A fair lock: holders in the order in which they queued, one waiter woken by a release, understood by Go's
 * `concurrency.Mutex` and `etcdctl lock`.
 *
 * The lock "a" queues under the prefix "a/", which the keys of a lock "a/b" share. As in Go, a locker of "a" waits for
 * every key ahead of it under that prefix: "a" excludes "a/b", while "a/b" takes no notice of "a". Do not lock "a"
 * while holding "a/b".
 */
export class Mutex {
  readonly name: string;
  readonly #session: Session;
  readonly #key: QueueKey;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    if (typeof name !== 'string' || name === '')
      throw invalidInput('name', 'an empty name', 'a string of at least one character');
    toBytes(name, 'name');
    this.name = name;
    this.#session = session;
    this.#key = queueKey(name, session.leaseId);
  }

  /**
   * Waits for the lock. A wait that ends otherwise, by `signal`, `timeoutMs` (default: none) or the loss of the
   * session, leaves the queue again.
   *
   * @throws EtcdError with the reason of the end: `Canceled`, `DeadlineExceeded`, that of the session's loss, or
   * `LockLost` where the own place in the queue was deleted.
   */
  async lock(options: WaitOptions = {}): Promise<Held> {
    const limit = waitLimit('lock', this.#session.signal, options);
    try {
      const leave = await this.#session.localQueue(this.name).enter(limit.signal);
      return await this.#queueUp(limit, leave);
    } finally {
      limit.dispose();
    }
  }

  /** The lock if it is free, and nobody of this session is after it; undefined otherwise. Never queues. */
  async tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    const limit = waitLimit('tryLock', this.#session.signal, options);
    const leave = this.#session.localQueue(this.name).tryEnter();
    try {
      if (leave === undefined) return undefined;
      limit.signal.throwIfAborted();
      const entry = await this.#orWithdraw(
        undefined,
        leave,
        enqueueIfEmpty(this.#session.client, this.#key, limit.signal),
      );
      if (entry !== undefined) return this.#hold(entry, leave);
      leave();
      return undefined;
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  async #queueUp(limit: WaitLimit, leave: () => void): Promise<Held> {
    const { client } = this.#session;
    try {
      const { entry, ahead } = await this.#orWithdraw(undefined, leave, enqueue(client, this.#key, limit.signal));
      if (ahead !== undefined) {
        const stopWatching = watchEntry(client, entry, (gone) => limit.end(gone));
        await this.#orWithdraw(entry, leave, waitForTurn(client, entry, ahead, limit.signal)).finally(stopWatching);
      }
      return this.#hold(entry, leave);
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    }
  }

  /** @throws EtcdError with the reason, where the session was lost on the way: then the key goes with the lease. */
  #hold(entry: QueueEntry, leave: () => void): Held {
    const held = new Held(this.#session, this.name, entry, leave);
    held.signal.throwIfAborted();
    return held;
  }

  /**
   * Awaits a step towards the lock. Where it fails the own key is deleted, by a path that what ended the wait does not
   * stop; only then may the next locker of the session use the key.
   */
  async #orWithdraw<T>(entry: QueueEntry | undefined, leave: () => void, step: Promise<T>): Promise<T> {
    try {
      return await step;
    } catch (error) {
      const { client, signal } = this.#session;
      const withdrawn =
        entry === undefined
          ? leaveQueueIfEntered(client, this.#key.key, signal)
          : leaveQueue(client, entry.key, entry.revision, signal);
      // Fails only with the session, and then the key goes with the lease.
      const settled = withdrawn.catch(() => {}).finally(leave);
      let stopTimer = (): void => {};
      const bound = new Promise<void>((resolve) => {
        stopTimer = after(CLEANUP_WAIT_MS, resolve);
      });
      await Promise.race([settled, bound]).finally(stopTimer);
      throw error;
    }
  }
}
