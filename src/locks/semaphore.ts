import { checkCount, onAbort } from '../base/index.js';
import { compare, type Keys, op, prefix, preparedTxn } from '../client/index.js';
import type { CallOptions } from '../rpc/index.js';
import { acquire, type QueueContender, tryGate, uniqueContender, withdraw } from './acquire.js';
import { Held, hold } from './held.js';
import { checkNameOutside } from './helper-keys.js';
import { keyGone, uniqueKey } from './lock-queue.js';
import { checkSession, type Session } from './session.js';
import {
  cleanedUp,
  untilAnswered,
  type Waiting,
  type WaitLimit,
  type WaitOptions,
  watchUntil,
  withinLimit,
} from './waiting.js';

/**
 * A fixed number of permits, granted in the order in which contenders ask for them. All clients that use the same name
 * must use the same number.
 *
 * Contenders queue for an internal lock of the semaphore, called the gate. Only the gate's holder watches the permits.
 * It takes the first permit that is free, and then releases the gate. So a returned permit wakes only one waiter, and
 * no other contender can take a permit that the gate's holder has counted as free. No slash-separated part of the name
 * may be `gate` or `permits`, because the keys of a semaphore `a/permits` would count as permits of a semaphore `a`.
 *
 * @example
 * const semaphore = new Semaphore(session, 'downloads', 4);
 * await using permit = await semaphore.acquire();
 */
export class Semaphore {
  readonly name: string;
  readonly permits: number;
  readonly #session: Session;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string, permits: number) {
    this.name = checkNameOutside(['gate', 'permits'], name);
    this.permits = checkCount(permits, 'permits', 1);
    this.#session = checkSession(session);
  }

  /** Waits for a permit and acquires it. A session may hold several permits. @throws EtcdError, see `WaitOptions`. */
  acquire(options: WaitOptions = {}): Promise<Held> {
    return withinLimit('acquire', options, this.#session.signal, async (limit) => {
      limit.forLock();
      const gate = await acquire('acquire', this.#gate(), limit.waiting, Held);
      limit.taken(true);
      return (await this.#takePermit(gate, limit, () => this.#untilFree(limit.waiting))) as Held;
    });
  }

  /**
   * Acquires a permit if one is free, and returns undefined otherwise. May wait for other contenders that are acquiring
   * free permits, but returns undefined as soon as no permit is free.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  tryAcquire(options: WaitOptions = {}): Promise<Held | undefined> {
    return withinLimit('tryAcquire', options, this.#session.signal, async (limit) => {
      const { waiting } = limit;
      const isFree = (options: CallOptions): Promise<boolean> => this.#isFree(options);
      const gate = await tryGate('tryAcquire', this.#gate(), this.#taken, waiting, isFree);
      if (gate === undefined) return undefined;
      return this.#takePermit(gate, limit, () => this.#isFree(waiting));
    });
  }

  #gate(): QueueContender {
    const gate = `${this.name}/gate`;
    return uniqueContender(this.#session, gate, `${gate}/`, `${gate}/`);
  }

  /** Takes a permit if `isFree` resolves to true. Releases the gate in any case. */
  async #takePermit(gate: Held, limit: WaitLimit, isFree: () => Promise<boolean>): Promise<Held | undefined> {
    const { guards, leaseId: lease } = this.#session;
    const key = uniqueKey(`${this.name}/permits/`, lease);
    const isHeld = compare.createRevision(gate.key, '==', gate.token);
    // If another client deletes the guard of the put, the client sends the put again. It must not put the key twice.
    const conditions = [isHeld, compare.missing(key)];
    const put = guards.begin(preparedTxn({ if: conditions, then: [op.put(key, '', { lease })] }));
    const offLost = onAbort(gate.signal, () => limit.end(gate.signal.reason));
    try {
      if (!(await isFree())) return undefined;
      const { revision, succeeded } = await untilAnswered(limit.waiting, (options) => put.send(options));
      if (!succeeded) throw keyGone();
      return hold(Held, this.#session, this.name, { key, createRevision: revision, seenAt: revision }, () => {});
    } catch (error) {
      const { mayBeApplied } = put;
      const isUndone = await cleanedUp(withdraw(this.#session, key, put));
      if (mayBeApplied && !isUndone) limit.setOutcome('unknown');
      throw error;
    } finally {
      offLost();
      // Do not wait for the release, which continues in the background.
      gate.release().catch(() => {});
    }
  }

  #untilFree(waiting: Waiting): Promise<true> {
    const returned = { keys: this.#taken, event: 'delete' } as const;
    return watchUntil(this.#session.client, returned, waiting, async (options) => {
      return (await this.#isFree(options)) || undefined;
    });
  }

  async #isFree(options: CallOptions): Promise<boolean> {
    return (await this.#session.client.range(this.#taken, { ...options, countOnly: true })).count < this.permits;
  }

  /** The keys of the permits that contenders hold. */
  get #taken(): Keys {
    return prefix(`${this.name}/permits/`);
  }
}
