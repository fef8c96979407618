import { acquire, type Contender, Held, tryAcquire, uniqueContender } from './lock.js';
import { checkName } from './lock-queue.js';
import { checkSession, type Session } from './session.js';
import type { WaitOptions } from './waiting.js';

/**
 * A fair lock that readers share, on the keys of the `RWMutex` of Go's recipes. A reader waits for the writers that
 * queued before it, and a writer waits for everybody that queued before it, so that neither kind can starve the other.
 * Each lock has a key of its own. A session may therefore hold several read locks, and it waits for itself if it asks
 * for the write lock while it holds a read lock.
 *
 * @example
 * const lock = new RWMutex(session, 'catalog');
 * await using held = await lock.readLock();
 */
export class RWMutex {
  readonly name: string;
  readonly #session: Session;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
  }

  /** Waits for a read lock, which other readers may hold as well. @throws EtcdError, as `WaitOptions` says. */
  readLock(options: WaitOptions = {}): Promise<Held> {
    return acquire('readLock', this.#reader(), options, Held);
  }

  /** Waits for the write lock, which excludes everybody else. @throws EtcdError, as `WaitOptions` says. */
  lock(options: WaitOptions = {}): Promise<Held> {
    return acquire('lock', this.#writer(), options, Held);
  }

  /** Returns undefined if a writer holds the lock or waits for it. */
  tryReadLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryReadLock', this.#reader(), options);
  }

  /** Returns undefined if anybody holds the lock or waits for it. */
  tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryLock', this.#writer(), options);
  }

  #reader(): Contender {
    return uniqueContender(this.#session, this.name, `${this.name}/read/`, `${this.name}/write/`);
  }

  #writer(): Contender {
    return uniqueContender(this.#session, this.name, `${this.name}/write/`, `${this.name}/`);
  }
}
