import { Held } from './held.js';
import { checkName, queueKey } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import { type Contender, type Hold, takeTurn, tryTurn } from './turn.js';
import type { WaitOptions } from './wait-limit.js';

/**
 * A fair lock: holders in the order in which they queued, one waiter woken by a release, understood by Go's
 * `concurrency.Mutex` and `etcdctl lock`.
 *
 * The lock "a" queues under the prefix "a/", which the keys of a lock "a/b" share. As in Go, a locker of "a" waits for
 * every key ahead of it under that prefix: "a" excludes "a/b", while "a/b" takes no notice of "a". Do not lock "a"
 * while holding "a/b".
 */
export class Mutex {
  readonly name: string;
  readonly #contender: Contender;
  readonly #hold: Hold<Held>;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#contender = { session, key: queueKey(name, checkSession(session).leaseId), value: '' };
    this.#hold = (entry, leave) => Held.begin(session, name, entry, leave);
  }

  /** Waits for the lock. @throws EtcdError, see `WaitOptions`; the queue is left then. */
  lock(options: WaitOptions = {}): Promise<Held> {
    return takeTurn('lock', this.#contender, options, this.#hold);
  }

  /** The lock if it is free, and nobody of this session is after it; undefined otherwise. Never queues. */
  tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryTurn('tryLock', this.#contender, options, this.#hold);
  }
}
