import { checkTimeout, WRITE_OPTIONS, type WriteOptions } from '../channel/rpc.js';
import { EtcdError, timedOut } from '../errors/etcd-error.js';
import { type WithHeader, withHeader } from '../kv/requests.js';
import { type Conditions, compare, type Op, op, type Txn, type TxnResult } from '../kv/txn.js';
import { checkOptions } from '../runtime/arguments.js';
import type { BytesLike } from '../runtime/bytes.js';
import { INSPECT, type InspectArguments, inspected } from '../runtime/printed.js';
import { CheckedSignal, checkedSignalOf, onAbort } from '../runtime/signals.js';
import { settledWithin } from '../runtime/timers.js';
import {
  type Enqueued,
  enqueue,
  keyGone,
  leaveQueue,
  type OwnKey,
  putIfFirst,
  putUnlessExists,
  type QueueKey,
  type QueueKeyPut,
  queueKey,
  uniqueKey,
  WATCH_AFTER_MS,
  waitUntilFirst,
  watchOwnKey,
  withValue,
} from './lock-queue.js';
import type { Session } from './session.js';
import { cleanedUp, untilDone, type WaitLimit, type WaitOptions, withinLimit } from './waiting.js';

/** Default time limit of `release`, in milliseconds. */
const RELEASE_TIMEOUT_MS = 10_000;

/** One contender for a lock: its session, its queue key, and whether it shares that key. */
export interface Contender {
  readonly session: Session;
  readonly name: string;
  readonly queueKey: QueueKey;
  readonly value: BytesLike;
  /**
   * Whether all lockers of the session use this queue key. The lockers are the callers in this process that want this
   * lock. If they share the key, they wait for each other in the session's `LocalQueue`.
   */
  readonly isShared: boolean;
}

/** Returns a contender with the queue key that all lockers of the session share, as in Go. */
export function sharedContender(session: Session, name: string, value: BytesLike = ''): Contender {
  return { session, name, queueKey: queueKey(name, session.leaseId), value, isShared: true };
}

/** Returns a contender with a new key under `ownPrefix`. The contender waits for all earlier keys under `waitsFor`. */
export function uniqueContender(session: Session, name: string, ownPrefix: string, waitsFor: string): Contender {
  const lease = session.leaseId;
  const key = { key: uniqueKey(ownPrefix, lease), prefix: waitsFor, lease };
  return { session, name, queueKey: key, value: '', isShared: false };
}

type HeldClass<T extends Held, Own extends HeldKey = OwnKey> = new (
  session: Session,
  name: string,
  own: Own,
  leave: () => void,
) => T;

/** What a hold needs to know about its key. */
type HeldKey = Pick<OwnKey, 'key' | 'createRevision' | 'seenAt'>;

/**
 * Acquires a lock: enters the local queue, puts the queue key, and waits until no other key in the queue is before it.
 * If this fails, for example because the wait timed out, deletes the queue key (rules S21 and S22 in
 * docs/semantics.md).
 *
 * @throws EtcdError if the wait is canceled or times out (see `WaitOptions`), if the session ends, or if the server
 * refuses a call.
 */
export function acquire<T extends Held>(
  what: string,
  contender: Contender,
  options: WaitOptions,
  type: HeldClass<T>,
): Promise<T> {
  const { session, queueKey, value } = contender;
  const { client } = session;
  return withinLimit(what, options, session.signal, async (limit) => {
    limit.forLock().taken(true);
    const leaveLocalQueue = await localQueueOf(contender)?.enter(limit.firstCalls.signal);
    limit.taken(false);
    const attempt = new Attempt(contender, limit, putUnlessExists(session.guards, queueKey, value), leaveLocalQueue);
    const own = await attempt.run(async () => {
      // The write never leaves the queue without the key.
      const enqueued = (await attempt.enqueue()) as Enqueued;
      const entered = await withValue(client, enqueued, value, limit.firstCalls);
      if (enqueued.predecessor !== undefined) {
        const { waiting } = limit;
        limit.taken(true);
        const stopWatching = watchOwnKey(client, enqueued.own, (gone) => limit.end(gone));
        await waitUntilFirst(client, enqueued, waiting).finally(stopWatching);
        limit.taken(false);
      }
      return entered;
    });
    return hold(type, session, contender.name, own, attempt.leave);
  });
}

/** Acquires the lock if it is free and no other locker in the session waits for it. Returns undefined otherwise. */
export function tryAcquire(what: string, contender: Contender, options: WaitOptions): Promise<Held | undefined> {
  const { session, queueKey, value } = contender;
  return withinLimit(what, options, session.signal, async (limit) => {
    const leaveLocalQueue = localQueueOf(contender)?.tryEnter();
    if (contender.isShared && leaveLocalQueue === undefined) return undefined;
    const attempt = new Attempt(contender, limit, putIfFirst(session.guards, queueKey, value), leaveLocalQueue);
    const own = await attempt.run(async () => {
      const enqueued = await attempt.enqueue();
      if (enqueued === undefined) return undefined;
      if (enqueued.predecessor === undefined) return withValue(session.client, enqueued, value, limit.firstCalls);
      // An earlier session with the same lease has put the key behind another contender's key. The call must not wait.
      await leaveQueue(session.client, queueKey.key, enqueued.own.createRevision, limit.firstCalls);
      return undefined;
    });
    if (own !== undefined) return hold(Held, session, contender.name, own, attempt.leave);
    attempt.leave();
    return undefined;
  });
}

function localQueueOf({ session, queueKey, isShared }: Contender) {
  return isShared ? session.localQueue(queueKey.key) : undefined;
}

/** One attempt to acquire a lock. */
class Attempt {
  /** The contender's queue key as etcd has returned it; undefined until then. */
  #own: OwnKey | undefined;
  readonly #contender: Contender;
  readonly #limit: WaitLimit;
  readonly #put: QueueKeyPut;
  /**
   * Lets the next locker in the session use the queue key. Call this function after the key is deleted, because the next
   * locker may use the same key.
   */
  readonly leave: () => void;

  constructor(contender: Contender, limit: WaitLimit, put: QueueKeyPut, leaveLocalQueue: () => void = () => {}) {
    this.#contender = contender;
    this.#limit = limit;
    this.#put = put;
    this.leave = leaveLocalQueue;
  }

  /** Puts the queue key. Returns undefined if the write put no key. */
  async enqueue(): Promise<Enqueued | undefined> {
    const { session, queueKey } = this.#contender;
    const enqueued = await enqueue(session.client, queueKey, this.#limit.firstCalls, this.#put);
    this.#own = enqueued?.own;
    return enqueued;
  }

  /** Runs the attempt. If the attempt fails, deletes the queue key, even if the wait was canceled or timed out. */
  async run<T>(steps: () => Promise<T>): Promise<T> {
    try {
      return await steps();
    } catch (error) {
      // If the lease is gone, end the session now, so that the session is no longer valid if the caller tries again at
      // once.
      this.#contender.session.losesWith(error);
      const { mayBeApplied } = this.#put;
      // The deletion fails only when the session ends, and then etcd deletes the key with the lease.
      const isDeleted = await cleanedUp(this.#deleteKey().finally(this.leave));
      if (mayBeApplied) this.#limit.settle(isDeleted ? 'rejected' : 'unknown');
      throw error;
    }
  }

  async #deleteKey(): Promise<void> {
    const { session, queueKey } = this.#contender;
    const { client } = session;
    const createRevision = this.#own?.createRevision ?? (await this.#createdAt());
    if (createRevision !== undefined) await leaveQueue(client, queueKey.key, createRevision, session);
  }

  /** Makes sure that the key is not put any more. Returns the create revision of the key if it exists. */
  async #createdAt(): Promise<bigint | undefined> {
    const { session, queueKey } = this.#contender;
    const applied = await untilDone(session, (options) => this.#put.settle(options));
    if (applied === undefined || applied.succeeded) return applied?.revision;
    // An earlier session with the same lease has put the key.
    return (await untilDone(session, (options) => session.client.get(queueKey.key, options)))?.createRevision;
  }
}

/** Options of a release. */
export interface ReleaseOptions {
  /** Milliseconds to wait for the release. Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

export const RELEASE_OPTIONS = { timeoutMs: checkTimeout } as const;

/**
 * Creates the `Held` object of a lock that was just acquired.
 *
 * @throws EtcdError with the reason of the session's end, if the session was lost in the meantime. etcd then deletes
 * the queue key with the lease.
 */
export function hold<T extends Held, Own extends HeldKey>(
  type: HeldClass<T, Own>,
  session: Session,
  name: string,
  own: Own,
  leave: () => void,
): T {
  const held = new type(session, name, own, leave);
  const lost = held.lostBy();
  if (lost !== undefined) throw lost;
  return held;
}

/**
 * A lock, permit or leadership that the caller holds.
 *
 * `signal` aborts when the caller no longer holds the lock: the caller released it, the session was lost, or another
 * client deleted the key. The loss of the session aborts the signal before the server can give the lock to another
 * contender. If another client deletes the key, the signal aborts as soon as a watch reports the deletion.
 *
 * @example
 * await using held = await mutex.lock();
 * await held.txn({ then: [op.put('jobs/last', 'done')] });
 */
export class Held implements AsyncDisposable {
  /** Name of the lock. */
  readonly name: string;
  /** The holder's queue key. */
  readonly key: string;
  /** Fencing token: the create revision of the key. Every later holder has a greater token. */
  readonly token: bigint;
  /** @internal */
  protected readonly session: Session;
  /** The signal. Created when the program first reads it, because many programs never do. */
  #signal: CheckedSignal | undefined;
  /** Returns why the caller no longer holds the lock. Undefined while the caller holds the lock. */
  #endedBy: (() => EtcdError) | undefined;
  readonly #leave: () => void;
  readonly #stopWatching: () => void;
  readonly #offSessionLost: () => void;
  /** The deletion of the queue key; undefined while the caller holds the lock. Never rejects. */
  #releasing: Promise<void> | undefined;

  /** @internal `leave` lets the next locker in the same session use the key. */
  constructor(session: Session, name: string, own: HeldKey, leave: () => void) {
    this.name = name;
    this.key = own.key;
    this.token = own.createRevision;
    this.session = session;
    this.#leave = leave;
    const sessionLost = (): void => this.#end(() => session.signal.reason);
    this.#offSessionLost = onAbort(session.signal, sessionLost);
    this.#stopWatching = watchOwnKey(session.client, own, (error) => this.#end(() => error), WATCH_AFTER_MS.holder);
    if (session.signal.aborted) sessionLost();
  }

  /**
   * Aborts with an `EtcdError` when the caller no longer holds the lock. Reading `aborted` compares the lease's
   * deadline with the monotonic clock, so the result is right even after the event loop was blocked.
   */
  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      this.#signal = new CheckedSignal(() => this.lostBy());
      // Aborts the signal if the caller does not hold the lock any more.
      void this.#signal.aborted;
    }
    return this.#signal.signal;
  }

  /**
   * Returns a signal that aborts when the caller no longer holds the lock or one of `others` aborts. Reading its
   * `aborted` checks the lease's deadline, as for `signal`. A signal made by `AbortSignal.any` does not check the
   * deadline. After the event loop was blocked, such a signal may not have aborted yet although another contender
   * already holds the lock.
   *
   * @example
   * await work({ signal: held.signalWith(stop.signal) });
   */
  signalWith(...others: readonly AbortSignal[]): AbortSignal {
    return checkedSignalOf(this.signal, others);
  }

  /** Returns the fields that `JSON.stringify` writes. */
  toJSON(): { readonly name: string; readonly key: string; readonly token: string; readonly valid: boolean } {
    const { name, key, token } = this;
    return { name, key, token: String(token), valid: this.valid() };
  }

  /** @internal */
  [INSPECT](...args: InspectArguments): string {
    return inspected('Held', { ...this.toJSON(), token: this.token }, ...args);
  }

  /** Returns whether the caller certainly holds the lock now. Checks the lease's deadline, as for `signal`. */
  valid(): boolean {
    return this.lostBy() === undefined;
  }

  /** @internal Returns the reason of `signal` if the caller does not hold the lock. */
  lostBy(): EtcdError | undefined {
    if (this.#endedBy !== undefined) return this.#endedBy();
    const { signal } = this.session;
    return signal.aborted ? signal.reason : undefined;
  }

  /** @internal Returns why the caller has lost the lock. Undefined while it holds the lock, and after a release. */
  loss(): EtcdError | undefined {
    const ended = this.lostBy();
    return ended?.reason === 'LockReleased' ? undefined : ended;
  }

  /**
   * Runs a transaction that has no effect unless the caller still holds the lock. etcd checks the fencing token, so a
   * holder that was suspended for too long cannot write (S23).
   *
   * @throws EtcdError with reason `LockLost`, or `LockReleased` after `release`, if the caller does not hold the lock.
   * The transaction has then written nothing.
   * @example
   * await held.txn({ then: [op.put('jobs/owner', 'me')] });
   */
  async txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options: WriteOptions = {}): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    checkOptions(options, WRITE_OPTIONS, 'Held.txn');
    const lostBy = this.lostBy();
    if (lostBy !== undefined) throw notHeld(lostBy);
    const isHeld = compare.createRevision(this.key, '==', this.token);
    const result = await this.session.client.txn({ if: [isHeld], then: [op.txn(txn)] }, options);
    if (!result.succeeded) {
      this.#end(keyGone);
      throw notHeld(this.lostBy());
    }
    return withHeader(result.header, result.responses[0]) as WithHeader<TxnResult<If, Then, Else>>;
  }

  /**
   * Releases the lock. `signal` aborts first, with reason `LockReleased`. A further call, or a call after the lock was
   * lost, only waits until the queue key is deleted.
   *
   * @throws EtcdError with reason `DeadlineExceeded` if no server answers within `timeoutMs` (default 10,000). The
   * release then continues in the background until the session ends.
   */
  async release(options: ReleaseOptions = {}): Promise<void> {
    checkOptions(options, RELEASE_OPTIONS, 'release');
    const { timeoutMs = RELEASE_TIMEOUT_MS } = options;
    checkTimeout(timeoutMs, 'timeoutMs');
    this.#end(lockReleased);
    const released = await settledWithin(timeoutMs, this.#releasing as Promise<void>);
    if (!released) throw timedOut('release', timeoutMs, 'unknown');
  }

  /** @internal Ends the hold like `release`, but leaves the key: the caller deletes it in a transaction of its own. */
  settle(): void {
    this.#end(lockReleased, async () => {});
  }

  /** Same as `release`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /**
   * Ends the caller's hold on the lock: aborts `signal`, deletes the queue key, and then lets the next locker of the
   * session use the key.
   */
  #end(reason: () => EtcdError, deleteKey = () => this.#deleteKey()): void {
    if (this.#releasing !== undefined) return;
    let error: EtcdError | undefined;
    this.#endedBy = () => {
      error ??= reason();
      return error;
    };
    this.#offSessionLost();
    this.#stopWatching();
    this.#signal?.abort(this.#endedBy());
    this.#releasing = deleteKey();
  }

  async #deleteKey(): Promise<void> {
    try {
      await leaveQueue(this.session.client, this.key, this.token, this.session);
    } catch {
      // The session has ended or the client was closed, so etcd deletes the key with the lease.
    } finally {
      this.#leave();
    }
  }
}

function lockReleased(): EtcdError {
  return new EtcdError('the lock was released', { code: 'Aborted', reason: 'LockReleased', outcome: 'rejected' });
}

function notHeld(cause: unknown): EtcdError {
  const isReleased = cause instanceof EtcdError && cause.reason === 'LockReleased';
  return new EtcdError('the caller no longer holds the lock; nothing was written', {
    code: 'Aborted',
    reason: isReleased ? 'LockReleased' : 'LockLost',
    outcome: 'rejected',
    cause,
  });
}
