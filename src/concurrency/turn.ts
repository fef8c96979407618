import type { KeyValue } from '../kv/key-value.js';
import type { BytesLike } from '../runtime/bytes.js';
import { settledWithin } from '../runtime/timers.js';
import {
  deleteLatePut,
  enqueue,
  enqueueIfEmpty,
  leaveQueue,
  type QueueEntry,
  type QueueKey,
  uniqueKey,
  waitForTurn,
  watchEntry,
} from './queue-entry.js';
import type { Seat } from './seat.js';
import type { Session } from './session.js';
import { type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';

/** How long a wait that was given up stays for its key to be deleted, before that goes on in the background. */
const CLEANUP_WAIT_MS = 1_000;

/** What a contender whose turn has come makes of it. `leave` lets the next one of the same session use the key. */
export type Hold<T> = (entry: QueueEntry, leave: () => void) => T;

/** One contender of one session, and what it puts. */
export interface Contender {
  readonly session: Session;
  readonly key: QueueKey;
  readonly value: BytesLike;
  /** Where the key is this contender's alone: the prefix under which its session has such keys. */
  readonly own?: string | undefined;
}

/** A contender with a key of its own under `own`, which waits for all before it under `waitsFor`. */
export function uniqueContender(session: Session, own: string, waitsFor: string): Contender {
  const lease = session.leaseId;
  return { session, value: '', own, key: { key: uniqueKey(own, lease), prefix: waitsFor, lease } };
}

/**
 * Queues and waits until nobody is ahead. A wait that ends otherwise, by `signal`, `timeoutMs` (default: none) or the
 * loss of the session, leaves the queue again.
 *
 * @throws EtcdError with the reason of the end: `Canceled`, `DeadlineExceeded`, that of the session's loss, or `LockLost`
 * where the own place in the queue was deleted.
 */
export async function takeTurn<T>(what: string, contender: Contender, options: WaitOptions, hold: Hold<T>): Promise<T> {
  const { session, key, value } = contender;
  const limit = waitLimit(what, options, session.signal);
  try {
    limit.signal.throwIfAborted();
    const place = contender.own === undefined ? await sharedPlace(session, key.key, limit.signal) : ownPlace(contender);
    const attempt = begin(session, key.key, place, limit);
    const entering = enqueue(session.client, key, value, limit.signal, attempt.onUnknown);
    const { entry, ahead } = await attempt.step(entering);
    attempt.entry = entry;
    place.claim(entry.revision);
    if (ahead !== undefined) await attempt.step(wait(session, entry, ahead, limit));
    return hold(entry, place.leave);
  } catch (error) {
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
  }
}

/** Takes the turn if nobody is to be waited for, and nobody of this session is after it. Never queues. */
export async function tryTurn<T>(
  what: string,
  contender: Contender,
  options: WaitOptions,
  hold: Hold<T>,
): Promise<T | undefined> {
  const { session, key, value } = contender;
  const limit = waitLimit(what, options, session.signal);
  try {
    limit.signal.throwIfAborted();
    const place =
      contender.own === undefined ? await trySharedPlace(session, key.key, limit.signal) : ownPlace(contender);
    if (place === undefined) return undefined;
    const attempt = begin(session, key.key, place, limit);
    const entry = await attempt.step(enqueueIfEmpty(session.client, key, value, limit.signal, attempt.onUnknown));
    if (entry === undefined) {
      place.leave();
      return undefined;
    }
    place.claim(entry.revision);
    return hold(entry, place.leave);
  } catch (error) {
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
  }
}

async function wait(session: Session, entry: QueueEntry, ahead: KeyValue, limit: WaitLimit): Promise<void> {
  const stopWatching = watchEntry(session.client, entry, (gone) => limit.end(gone));
  await waitForTurn(session.client, entry, ahead, limit.signal).finally(stopWatching);
}

/** What a contender uses its key through. */
interface Place {
  /** The key was found to be its own, at this create revision. */
  readonly claim: (revision: bigint) => void;
  /** A put of the key has an unknown outcome: it may come through at any time, as long as the lease lives. */
  readonly doubt: () => void;
  /** The key is deleted, and not used any more. */
  readonly leave: () => void;
}

async function sharedPlace(session: Session, key: string, signal: AbortSignal): Promise<Place> {
  const seat = session.seat(key);
  return placeIn(session, key, seat, await seat.localQueue.enter(signal));
}

async function trySharedPlace(session: Session, key: string, signal: AbortSignal): Promise<Place | undefined> {
  for (;;) {
    // Anew each time: one that was empty for a moment is forgotten, and others may have another.
    const seat = session.seat(key);
    const leave = seat.localQueue.tryEnter();
    if (leave !== undefined) return placeIn(session, key, seat, leave);
    if (seat.localQueue.occupant !== 'guard') return undefined;
    await seat.localQueue.left(signal);
    signal.throwIfAborted();
  }
}

function placeIn(session: Session, key: string, seat: Seat, leave: () => void): Place {
  session.latePuts.inUse(key);
  return {
    claim: (revision) => seat.claim(revision),
    doubt: () => seat.guard(),
    leave: () => {
      // Another locker of the session may take the key as soon as it is left.
      session.latePuts.released(key, () => session.seat(key).clear());
      leave();
    },
  };
}

function ownPlace({ session, key: { key, lease }, own }: Contender): Place {
  const { client, signal, latePuts } = session;
  let doubtful = false;
  return {
    claim: () => {},
    doubt: () => {
      doubtful = true;
    },
    leave: () => {
      if (signal.aborted) return;
      latePuts.released(key, () => deleteLatePut(client, key, session.leaseId, signal));
      if (doubtful) session.strays(`${own}${lease.toString(16)}-`).add(key);
    },
  };
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
function begin(session: Session, key: string, place: Place, limit: WaitLimit): Attempt {
  const { client, signal } = session;
  let doubtful = false;
  const withdraw = async (entry: QueueEntry | undefined): Promise<void> => {
    if (entry !== undefined) await leaveQueue(client, key, entry.revision, signal);
    else if (doubtful) await deleteLatePut(client, key, session.leaseId, signal);
  };
  const attempt: Attempt = {
    entry: undefined,
    onUnknown: () => {
      doubtful = true;
      place.doubt();
    },
    step: async (step) => {
      try {
        return await step;
      } catch (error) {
        // Whoever tries again at once is not to find the session valid.
        session.losesWith(error);
        // Fails only with the session, and then the key goes with the lease.
        const withdrawn = withdraw(attempt.entry).catch(() => {});
        const isWithdrawn = await settledWithin(CLEANUP_WAIT_MS, withdrawn.finally(place.leave));
        if (attempt.entry !== undefined || doubtful) limit.settle(isWithdrawn ? 'rejected' : 'unknown');
        throw error;
      }
    },
  };
  return attempt;
}
