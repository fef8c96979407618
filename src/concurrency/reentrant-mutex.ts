import { invalidInput } from '../errors/etcd-error.js';
import { show } from '../runtime/arguments.js';
import { orAborted } from '../runtime/signals.js';
import type { Held } from './held.js';
import { Mutex } from './mutex.js';
import type { Session } from './session.js';
import { type WaitOptions, waitLimit } from './wait-limit.js';

/** Whoever a lock belongs to: JavaScript has no threads to go by, so it is said explicitly. Compared by identity. */
export type Owner = object | symbol | string;

interface Ownership {
  /** The lock, or the way to it. */
  held: Promise<Held>;
  /** Locks that are not unlocked yet, and those under way. */
  count: number;
}

/** One of several locks that one owner has of the same name. They have one token. */
export interface ReentrantHeld extends AsyncDisposable {
  readonly held: Held;
  /** How many the owner has, this one included. */
  readonly count: number;
  /** Gives this one back; with the last one the lock is released. Doing it twice does nothing. */
  unlock(): Promise<void>;
}

/**
 * A fair lock that its owner may take again while holding it, and holds until it has unlocked as often. On the key of a
 * `Mutex` of the same name, which it excludes.
 */
export class ReentrantMutex {
  readonly name: string;
  readonly #session: Session;
  readonly #mutex: Mutex;
  readonly #owners = new Map<Owner, Ownership>();

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.#mutex = new Mutex(session, name);
    this.name = name;
    this.#session = session;
  }

  /** Waits for the lock, or takes it again at once where `owner` has it. @throws EtcdError, see `WaitOptions`. */
  async lock(owner: Owner, options: WaitOptions = {}): Promise<ReentrantHeld> {
    if (!['object', 'symbol', 'string'].includes(typeof owner) || owner === null)
      throw invalidInput('owner', show(owner), 'an object, a symbol or a string that stands for whoever locks');
    const limit = waitLimit('lock', options, this.#session.signal);
    try {
      limit.signal.throwIfAborted();
      for (;;) {
        const ownership = this.#owners.get(owner);
        if (ownership === undefined) return await this.#first(owner, limit.signal);
        const held = await orAborted(
          ownership.held.catch(() => undefined),
          limit.signal,
        );
        // Whoever went ahead gave up, or has lost or released the lock: then it is to be had anew.
        if (held?.valid() && this.#owners.get(owner) === ownership) return this.#handle(owner, ownership, held);
        if (this.#owners.get(owner) === ownership) this.#owners.delete(owner);
      }
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }

  async #first(owner: Owner, signal: AbortSignal): Promise<ReentrantHeld> {
    const ownership: Ownership = { held: this.#mutex.lock({ signal }), count: 0 };
    this.#owners.set(owner, ownership);
    try {
      return this.#handle(owner, ownership, await ownership.held);
    } catch (error) {
      if (this.#owners.get(owner) === ownership) this.#owners.delete(owner);
      throw error;
    }
  }

  #handle(owner: Owner, ownership: Ownership, held: Held): ReentrantHeld {
    ownership.count += 1;
    let released: Promise<void> | undefined;
    const release = async (): Promise<void> => {
      ownership.count -= 1;
      if (ownership.count > 0) return;
      if (this.#owners.get(owner) === ownership) this.#owners.delete(owner);
      await held.unlock();
    };
    const unlock = (): Promise<void> => {
      released ??= release();
      return released;
    };
    return { held, count: ownership.count, unlock, [Symbol.asyncDispose]: unlock };
  }
}
