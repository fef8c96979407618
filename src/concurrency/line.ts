import { Held } from './held.js';
import type { Session } from './session.js';
import { type Hold, takeTurn, tryTurn, uniqueContender } from './turn.js';
import type { WaitOptions } from './wait-limit.js';

/**
 * Who stands in it gets ahead in the order of coming, one at a time: a lock that others do not know as one. Everybody
 * has a key of its own, so those of one session are in order with all others.
 */
export class Line {
  readonly #session: Session;
  readonly #name: string;
  readonly #hold: Hold<Held>;

  constructor(session: Session, name: string) {
    this.#session = session;
    this.#name = name;
    this.#hold = (entry, leave) => Held.begin(session, name, entry, leave);
  }

  /** Waits to be at the head. */
  enter(what: string, options: WaitOptions): Promise<Held> {
    return takeTurn(what, this.#contender(), options, this.#hold);
  }

  /** The head where nobody stands in line; undefined otherwise. */
  tryEnter(what: string, options: WaitOptions): Promise<Held | undefined> {
    return tryTurn(what, this.#contender(), options, this.#hold);
  }

  #contender() {
    return uniqueContender(this.#session, `${this.#name}/`, `${this.#name}/`);
  }
}
