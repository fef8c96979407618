import { Held } from './held.js';
import { checkName } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import { type Contender, type Hold, takeTurn, tryTurn, uniqueContender } from './turn.js';
import type { WaitOptions } from './wait-limit.js';

/**
 * A fair lock that readers share, on the key layout of the `RWMutex` of Go's recipes. A reader waits for the writers
 * that came before it, a writer for everybody who did; so neither can be kept out by a stream of the other. Every lock
 * has a key of its own: a session may hold several read locks, and waits for itself where it wants to write meanwhile.
 */
export class RWMutex {
  readonly name: string;
  readonly #session: Session;
  readonly #hold: Hold<Held>;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
    this.#hold = (entry, leave) => Held.begin(session, name, entry, leave);
  }

  /** Waits to read, along with other readers. @throws EtcdError, see `WaitOptions`. */
  readLock(options: WaitOptions = {}): Promise<Held> {
    return takeTurn('readLock', this.#reader(), options, this.#hold);
  }

  /** Waits to write, alone. @throws EtcdError, see `WaitOptions`. */
  lock(options: WaitOptions = {}): Promise<Held> {
    return takeTurn('lock', this.#writer(), options, this.#hold);
  }

  /** Undefined where somebody writes, or waits to. */
  tryReadLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryTurn('tryReadLock', this.#reader(), options, this.#hold);
  }

  /** Undefined where somebody reads or writes, or waits to. */
  tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryTurn('tryLock', this.#writer(), options, this.#hold);
  }

  #reader(): Contender {
    return uniqueContender(this.#session, `${this.name}/read/`, `${this.name}/write/`);
  }

  #writer(): Contender {
    return uniqueContender(this.#session, `${this.name}/write/`, `${this.name}/`);
  }
}
