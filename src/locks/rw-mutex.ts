import { acquire, type QueueContender, tryAcquire, uniqueContender } from './acquire.js';
import { Held } from './held.js';
import { checkName } from './lock-queue.js';
import { checkSession, type Session } from './session.js';
import type { LockOptions } from './waiting.js';

/**
 * A fair lock that several readers or one writer can hold, with the same keys as the `RWMutex` of Go's recipes. A
 * reader waits for the writers that queued before it, and a writer waits for all contenders that queued before it, so
 * that neither readers nor writers can starve. Each call uses its own key, so a session may hold several read locks. A
 * session that asks for the write lock while it holds a read lock waits for its own read lock, which is a deadlock.
 *
 * @example
 * const lock = new RWMutex(session, 'catalog');
 * await using held = await lock.readLock();
 */
export class RWMutex {
  readonly name: string;
  readonly #session: Session;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
  }

  /**
   * Acquires a read lock, and waits for it if necessary. Several readers may hold read locks at once.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  readLock(options: LockOptions = {}): Promise<Held> {
    return acquire('readLock', this.#reader(), options, Held);
  }

  /**
   * Acquires the write lock, which excludes all other holders, and waits for it if necessary.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  lock(options: LockOptions = {}): Promise<Held> {
    return acquire('lock', this.#writer(), options, Held);
  }

  /** Acquires a read lock, or returns undefined if a writer holds the lock or waits for it. */
  tryReadLock(options: LockOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryReadLock', this.#reader(), options);
  }

  /** Acquires the write lock, or returns undefined if another contender holds the lock or waits for it. */
  tryLock(options: LockOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryLock', this.#writer(), options);
  }

  #reader(): QueueContender {
    return uniqueContender(this.#session, this.name, `${this.name}/read/`, `${this.name}/write/`);
  }

  #writer(): QueueContender {
    return uniqueContender(this.#session, this.name, `${this.name}/write/`, `${this.name}/`);
  }
}
