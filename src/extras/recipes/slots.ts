import { backoffMs, checkCount, pause, textOf } from '../../base/index.js';
import { prefix } from '../../client/index.js';
import {
  acquire,
  checkNameOutside,
  checkSession,
  Held,
  Mutex,
  type QueueContender,
  type ReleaseOptions,
  type Session,
  sharedContender,
  tryGate,
  type WaitOptions,
  watchUntil,
  withinLimit,
} from '../../locks/index.js';
import type { CallOptions } from '../../rpc/index.js';

/**
 * A number that the caller holds. No other client holds the same number of the same `Slots` until the caller has
 * released it, or the lease of the caller's session has ended.
 *
 * @example
 * await using slot = await new Slots(session, 'id-generators', 1_024).take();
 * console.log(slot.number, slot.held.valid()); // 0 true
 */
export interface Slot extends AsyncDisposable {
  /** A whole number from 0 to `count - 1`. */
  readonly number: number;
  /**
   * The lock of the number. It says whether the caller still holds the number. `held.txn` makes writes that have no
   * effect after the caller has lost the number.
   */
  readonly held: Held;
  /** Releases the number, as `Held.release` does. Call this method only when nothing uses the number any longer. */
  release(options?: ReleaseOptions): Promise<void>;
}

/**
 * Numbers from 0 to `count - 1` for a fleet of processes, such as the machine numbers of snowflake IDs. `take` gives
 * the smallest number that is free. Each number is a lock, so two clients never hold the same number. A number of a
 * process that dies is free when its lease ends. All clients that use the same name must use the same count.
 *
 * Callers of `take` queue for a lock, called the gate, and get numbers in the order in which they queued. No
 * slash-separated part of the name may be `gate` or `slots`, because the keys of `Slots` with the name `a/slots` would
 * lie among the keys of `Slots` with the name `a`.
 *
 * @example
 * const slots = new Slots(session, 'id-generators', 1_024);
 * await using slot = await slots.take({ maxWaitMs: 5_000 });
 * console.log(slot.number < 1_024); // true
 */
export class Slots {
  readonly name: string;
  readonly count: number;
  readonly #session: Session;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string, count: number) {
    this.#session = checkSession(session);
    this.name = checkNameOutside(['gate', 'slots'], name);
    this.count = checkCount(count, 'count', 1);
  }

  /**
   * Waits until a number is free, and takes the smallest free number. A session may hold several numbers.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  take(options: WaitOptions = {}): Promise<Slot> {
    const taken = { keys: prefix(this.#folder), event: 'delete' } as const;
    return withinLimit('Slots.take', options, this.#session.signal, async (limit) => {
      const { waiting } = limit.forLock();
      const gate = await acquire('Slots.take', this.#gate, waiting, Held);
      limit.taken(true);
      const taking = watchUntil(this.#session.client, taken, waiting, (calls) => this.#takeFree(calls));
      return taking.finally(() => leave(gate));
    });
  }

  /**
   * Takes the smallest number that is free. Resolves with undefined if all numbers are taken. May wait for other
   * callers that are taking free numbers, but resolves with undefined as soon as no number is free.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  tryTake(options: WaitOptions = {}): Promise<Slot | undefined> {
    return withinLimit('Slots.tryTake', options, this.#session.signal, async ({ waiting }) => {
      const isFree = async (calls: CallOptions): Promise<boolean> => (await this.#smallestFree(calls)) !== undefined;
      const gate = await tryGate('Slots.tryTake', this.#gate, prefix(this.#folder), waiting, isFree);
      if (gate === undefined) return undefined;
      return this.#takeFree(waiting).finally(() => leave(gate));
    });
  }

  /**
   * Takes the smallest free number, if there is one. Reads the numbers again after an attempt has failed: another
   * caller, which has lost the gate, may take the number at the same time, or this session may not have released it
   * completely.
   */
  async #takeFree(options: CallOptions): Promise<Slot | undefined> {
    for (let attempt = 0; ; attempt += 1) {
      const number = await this.#smallestFree(options);
      if (number === undefined) return undefined;
      const held = await new Mutex(this.#session, `${this.#folder}${number}`).tryLock(options);
      if (held !== undefined) return slotOf(number, held);
      await pause(backoffMs(attempt), options.signal);
    }
  }

  async #smallestFree(options: CallOptions): Promise<number | undefined> {
    const { kvs } = await this.#session.client.range(prefix(this.#folder), { ...options, keysOnly: true });
    const taken = new Set(kvs.map(({ keyBytes: key }) => Number.parseInt(textOf(key).slice(this.#folder.length), 10)));
    let number = 0;
    while (taken.has(number)) number += 1;
    return number < this.count ? number : undefined;
  }

  get #gate(): QueueContender {
    return sharedContender(this.#session, `${this.name}/gate`);
  }

  get #folder(): string {
    return `${this.name}/slots/`;
  }
}

/** Releases the gate in the background. */
function leave(gate: Held): void {
  gate.release().catch(() => {});
}

function slotOf(number: number, held: Held): Slot {
  return { number, held, release: (options) => held.release(options), [Symbol.asyncDispose]: () => held.release() };
}
