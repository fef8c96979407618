import { invalidInput, orAborted, show } from '../base/index.js';
import type { Conditions, Op, Txn, TxnResult } from '../client/index.js';
import type { WithHeader, WriteOptions } from '../rpc/index.js';
import type { Held } from './held.js';
import { Mutex } from './mutex.js';
import type { Session } from './session.js';
import { type WaitOptions, withinLimit } from './waiting.js';

/** Identifies the owner of a lock, because JavaScript has no thread IDs. Two owners are equal if they are `===`. */
export type Owner = object | symbol | string;

/** `Ownership.held` rejects with this symbol if `tryLock` did not acquire the lock. */
const NOT_FREE = Symbol('not free');

interface Ownership {
  /** Resolves when the owner has acquired the lock. */
  readonly held: Promise<Held>;
  /** Number of times that the owner has acquired the lock and not yet released it. */
  count: number;
}

/**
 * One hold of a lock. The owner of a `ReentrantMutex` may have several holds. All holds of one owner have the same
 * token.
 *
 * @example
 * const mutex = new ReentrantMutex(session, 'jobs');
 * const owner = {};
 * await using outer: ReentrantHeld = await mutex.lock(owner);
 * await using inner: ReentrantHeld = await mutex.lock(owner);
 * console.log(outer.token === inner.token); // true
 */
export class ReentrantHeld implements AsyncDisposable {
  /** Number of the owner's holds just after the owner acquired this hold. */
  readonly count: number;
  readonly #held: Held;
  readonly #release: () => Promise<void>;
  #released: Promise<void> | undefined;

  /** @internal */
  constructor(held: Held, count: number, release: () => Promise<void>) {
    this.#held = held;
    this.count = count;
    this.#release = release;
  }

  /** Name of the lock. */
  get name(): string {
    return this.#held.name;
  }

  /** The owner's queue key. */
  get key(): string {
    return this.#held.key;
  }

  /** Fencing token. See `Held.token`. */
  get token(): bigint {
    return this.#held.token;
  }

  /** Aborts when the owner no longer holds the lock. See `Held.signal`. */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  /** Returns whether the owner still holds the lock, as far as this client knows. See `Held.valid`. */
  valid(): boolean {
    return this.#held.valid();
  }

  /** Runs a transaction that has no effect unless the owner still holds the lock. See `Held.txn`. */
  txn<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>, options: WriteOptions = {}): Promise<WithHeader<TxnResult<If, Then, Else>>> {
    return this.#held.txn(txn, options);
  }

  /** Ends this hold. When the owner has no hold left, the lock is released. Releasing a hold again does nothing. */
  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  /** Same as `release`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/**
 * A fair lock that its owner may acquire again while the owner already holds the lock. Each call adds a hold, and the
 * lock is free after the owner has released all holds. The class uses the same keys as `Mutex`, so a `ReentrantMutex`
 * and a `Mutex` with the same name exclude each other.
 *
 * @example
 * const mutex = new ReentrantMutex(session, 'jobs');
 * const job = {};
 * await using outer = await mutex.lock(job);
 * await using inner = await mutex.lock(job);
 */
export class ReentrantMutex {
  readonly name: string;
  readonly #session: Session;
  readonly #mutex: Mutex;
  readonly #owners = new Map<Owner, Ownership>();

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string) {
    this.#mutex = new Mutex(session, name);
    this.name = name;
    this.#session = session;
  }

  /**
   * Acquires the lock, and waits until it is free if necessary. An owner that already holds the lock gets a further
   * hold at once.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  async lock(owner: Owner, options: WaitOptions = {}): Promise<ReentrantHeld> {
    checkOwner(owner);
    return withinLimit('lock', options, this.#session.signal, async (limit) => {
      const { waiting } = limit.forLock();
      for (;;) {
        const ownership = this.#owners.get(owner);
        if (ownership === undefined) return this.#acquire(owner, this.#mutex.lock(waiting));
        const again = await this.#holdAgain(owner, ownership, waiting.signal);
        if (again !== undefined) return again;
      }
    });
  }

  /**
   * Acquires the lock if it is free or `owner` already holds it. Returns undefined otherwise, and also while another
   * call for the same owner waits for the lock.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  async tryLock(owner: Owner, options: WaitOptions = {}): Promise<ReentrantHeld | undefined> {
    checkOwner(owner);
    return withinLimit('tryLock', options, this.#session.signal, async ({ waiting }) => {
      for (;;) {
        const ownership = this.#owners.get(owner);
        if (ownership === undefined) {
          const held = this.#mutex.tryLock(waiting).then((free) => free ?? Promise.reject(NOT_FREE));
          return this.#acquire(owner, held).catch((error: unknown) => {
            if (error === NOT_FREE) return undefined;
            throw error;
          });
        }
        if (ownership.count === 0) return undefined;
        const again = await this.#holdAgain(owner, ownership, waiting.signal);
        if (again !== undefined) return again;
      }
    });
  }

  async #acquire(owner: Owner, held: Promise<Held>): Promise<ReentrantHeld> {
    const ownership: Ownership = { held, count: 0 };
    this.#owners.set(owner, ownership);
    try {
      return this.#addHold(owner, ownership, await held);
    } catch (error) {
      this.#forget(owner, ownership);
      throw error;
    }
  }

  /**
   * Waits until an earlier call of the owner has acquired the lock, and adds a hold. Returns undefined if that call
   * failed or the owner no longer holds the lock.
   */
  async #holdAgain(owner: Owner, ownership: Ownership, signal: AbortSignal): Promise<ReentrantHeld | undefined> {
    const held = await orAborted(
      ownership.held.catch(() => undefined),
      signal,
    );
    // Between this check and the new hold, no other code may run, because it could release the last hold.
    if (held?.valid() && this.#owners.get(owner) === ownership) return this.#addHold(owner, ownership, held);
    // The owner has lost the lock, and must not wait for itself.
    held?.release().catch(() => {});
    this.#forget(owner, ownership);
    return undefined;
  }

  #addHold(owner: Owner, ownership: Ownership, held: Held): ReentrantHeld {
    ownership.count += 1;
    return new ReentrantHeld(held, ownership.count, async () => {
      ownership.count -= 1;
      if (ownership.count > 0) return;
      this.#forget(owner, ownership);
      await held.release();
    });
  }

  #forget(owner: Owner, ownership: Ownership): void {
    if (this.#owners.get(owner) === ownership) this.#owners.delete(owner);
  }
}

function checkOwner(owner: Owner): void {
  if (!['object', 'symbol', 'string'].includes(typeof owner) || owner === null)
    throw invalidInput('owner', show(owner), 'an object, a symbol or a string that identifies the owner');
}
