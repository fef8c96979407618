import type { BytesLike } from '../bytes.js';
import type { KeyValue } from '../kv/key-value.js';
import {
  enqueue,
  enqueueIfEmpty,
  leaveQueue,
  leaveQueueIfEntered,
  type QueueEntry,
  type QueueKey,
  waitForTurn,
  watchEntry,
} from './queue-entry.js';
import type { Seat } from './seat.js';
import type { Session } from './session.js';
import { settledWithin, type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';

/** How long a wait that was given up stays for its key to be deleted, before that goes on in the background. */
const CLEANUP_WAIT_MS = 1_000;

/** What a contender whose turn has come makes of it. `leave` lets the next one of the same session use the key. */
export type Hold<T> = (entry: QueueEntry, leave: () => void) => T;

/** One contender of one session, and what it puts. */
export interface Contender {
  readonly session: Session;
  readonly key: QueueKey;
  readonly value: BytesLike;
}

/**
 * Queues and waits until nobody is ahead. A wait that ends otherwise, by `signal`, `timeoutMs` (default: none) or the
 * loss of the session, leaves the queue again.
 *
 * @throws EtcdError with the reason of the end: `Canceled`, `DeadlineExceeded`, that of the session's loss, or `LockLost`
 * where the own place in the queue was deleted.
 */
export async function takeTurn<T>(
  what: string,
  { session, key, value }: Contender,
  options: WaitOptions,
  hold: Hold<T>,
): Promise<T> {
  const limit = waitLimit(what, options, session.signal);
  try {
    limit.signal.throwIfAborted();
    const seat = session.seat(key.key);
    const leave = await seat.localQueue.enter(limit.signal);
    const attempt = begin(session, key.key, seat, leave);
    const entering = enqueue(session.client, key, value, limit.signal, attempt.onUnknown);
    const { entry, ahead } = await attempt.step(entering);
    attempt.entry = entry;
    seat.claim(entry.revision);
    if (ahead !== undefined) await attempt.step(wait(session, entry, ahead, limit));
    return hold(entry, leave);
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    limit.dispose();
  }
}

/** Takes the turn if nobody is to be waited for, and nobody of this session is after it. Never queues. */
export async function tryTurn<T>(
  what: string,
  { session, key, value }: Contender,
  options: WaitOptions,
  hold: Hold<T>,
): Promise<T | undefined> {
  const limit = waitLimit(what, options, session.signal);
  try {
    limit.signal.throwIfAborted();
    const seat = session.seat(key.key);
    let leave = seat.localQueue.tryEnter();
    while (leave === undefined && seat.localQueue.occupant === 'guard') {
      await seat.localQueue.left(limit.signal);
      limit.signal.throwIfAborted();
      leave = seat.localQueue.tryEnter();
    }
    if (leave === undefined) return undefined;
    const attempt = begin(session, key.key, seat, leave);
    const entry = await attempt.step(enqueueIfEmpty(session.client, key, value, limit.signal, attempt.onUnknown));
    if (entry === undefined) {
      leave();
      return undefined;
    }
    seat.claim(entry.revision);
    return hold(entry, leave);
  } catch (error) {
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    limit.dispose();
  }
}

async function wait(session: Session, entry: QueueEntry, ahead: KeyValue, limit: WaitLimit): Promise<void> {
  const stopWatching = watchEntry(session.client, entry, (gone) => limit.end(gone));
  await waitForTurn(session.client, entry, ahead, limit.signal).finally(stopWatching);
}

interface Attempt {
  /** The place in the queue, once it is known. */
  entry: QueueEntry | undefined;
  /** The put of the key may have come through, or may yet. */
  readonly onUnknown: () => void;
  step<T>(step: Promise<T>): Promise<T>;
}

/**
 * The steps towards the turn. Where one fails the own key is deleted, by a path that what ended the wait does not stop;
 * only then may the next contender of the session use the key.
 */
function begin({ client, signal }: Session, key: string, seat: Seat, leave: () => void): Attempt {
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
