import {
  AsyncQueue,
  type BytesLike,
  checkOptions,
  EtcdError,
  idOf,
  type Outcome,
  onAbort,
  orAborted,
  toBytes,
} from '../base/index.js';
import { type CoreKeyspace, checkKey, compare, type KeyValue, op, preparedTxn } from '../client/index.js';
import { TIME_LIMITS } from '../rpc/index.js';
import { LocalQueue } from './local-queue.js';
import { undoPut } from './lock-queue.js';
import { LEASE_OPTIONS, type LeaseOptions, Session, type SessionOptions } from './session.js';
import {
  cleanedUp,
  setOutcome,
  untilAnswered,
  untilDone,
  untilSpace,
  type Waiting,
  type WaitOptions,
  withinLimit,
} from './waiting.js';
import { AGAIN, sessionAfterSession } from './with-sessions.js';

/** The start (`lost`) or the end (`healed`) of a gap, a period when the registered keys may be missing in etcd. */
export type Gap =
  /** The lease was lost. etcd has deleted the keys, or will soon delete them. */
  | { readonly type: 'lost'; readonly cause: EtcdError }
  /** The session has a new lease, and has put the registered keys again, except the keys in `taken`. */
  | {
      readonly type: 'healed';
      readonly leaseId: bigint;
      readonly restored: readonly Uint8Array[];
      /**
       * Keys that another client put during the gap. The session does not replace these keys and no longer keeps them
       * registered.
       */
      readonly taken: readonly Uint8Array[];
    };

const OPEN_OPTIONS = { ...LEASE_OPTIONS, ...TIME_LIMITS } as const;

/**
 * Keeps keys registered as long as this process lives, for example for service discovery. When the lease is lost, the
 * session gets a new lease, puts the keys again, and reports the gap. Locks do not accept this session, because a lock
 * that was held before a gap is not held after it.
 *
 * @example
 * const session = await SelfHealingSession.open(etcd, { ttl: 10 });
 * await session.register('services/web/1', 'http://10.0.0.1:8080');
 * for await (const gap of session.gaps()) console.log(gap.type);
 */
export class SelfHealingSession implements AsyncDisposable {
  readonly client: CoreKeyspace;
  readonly #registered = new Map<string, RegisteredKey>();
  /** All leases of this session so far. A key with one of these leases counts as put by this session. */
  readonly #leases = new Set<bigint>();
  /** Makes the calls of `register` and `unregister` run one at a time. */
  readonly #registrations = new LocalQueue();
  readonly #gaps = new AsyncQueue<Gap>();
  readonly #ended = new AbortController();
  /** Number of leases lost so far. If the number grows during a put, the session repeats the put with the new lease. */
  #losses = 0;
  #session: Session;
  /** Resolves with the current `Session` after all keys are put again. */
  #whole: Promise<Session>;
  #healed: (session: Session) => void = () => {};

  private constructor(client: CoreKeyspace, lease: LeaseOptions, first: Session) {
    this.client = client;
    this.#session = first;
    this.#whole = Promise.resolve(first);
    this.#leases.add(first.leaseId);
    const keepRegistered = (session: Session): Promise<typeof AGAIN> => this.#keepRegistered(session);
    sessionAfterSession(client, lease, this.#ended.signal, keepRegistered, first).catch((error: EtcdError) =>
      this.#end(error),
    );
  }

  /**
   * Opens a session: grants its first lease. `ttl` is the TTL of the session's leases in seconds; default 10.
   *
   * @throws EtcdError, see `Session.open`.
   */
  static async open(client: CoreKeyspace, options: Omit<SessionOptions, 'lease'> = {}): Promise<SelfHealingSession> {
    checkOptions(options, OPEN_OPTIONS, 'SelfHealingSession.open');
    const { ttl, allowLongTtl } = options;
    return new SelfHealingSession(client, { ttl, allowLongTtl }, await Session.open(client, options));
  }

  /** ID of the current lease. */
  get leaseId(): bigint {
    return this.#session.leaseId;
  }

  /**
   * Aborts when the session ends: the caller closed the session or the client, or the server refused a new lease or the
   * put of a registered key after a gap.
   */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Puts a key, replacing its value if it exists, and keeps it registered. During a gap, waits until the gap ends. If
   * `signal` aborts or `maxWaitMs` passes before this call has ended, the put may still take effect. The session then
   * deletes the key, unless the key was registered before.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  async register(key: BytesLike, value: BytesLike, options: WaitOptions = {}): Promise<void> {
    await this.registerOwn(key, value, options);
  }

  /** @internal Does the same as `register`, and returns the argument for `unregisterOwn`. */
  async registerOwn(key: BytesLike, value: BytesLike, limits: WaitOptions): Promise<RegisteredKey> {
    const registered = new RegisteredKey(checkKey(key, 'key'), toBytes(value, 'value'));
    await this.#inTurn('register', limits, async (waiting) => {
      await this.#putUntilWhole(registered, waiting);
      this.#registered.set(idOf(registered.key), registered);
    });
    return registered;
  }

  /**
   * Deletes a registered key, unless another client has put the key since. If `signal` aborts or `maxWaitMs` passes
   * before this call has ended, the caller may repeat the call. Even without a second call, the session does not put
   * the key again after a gap, unless the first call was still waiting for an earlier call of `register` or
   * `unregister`. Does nothing after the session has ended.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  async unregister(key: BytesLike, options: WaitOptions = {}): Promise<void> {
    const id = idOf(checkKey(key, 'key'));
    await this.#unregister(id, () => true, options);
  }

  /** @internal Does the same as `unregister`, unless a later `register` call has registered the key again. */
  async unregisterOwn(own: RegisteredKey): Promise<void> {
    await this.#unregister(idOf(own.key), (registered) => registered === own, {});
  }

  async #unregister(id: string, isMeant: (registered: RegisteredKey) => boolean, options: WaitOptions): Promise<void> {
    if (this.#ended.signal.aborted) return;
    await this.#inTurn('unregister', options, async (waiting) => {
      const registered = this.#registered.get(id);
      if (registered === undefined || !isMeant(registered)) return;
      registered.leaving = true;
      // Wait until the session has put its keys again, because it could otherwise put the key after this deletion.
      await orAborted(this.#whole, waiting.signal);
      // A `register` call that has failed may have put the key again.
      await registered.delete(this.client, waiting, ({ lease }) => this.#leases.has(lease));
      this.#registered.delete(id);
    });
  }

  /**
   * Yields the start and the end of each gap, until the session ends. Iterate in only one place, because each item goes
   * to only one iterator.
   */
  gaps(): AsyncIterableIterator<Gap> {
    const gaps: AsyncIterableIterator<Gap> = {
      next: () => this.#gaps.next(),
      return: async () => ({ done: true, value: undefined }),
      [Symbol.asyncIterator]: () => gaps,
    };
    return gaps;
  }

  /** Ends the session and revokes the lease, so that the server deletes the registered keys at once. */
  async close(): Promise<void> {
    this.#end(
      new EtcdError('the session was closed', { code: 'Aborted', reason: 'KeepAliveClosed', outcome: 'rejected' }),
    );
    await this.#session.close();
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #end(reason: EtcdError): void {
    this.#ended.abort(reason);
    this.#gaps.end();
  }

  /** Puts the registered keys again if `session` is a new one, and then waits until it is lost. */
  async #keepRegistered(session: Session): Promise<typeof AGAIN> {
    const { signal: ended } = this.#ended;
    if (session !== this.#session) {
      this.#session = session;
      this.#leases.add(session.leaseId);
      try {
        ended.throwIfAborted();
        this.#gaps.push({ type: 'healed', leaseId: session.leaseId, ...(await this.#restore(session)) });
      } catch (error) {
        session.losesWith(error);
        if (ended.aborted || !session.valid()) return AGAIN;
        throw error;
      }
      this.#healed(session);
    }
    return new Promise((resolve, reject) => {
      const sessionEnded = (): void => {
        const { reason } = session.signal;
        if (reason.reason === 'ClientClosed') {
          // No session follows, so no call may wait for one.
          this.#end(reason);
          return reject(reason);
        }
        if (!ended.aborted) {
          this.#losses += 1;
          this.#whole = new Promise((heal) => {
            this.#healed = heal;
          });
          this.#gaps.push({ type: 'lost', cause: reason });
        }
        resolve(AGAIN);
      };
      if (session.signal.aborted) sessionEnded();
      else onAbort(session.signal, sessionEnded);
    });
  }

  /** Puts the key, and repeats the put if the lease was lost during the put. */
  async #putUntilWhole(registered: RegisteredKey, waiting: Waiting): Promise<void> {
    const isRegistered = this.#registered.has(idOf(registered.key));
    // A `register` call that has failed may not have deleted its key yet.
    const isLeft = (lease: bigint): boolean => !isRegistered && this.#leases.has(lease);
    for (;;) {
      const session = await orAborted(this.#whole, waiting.signal);
      const losses = this.#losses;
      try {
        await registered.put(session, () => true, waiting, isLeft);
      } catch (error) {
        if (!session.losesWith(error)) throw error;
      }
      if (losses === this.#losses && session.valid()) return;
    }
  }

  /** Puts all registered keys again, except keys that another client has put during the gap. */
  async #restore(session: Session): Promise<Pick<Extract<Gap, { type: 'healed' }>, 'restored' | 'taken'>> {
    const [restored, taken]: [Uint8Array[], Uint8Array[]] = [[], []];
    const keys = [...this.#registered].filter(([, { leaving }]) => !leaving);
    await Promise.all(
      keys.map(async ([id, registered]) => {
        const isOwn = (lease: bigint): boolean => this.#leases.has(lease);
        const put = await untilSpace(session, () => registered.put(session, isOwn, session));
        (put ? restored : taken).push(registered.key);
        if (put) return;
        if (this.#registered.get(id) === registered) this.#registered.delete(id);
      }),
    );
    return { restored, taken };
  }

  /** Runs `action` within the limits of `options`, after all earlier calls of `register` and `unregister`. */
  #inTurn(what: string, options: WaitOptions, action: (waiting: Waiting) => Promise<void>): Promise<void> {
    return withinLimit(what, options, this.#ended.signal, async ({ waiting }) => {
      const leaveQueue = await this.#registrations.enter(waiting.signal);
      await action(waiting).finally(leaveQueue);
    });
  }
}

export class RegisteredKey {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** Whether the caller has unregistered the key. If so, the session does not put the key again after a gap. */
  leaving = false;
  /** Mod revision of this client's last put of the key. */
  #modRevision = 0n;

  constructor(key: Uint8Array, value: Uint8Array) {
    this.key = key;
    this.value = value;
  }

  /**
   * Puts the key with the lease of `session`, and returns true. If the key exists, calls `mayReplace` with the lease of
   * the existing key, and returns false without a put if the result is false.
   *
   * Also puts a key that has this value and lease already. The key may belong to an earlier registration in the same
   * session, and the new mod revision keeps `delete` of that registration from deleting the key.
   *
   * If the put fails or the signal of `waiting` aborts, the server does not apply the put later. If the put was applied
   * and the key did not exist before, the key is deleted. A key for whose lease `isLeft` returns true counts as not
   * existing.
   *
   * @throws EtcdError with the reason of the failed call, for example `LeaseNotFound` if the lease has expired.
   */
  async put(
    session: Session,
    mayReplace: (lease: bigint) => boolean,
    waiting: Waiting,
    isLeft: (lease: bigint) => boolean = () => false,
  ): Promise<boolean> {
    const { client, guards, leaseId: lease } = session;
    for (;;) {
      const seen = await untilAnswered(waiting, (options) => client.get(this.key, options));
      if (seen !== undefined && !mayReplace(seen.lease)) return false;
      const put = guards.begin(
        preparedTxn({
          if: [compare.modRevision(this.key, '==', seen?.modRevision ?? 0n)],
          then: [op.put(this.key, this.value, { lease })],
        }),
      );
      try {
        const { revision, succeeded } = await untilAnswered(waiting, (options) => put.send(options));
        if (!succeeded) continue;
        this.#modRevision = revision;
        return true;
      } catch (error) {
        const { mayBeApplied } = put;
        let outcome: Outcome = 'rejected';
        /** The put has replaced a value, so it stays if it was applied. */
        const settle = async (): Promise<void> => {
          const applied = await untilDone({ signal: session.leaseSignal }, (options) => put.settle(options));
          if (applied?.succeeded) outcome = 'applied';
        };
        const isNew = seen === undefined || isLeft(seen.lease);
        const isSettled = await cleanedUp(isNew ? undoPut(session, this.key, put) : settle());
        if (mayBeApplied) setOutcome(waiting, isSettled ? outcome : 'unknown');
        throw error;
      }
    }
  }

  /**
   * Deletes the key if `isOwn` returns true. By default, deletes the key unless it has been put since the last `put` of
   * this object. Safe to repeat, because the transaction checks the mod revision.
   */
  async delete(
    client: CoreKeyspace,
    waiting: Waiting,
    isOwn: (kv: KeyValue) => boolean = ({ modRevision }) => modRevision === this.#modRevision,
  ): Promise<void> {
    for (;;) {
      const seen = await untilAnswered(waiting, (options) => client.get(this.key, options));
      if (seen === undefined || !isOwn(seen)) return;
      const isUnchanged = [compare.modRevision(this.key, '==', seen.modRevision)];
      const txn = { if: isUnchanged, then: [op.delete(this.key)] } as const;
      const { succeeded } = await untilAnswered(waiting, (options) => client.txn(txn, options));
      if (succeeded) return;
    }
  }
}
