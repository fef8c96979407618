import {
  after,
  CheckedSignal,
  checkedSignalOf,
  checkOptions,
  EtcdError,
  onAbort,
  once,
  orAborted,
  Printable,
  settledWithin,
  timedOut,
} from '../base/index.js';
import { type Conditions, compare, type Op, op, type Txn, type TxnResult } from '../client/index.js';
import { checkTimeout, type WithHeader, WRITE_OPTIONS, type WriteOptions, withHeader } from '../rpc/index.js';
import { keyGone, leaveQueue, lockLost, type OwnKey, WATCH_AFTER_MS, watchOwnKey } from './lock-queue.js';
import type { Session } from './session.js';

/** Default of the time limit of a release, in milliseconds. */
export const RELEASE_TIMEOUT_MS = 10_000;

export type HeldClass<T extends Held, Own extends HeldKey = OwnKey> = new (
  session: Session,
  name: string,
  own: Own,
  leaveLocalQueue: () => void,
) => T;

/** The parts of an `OwnKey` that `Held` uses. */
type HeldKey = Pick<OwnKey, 'key' | 'createRevision' | 'seenAt'>;

/** Options of `Held.release` and `Leadership.resign`. */
export interface ReleaseOptions {
  /** Milliseconds to wait for the release. Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

export const RELEASE_OPTIONS = { timeoutMs: checkTimeout } as const;

/**
 * Returns a new object of the class `type`. @throws EtcdError with the reason of the session's end, if the session has
 * ended. The queue key is then deleted.
 */
export function hold<T extends Held, Own extends HeldKey>(
  type: HeldClass<T, Own>,
  session: Session,
  name: string,
  own: Own,
  leaveLocalQueue: () => void,
): T {
  const held = new type(session, name, own, leaveLocalQueue);
  const lost = held.lostBy();
  if (lost === undefined) return held;
  // The lease of a closing client may live on for other locks.
  held.release().catch(() => {});
  throw lost;
}

/**
 * A lock, permit or leadership that the caller holds.
 *
 * `signal` aborts when the caller no longer holds the lock: the caller released it, `maxHoldMs` passed, the session
 * ended, or another client deleted the key. The loss of the session aborts the signal before the server can give the
 * lock to another contender. If another client deletes the key, the signal aborts as soon as a watch reports the
 * deletion.
 *
 * @example
 * await using held = await mutex.lock();
 * await held.txn({ then: [op.put('jobs/last', 'done')] });
 */
export class Held extends Printable implements AsyncDisposable {
  /** @internal */
  static override readonly name: string = 'Held';
  /** Name of the lock. */
  readonly name: string;
  /** The holder's queue key. */
  readonly key: string;
  /** Fencing token: the create revision of the key. Every later holder has a greater token. */
  readonly token: bigint;
  /** @internal */
  protected readonly session: Session;
  /** Created when the program first reads `signal`. */
  #signal: CheckedSignal | undefined;
  /** Returns why the caller no longer holds the lock. Undefined while the caller holds the lock. */
  #endedBy: (() => EtcdError) | undefined;
  readonly #leaveLocalQueue: () => void;
  readonly #stopWatching: () => void;
  readonly #offSessionLost: () => void;
  /** Whether the key may go: the holder has called `release`, or the TTL has passed after `maxHoldMs`. */
  #isFree = false;
  /** Resolves the promises of `#untilFree`. */
  #onFree: () => void = () => {};
  /**
   * Ends the hold: aborts `signal`, deletes the queue key, and then lets the next locker of the session use the key.
   * Only the first call has an effect. Every call returns the promise of the deletion, which never rejects.
   */
  readonly #end = once((reason: () => EtcdError, deleteKey: () => Promise<void> = () => this.#deleteKey()) => {
    // The session may have ended, although its signal has not told this object yet.
    const lost = this.#lostBy();
    let error: EtcdError | undefined;
    this.#endedBy = () => {
      error ??= lost ?? reason();
      return error;
    };
    this.#offSessionLost();
    this.#stopWatching();
    this.#signal?.abort(this.#endedBy());
    return deleteKey();
  });

  /** @internal `leaveLocalQueue` lets the next locker in the same session use the key. */
  constructor(session: Session, name: string, own: HeldKey, leaveLocalQueue: () => void) {
    super();
    this.name = name;
    this.key = own.key;
    this.token = own.createRevision;
    this.session = session;
    this.#leaveLocalQueue = leaveLocalQueue;
    session.holders.add(this);
    const sessionLost = (): void =>
      void this.#end(
        () => session.signal.reason,
        () => this.#deleteWhenFree(),
      );
    const gone = (error: EtcdError): void =>
      error.cause === undefined ? void this.#end(() => error) : this.#loses(() => error);
    this.#offSessionLost = onAbort(session.signal, sessionLost);
    this.#stopWatching = watchOwnKey(session.client, own, gone, WATCH_AFTER_MS.holder);
    if (session.signal.aborted) sessionLost();
  }

  /**
   * Aborts with an `EtcdError` when the caller no longer holds the lock. Reading `aborted` compares the lease's
   * deadline with the clocks of the machine, so the result is right even after the event loop was blocked.
   */
  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      this.#signal = new CheckedSignal(() => this.lostBy());
      // Aborts the signal if the caller no longer holds the lock.
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

  /** @internal */
  override shown(): object {
    const { name, key, token } = this;
    return { name, key, token, valid: this.valid() };
  }

  /**
   * Returns whether the caller still holds the lock, as far as this client knows. Checks the lease's deadline, as for
   * `signal`.
   */
  valid(): boolean {
    return this.lostBy() === undefined;
  }

  /** @internal Returns the reason of `signal` if the caller does not hold the lock. */
  lostBy(): EtcdError | undefined {
    return this.#lostBy();
  }

  /**
   * @internal Returns why another contender may hold the lock. Unlike `lostBy`, this method returns undefined while a
   * closing client keeps the lock until the holder calls `release`.
   */
  unheldBy(): EtcdError | undefined {
    const ended = this.lostBy();
    if (ended?.reason !== 'ClientClosed') return ended;
    const { leaseSignal } = this.session;
    return leaseSignal.aborted ? leaseSignal.reason : undefined;
  }

  /** @internal Returns why the caller has lost the lock. Undefined while it holds the lock, and after a release. */
  loss(): EtcdError | undefined {
    const ended = this.unheldBy();
    return ended?.reason === 'LockReleased' ? undefined : ended;
  }

  /**
   * @internal Ends the hold after `maxHoldMs`, as if the lock was lost. The queue key stays until the holder calls
   * `release`, but not longer than the lease's TTL. So a holder that stops when its signal aborts, and within this TTL,
   * never runs at the same time as the next holder.
   */
  limit(maxHoldMs: number | undefined): this {
    if (maxHoldMs === undefined) return this;
    this.#unlessFree(maxHoldMs, () => this.#loses(() => lockLost(`held for maxHoldMs = ${maxHoldMs}`)));
    return this;
  }

  /** Ends the hold. The holder may still use the lock, so the key stays until `release`, but not longer than the TTL. */
  #loses(reason: () => EtcdError): void {
    void this.#end(reason, () => this.#deleteWhenFree());
    this.#unlessFree(this.session.ttlMs, () => this.#free());
  }

  #unlessFree(delayMs: number, action: () => void): void {
    void this.#untilFree().then(after(delayMs, action, 'background'));
  }

  /**
   * Runs a transaction that has no effect unless the caller still holds the lock. etcd checks the fencing token, so a
   * holder that was suspended for too long cannot write (rule S23 in docs/semantics.md).
   *
   * @throws EtcdError with reason `LockLost`, or `LockReleased` after `release`, if the caller does not hold the lock.
   * The transaction has then written nothing. If the lock is lost while no server answers, the call goes on until a server
   * answers or its `timeoutMs` has passed, because only etcd knows whether it has applied the transaction.
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
      void this.#end(keyGone);
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
    const deleted = this.#end(lockReleased);
    void deleted.then(() => this.session.holders.delete(this));
    this.#free();
    const released = await settledWithin(timeoutMs, deleted);
    if (!released) throw timedOut('release', timeoutMs, 'unknown');
  }

  /**
   * @internal Ends the hold like `release`, but keeps the key, which the caller deletes in a separate transaction. The
   * caller must then remove this object from the `holders` of the session.
   */
  endKeepingKey(): void {
    void this.#end(lockReleased, async () => {});
  }

  /** Same as `release`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  #lostBy(): EtcdError | undefined {
    if (this.#endedBy !== undefined) return this.#endedBy();
    const { signal } = this.session;
    return signal.aborted ? signal.reason : undefined;
  }

  #free(): void {
    this.#isFree = true;
    this.#onFree();
  }

  #untilFree(): Promise<void> {
    if (this.#isFree) return Promise.resolve();
    const earlier = this.#onFree;
    return new Promise((resolve) => {
      this.#onFree = () => {
        earlier();
        resolve();
      };
    });
  }

  /** Keeps the key until it may go or the lease is lost, because the holder may still use the lock. */
  async #deleteWhenFree(): Promise<void> {
    await orAborted(this.#untilFree(), this.session.leaseSignal).catch(() => {});
    await this.#deleteKey();
  }

  async #deleteKey(): Promise<void> {
    try {
      await leaveQueue(this.session.client, this.key, this.token, { signal: this.session.leaseSignal });
      this.session.holders.delete(this);
    } catch {
      // The session has ended or the client was closed, so etcd deletes the key with the lease. If the client closes, the
      // session keeps the lease until the holder calls `release`, because the holder may still use the lock.
    } finally {
      this.#leaveLocalQueue();
    }
  }
}

function lockReleased(): EtcdError {
  return new EtcdError('the lock was released', { code: 'Aborted', reason: 'LockReleased', outcome: 'rejected' });
}

function notHeld(cause: EtcdError | undefined): EtcdError {
  return lockLost('the caller no longer holds the lock; nothing was written', cause);
}
