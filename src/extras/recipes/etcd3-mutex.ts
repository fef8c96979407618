import { checkOptions, type EtcdError, onAbort, settledWithin, timedOut } from '../../base/index.js';
import { type Conditions, compare, type Op, op, preparedTxn, type Txn, type TxnResult } from '../../client/index.js';
import {
  acquire,
  checkName,
  checkSession,
  cleanedUp,
  Held,
  hold,
  keyGone,
  type QueueContender,
  RELEASE_OPTIONS,
  RELEASE_TIMEOUT_MS,
  type ReleaseOptions,
  type Session,
  sharedContender,
  tryAcquire,
  undoPut,
  untilAnswered,
  type WaitLimit,
  type WaitOptions,
  watchUntil,
  withinLimit,
} from '../../locks/index.js';
import { type CallOptions, type WithHeader, WRITE_OPTIONS, type WriteOptions, withHeader } from '../../rpc/index.js';

/** Repeats `look` until it resolves with a value (for `lock`), or only until a server has answered (for `tryLock`). */
type Looking = (look: (options: CallOptions) => Promise<Held | undefined>) => Promise<Held | undefined>;

/**
 * A lock that also excludes holders who use the locks of npm's `etcd3`. Use it while programs with `etcd3` and programs
 * with `etcdwire` run side by side. When no program uses `etcd3` any longer, replace `Etcd3Mutex` by `Mutex`, one
 * program after the other: the holders of both locks exclude each other, and their fencing tokens have one order.
 *
 * The holder has two keys: the queue key of a `Mutex`, and the key whose name is the lock's name, which `etcd3` uses.
 * Contenders for the `Etcd3Mutex` and for a `Mutex` with the same name wait for each other in a fair queue. The first
 * contender in the queue then waits until the key of `etcd3` does not exist. A caller of `etcd3` does not wait, so no
 * order exists between the queue and the callers of `etcd3`.
 *
 * The rules for names that contain "/" are those of `Mutex`. An `etcd3` lock "a/b" counts as a contender for "a",
 * because its key lies under "a/".
 *
 * @example
 * const session = await Session.open(etcd, { ttl: 10 });
 * await using held = await new Etcd3Mutex(session, 'jobs/nightly').lock({ maxWaitMs: 5_000 });
 * await work({ signal: held.signal });
 */
export class Etcd3Mutex {
  readonly name: string;
  readonly #session: Session;
  readonly #contender: QueueContender;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string) {
    this.#session = checkSession(session);
    this.name = checkName(name);
    this.#contender = sharedContender(session, name);
  }

  /**
   * Acquires the lock, and waits until it is free if necessary. If the wait times out or is canceled, the caller leaves
   * the queue, and has neither key.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  lock(options: WaitOptions = {}): Promise<Held> {
    const { client, signal } = this.#session;
    const deleted = { keys: this.name, event: 'delete' } as const;
    return withinLimit('Etcd3Mutex.lock', options, signal, async (limit) => {
      const { waiting } = limit.forLock();
      const held = await acquire('lock', this.#contender, waiting, HeldWithEtcd3);
      // `watchUntil` never resolves with undefined.
      return (await this.#takeKey(held, limit, (look) => watchUntil(client, deleted, waiting, look))) as Held;
    });
  }

  /**
   * Acquires the lock if it is free, no contender waits for it, and no holder uses `etcd3`. Returns undefined
   * otherwise.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return withinLimit('Etcd3Mutex.tryLock', options, this.#session.signal, async (limit) => {
      const { waiting } = limit;
      const held = await tryAcquire('tryLock', this.#contender, waiting, HeldWithEtcd3);
      if (held === undefined) return undefined;
      return this.#takeKey(held, limit, (look) => untilAnswered(waiting, look));
    });
  }

  /**
   * Puts the key of `etcd3` as soon as this key does not exist, and returns `held`, which then holds both keys. The
   * transaction checks that the caller still has its queue key. If the caller does not get the key of `etcd3`, releases
   * the queue key.
   */
  async #takeKey(held: HeldWithEtcd3, limit: WaitLimit, looking: Looking): Promise<Held | undefined> {
    const session = this.#session;
    const { guards, leaseId: lease } = session;
    const key = this.name;
    const isFirst = compare.createRevision(held.key, '==', held.token);
    const isFree = compare.createRevision(key, '==', 0n);
    const entry = preparedTxn({ if: [isFirst, isFree], then: [op.put(key, '', { lease })], else: [op.get(key)] });
    let put = guards.begin(entry);
    const look = async (options: CallOptions): Promise<Held | undefined> => {
      const { revision, succeeded, result } = await put.send(options);
      if (succeeded) return held.withKey(key, revision, revision);
      const found = result?.succeeded === false ? result.responses[0] : await session.client.get(key, options);
      // This session, or an earlier session with the same lease, has put the key before.
      if (found?.lease === lease) return held.withKey(key, found.createRevision, revision);
      put = guards.begin(entry);
      limit.taken(found !== undefined);
      return undefined;
    };
    const offLost = onAbort(held.signal, () => limit.end(held.signal.reason));
    try {
      const both = await looking(look);
      if (both === undefined) await cleanedUp(held.release());
      return both;
    } catch (error) {
      session.losesWith(error);
      const isUndone = await cleanedUp(undoPut(session, key, put).finally(() => held.release()));
      if (!isUndone) limit.setOutcome('unknown');
      throw error;
    } finally {
      offLost();
    }
  }
}

/**
 * Holds the queue key of a `Mutex` and, after `withKey`, the key of `etcd3`, too. If the caller loses one of the keys,
 * the client deletes the other key.
 */
class HeldWithEtcd3 extends Held {
  #etcd3: Held | undefined;
  /**
   * The first reason why the caller no longer holds the lock. After the loss of one key, the client releases the other
   * one, and this release must not replace the reason.
   */
  #endedBy: EtcdError | undefined;

  /**
   * Records that the caller has put the key of `etcd3`. Both keys existed at the revision `seenAt`.
   *
   * @throws EtcdError with the reason of the loss if one of the keys is lost.
   */
  withKey(key: string, createRevision: bigint, seenAt: bigint): this {
    // The client deletes the key of etcd3 first, and then the queue key. So the next contender finds both keys free.
    // If the session has ended, etcd deletes both keys with the lease, and only the holder says that it has stopped.
    const releaseQueueKey = (): void => {
      if (!this.session.signal.aborted) super.release().catch(() => {});
    };
    const etcd3 = hold(Held, this.session, this.name, { key, createRevision, seenAt }, releaseQueueKey);
    this.#etcd3 = etcd3;
    // Reading `aborted` calls `lostBy`, and aborts the signal because a key is lost.
    onAbort(etcd3.signal, () => void this.signal.aborted);
    onAbort(this.signal, () => {
      // If the key may still exist, the holder may still use the lock, and only the holder says that it has stopped.
      const isGone = !this.session.signal.aborted && this.signal.reason.cause === undefined;
      if (isGone) etcd3.release().catch(() => {});
    });
    this.signal.throwIfAborted();
    return this;
  }

  override lostBy(): EtcdError | undefined {
    this.#endedBy ??= super.lostBy() ?? this.#etcd3?.lostBy();
    return this.#endedBy;
  }

  override async txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options: WriteOptions = {}): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    checkOptions(options, WRITE_OPTIONS, 'Held.txn');
    const { key, token } = this.#etcd3 as Held;
    const isHeld = compare.createRevision(key, '==', token);
    const result = await super.txn({ if: [isHeld], then: [op.txn(txn)] }, options);
    if (result.succeeded)
      return withHeader(result.header, result.responses[0]) as WithHeader<TxnResult<If, Then, Else>>;
    this.#endedBy ??= keyGone();
    void this.signal.aborted;
    // This call rejects without a request to a server, because the caller has lost the lock.
    return super.txn(txn, options);
  }

  override async release(options: ReleaseOptions = {}): Promise<void> {
    checkOptions(options, RELEASE_OPTIONS, 'release');
    if (this.#etcd3 === undefined) return super.release(options);
    const { timeoutMs = RELEASE_TIMEOUT_MS } = options;
    const unlimited = { timeoutMs: Number.POSITIVE_INFINITY };
    const releasing = this.#etcd3.release(unlimited).then(() => super.release(unlimited));
    if (!(await settledWithin(timeoutMs, releasing))) throw timedOut('release', timeoutMs, 'unknown');
  }
}
