import type { BytesLike } from '../base/index.js';
import type { Keys } from '../client/index.js';
import type { CallOptions } from '../rpc/index.js';
import { Ending } from './ending.js';
import type { GuardedWrite } from './guards.js';
import { Held, type HeldClass, hold } from './held.js';
import {
  type Enqueued,
  enqueue,
  leaveQueue,
  type OwnKey,
  putIfFirst,
  putUnlessExists,
  type QueueKey,
  type QueueKeyPut,
  type QueueKeyTxn,
  queueKey,
  uniqueKey,
  waitUntilFirst,
  watchOwnKey,
  withValue,
} from './lock-queue.js';
import type { Session } from './session.js';
import {
  cleanedUp,
  LOCK_OPTIONS,
  type LockOptions,
  untilAnswered,
  untilDone,
  type Waiting,
  type WaitLimit,
  watchUntil,
  withinLimit,
} from './waiting.js';

export interface QueueContender {
  readonly session: Session;
  readonly name: string;
  readonly queueKey: QueueKey;
  readonly value: BytesLike;
  /** The transaction that puts the queue key. The first `acquire` prepares it, and later ones of a `Mutex` use it again. */
  entry: QueueKeyTxn | undefined;
  /**
   * Whether the lockers of the session share this queue key, and so wait for each other in the session's `LocalQueue`.
   */
  readonly isShared: boolean;
}

/** Returns a contender with the queue key that all lockers of the session share, as in Go. */
export function sharedContender(session: Session, name: string, value: BytesLike = ''): QueueContender {
  return { session, name, queueKey: queueKey(name, session.leaseId), value, entry: undefined, isShared: true };
}

/** Returns a contender with a new key under `ownPrefix`. The contender waits for all earlier keys under `waitsFor`. */
export function uniqueContender(session: Session, name: string, ownPrefix: string, waitsFor: string): QueueContender {
  const lease = session.leaseId;
  const key = { key: uniqueKey(ownPrefix, lease), prefix: waitsFor, lease };
  return { session, name, queueKey: key, value: '', entry: undefined, isShared: false };
}

/**
 * Acquires a lock: enters the local queue if the contender shares its queue key, puts the queue key, and waits until no
 * other key in the queue is before it. If this fails, for example because the wait timed out, deletes the queue key
 * (rules S21 and S22 in docs/semantics.md).
 *
 *              first in the            key created,            no key before it
 *              local queue             others before it        and own key present
 *     acquire ──────────────► enqueue ─────────────────► waiting ───────────────► held ──► released
 *                               │                          │                       │
 *                               │ no key before it         │ signal, maxWaitMs,    │ session lost,
 *                               └────────► held            │ session lost,         │ key deleted, maxHoldMs
 *                                                          ▼ own key deleted       ▼
 *                                                 key deleted, rejected          lost
 *
 * @throws EtcdError if the wait is canceled or times out (see `WaitOptions`), if the session ends, or if the server
 * refuses a call.
 */
export function acquire<T extends Held>(
  what: string,
  contender: QueueContender,
  options: LockOptions,
  type: HeldClass<T>,
): Promise<T> {
  // `take` returns undefined only if it must not wait.
  return take(what, contender, options, type, true) as Promise<T>;
}

/** Acquires the lock if it is free and no other locker in the session waits for it. Returns undefined otherwise. */
export function tryAcquire<T extends Held = Held>(
  what: string,
  contender: QueueContender,
  options: LockOptions,
  type: HeldClass<T> = Held as HeldClass<never>,
): Promise<T | undefined> {
  return take(what, contender, options, type, false);
}

/** Acquires the lock. If it is taken, waits for it if `waits`, and returns undefined otherwise. */
function take<T extends Held>(
  what: string,
  contender: QueueContender,
  options: LockOptions,
  type: HeldClass<T>,
  waits: boolean,
): Promise<T | undefined> {
  const { session, name, queueKey, value } = contender;
  const { client } = session;
  return withinLimit(
    what,
    options,
    session.signal,
    async (limit) => {
      if (waits) limit.forLock();
      const leaveLocalQueue = await enterLocalQueue(contender, limit, waits);
      if (leaveLocalQueue === undefined) return undefined;
      const put = session.guards.begin(waits ? entryOf(contender) : putIfFirst(queueKey, value));
      let enqueued: Enqueued | undefined;
      let own: OwnKey | undefined;
      try {
        // Returns undefined if the contender must not wait and another key is in the queue.
        enqueued = await enqueue(client, queueKey, limit.firstCalls, put);
        if (enqueued?.predecessor !== undefined && !waits)
          // An earlier session with the same lease has put the key behind another contender's key.
          await leaveQueue(client, queueKey.key, enqueued.own.createRevision, limit.firstCalls);
        else if (enqueued !== undefined) {
          own = await withValue(client, enqueued, value, limit.firstCalls);
          if (enqueued.predecessor !== undefined) {
            const { waiting } = limit;
            limit.taken(true);
            const stopWatching = watchOwnKey(client, enqueued.own, (gone) => limit.end(gone));
            own = { ...own, seenAt: await waitUntilFirst(client, enqueued, waiting).finally(stopWatching) };
            limit.taken(false);
          }
        }
      } catch (error) {
        await giveUp(contender, limit, put, enqueued?.own, leaveLocalQueue, error);
        throw error;
      }
      if (own !== undefined) return hold(type, session, name, own, leaveLocalQueue).limit(options.maxHoldMs);
      leaveLocalQueue();
      return undefined;
    },
    undefined,
    LOCK_OPTIONS,
  );
}

/** Returns the transaction of the contender, which later calls of a `Mutex` use again. */
function entryOf(contender: QueueContender): QueueKeyTxn {
  contender.entry ??= putUnlessExists(contender.queueKey, contender.value);
  return contender.entry;
}

/**
 * Enters the local queue of a contender that shares its queue key. Resolves with the function that leaves it, or with
 * undefined if other lockers of the session are in the queue and the contender must not wait.
 */
async function enterLocalQueue(
  { session, queueKey, isShared }: QueueContender,
  limit: WaitLimit,
  waits: boolean,
): Promise<(() => void) | undefined> {
  if (!isShared) return () => {};
  const queue = session.localQueue(queueKey.key);
  if (!waits) return queue.tryEnter();
  limit.taken(true);
  const leave = await queue.enter(limit.firstCalls.signal);
  limit.taken(false);
  return leave;
}

/** Why the wait for a gate ends: nothing is free. */
const NOTHING_FREE = Symbol('nothing free');

/**
 * Acquires a gate: the lock that contenders hold while they take one of several things, such as permits. Waits for the
 * gate only as long as `isFree` resolves to true. Returns undefined as soon as it resolves to false. `taken` is the
 * range in which a contender puts a key to take something.
 *
 * The contender that has the gate takes what is free. If it takes the last one, the next contender keeps the gate until
 * a holder returns something, and this call must not wait for that holder.
 */
export async function tryGate(
  what: string,
  gate: QueueContender,
  taken: Keys,
  waiting: Waiting,
  isFree: (options: CallOptions) => Promise<boolean>,
): Promise<Held | undefined> {
  const held = await tryAcquire(what, gate, waiting);
  if (held !== undefined || !(await untilAnswered(waiting, isFree))) return held;
  const ending = new Ending(waiting.signal);
  const inner: Waiting = { ...waiting, signal: ending.signal };
  const unlessFree = async (options: CallOptions): Promise<typeof NOTHING_FREE | undefined> =>
    (await isFree(options)) ? undefined : NOTHING_FREE;
  watchUntil(gate.session.client, { keys: taken, event: 'put' }, inner, unlessFree).then(ending.fail, ending.fail);
  try {
    return await acquire(what, gate, inner, Held);
  } catch (error) {
    if (ending.signal.reason === NOTHING_FREE) return undefined;
    ending.throwIfFailed();
    throw error;
  } finally {
    // Also ends the watch.
    ending.fail(NOTHING_FREE);
    ending.close();
  }
}

/**
 * Deletes the queue key of a contender that has failed with `error`, and then leaves the local queue. `own` is
 * undefined if no answer has arrived.
 */
async function giveUp(
  { session, queueKey }: QueueContender,
  limit: WaitLimit,
  put: QueueKeyPut,
  own: OwnKey | undefined,
  leaveLocalQueue: () => void,
  error: unknown,
): Promise<void> {
  // If the lease is gone, end the session now: it must not be valid if the caller tries again at once.
  session.losesWith(error);
  const { mayBeApplied } = put;
  // The deletion fails only when the lease is lost, and then etcd deletes the key with the lease.
  const isDeleted = await cleanedUp(withdraw(session, queueKey.key, put, own?.createRevision).finally(leaveLocalQueue));
  if (mayBeApplied) limit.setOutcome(isDeleted ? 'rejected' : 'unknown');
}

/**
 * Makes sure that no attempt puts the key later, and deletes the key. `createdAt` is the create revision of the key, if
 * an answer has told it.
 */
export async function withdraw(
  { client, leaseSignal: signal }: Session,
  key: string,
  put: GuardedWrite<unknown>,
  createdAt?: bigint,
): Promise<void> {
  let createRevision = createdAt;
  if (createRevision === undefined) {
    const applied = await untilDone({ signal }, (options) => put.settle(options));
    if (applied?.succeeded) createRevision = applied.revision;
    // An earlier session with the same lease has put the key, or another client has deleted the guard of the put. The
    // server may refuse this read as it has refused the put.
    else if (put.mayBeApplied)
      createRevision = (await untilAnswered({ signal }, (options) => client.get(key, options)))?.createRevision;
  }
  if (createRevision !== undefined) await leaveQueue(client, key, createRevision, { signal });
}
