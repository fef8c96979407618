import { toBytes } from '../bytes.js';
import { invalidInput } from '../errors.js';
import type { KeyValue } from '../kv/key-value.js';
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
import type { Seat } from './seat.js';
import type { Session } from './session.js';
import { settledWithin, type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';

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
    const limit = waitLimit('lock', options, this.#session.signal);
    try {
      limit.signal.throwIfAborted();
      const seat = this.#session.seat(this.#key.key);
      const leave = await seat.localQueue.enter(limit.signal);
      const attempt = this.#attempt(seat, leave);
      const { entry, ahead } = await attempt.step(
        enqueue(this.#session.client, this.#key, limit.signal, attempt.onUnknown),
      );
      attempt.entry = entry;
      seat.claim(entry.revision);
      if (ahead !== undefined) await attempt.step(this.#waitForTurn(entry, ahead, limit));
      return this.#hold(entry, leave);
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  /** The lock if it is free, and nobody of this session is after it; undefined otherwise. Never queues. */
  async tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    const limit = waitLimit('tryLock', options, this.#session.signal);
    try {
      limit.signal.throwIfAborted();
      const seat = this.#session.seat(this.#key.key);
      let leave = seat.localQueue.tryEnter();
      while (leave === undefined && seat.localQueue.occupant === 'guard') {
        await seat.localQueue.left(limit.signal);
        limit.signal.throwIfAborted();
        leave = seat.localQueue.tryEnter();
      }
      if (leave === undefined) return undefined;
      const attempt = this.#attempt(seat, leave);
      const entry = await attempt.step(
        enqueueIfEmpty(this.#session.client, this.#key, limit.signal, attempt.onUnknown),
      );
      if (entry === undefined) {
        leave();
        return undefined;
      }
      seat.claim(entry.revision);
      return this.#hold(entry, leave);
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  async #waitForTurn(entry: QueueEntry, ahead: KeyValue, limit: WaitLimit): Promise<void> {
    const stopWatching = watchEntry(this.#session.client, entry, (gone) => limit.end(gone));
    await waitForTurn(this.#session.client, entry, ahead, limit.signal).finally(stopWatching);
  }

  /** @throws EtcdError with the reason, where the session was lost on the way: then the key goes with the lease. */
  #hold(entry: QueueEntry, leave: () => void): Held {
    const held = new Held(this.#session, this.name, entry, leave);
    held.signal.throwIfAborted();
    return held;
  }

  /**
   * The steps towards the lock. Where one fails the own key is deleted, by a path that what ended the wait does not
   * stop; only then may the next locker of the session use the key.
   */
  #attempt(seat: Seat, leave: () => void): Attempt {
    const { client, signal } = this.#session;
    const { key } = this.#key;
    let doubtful = false;
    const withdraw = async (entry: QueueEntry | undefined): Promise<void> => {
      if (entry !== undefined) await leaveQueue(client, key, entry.revision, signal);
      else if (doubtful) await leaveQueueIfEntered(client, key, signal);
    };
    const attempt: Attempt = {
      entry: undefined,
      onUnknown: () => {
        doubtful = true;
        seat.guard();
      },
      step: async (step) => {
        try {
          return await step;
        } catch (error) {
          // Fails only with the session, and then the key goes with the lease.
          const withdrawn = withdraw(attempt.entry).catch(() => {});
          await settledWithin(CLEANUP_WAIT_MS, withdrawn.finally(leave));
          throw error;
        }
      },
    };
    return attempt;
  }
}

interface Attempt {
  /** The place in the queue, once it is known. */
  entry: QueueEntry | undefined;
  /** The put of the key may have come through, or may yet. */
  readonly onUnknown: () => void;
  step<T>(step: Promise<T>): Promise<T>;
}
