import type { CoreKeyspace } from '../keyspace.js';
import { checkFunction, checkOptions } from '../runtime/arguments.js';
import { settledWithin } from '../runtime/timers.js';
import { acquire, CLEANUP_WAIT_MS, type Contender, Held, sharedContender, tryAcquire } from './lock.js';
import { checkName } from './lock-queue.js';
import { checkSession, Session } from './session.js';
import { untilAnswered, WAIT_OPTIONS, type WaitOptions, waitLimit } from './waiting.js';

/**
 * A fair lock: contenders hold it in the order in which they queued, and a release wakes only one waiter. The class
 * uses the same keys as Go's `concurrency.Mutex` and `etcdctl lock`, so all locks with the same name exclude each
 * other.
 *
 * The keys of a lock "a/b" lie under "a/", the prefix of the lock "a". As in Go, a waiter for "a" therefore waits for
 * holders of "a/b", while a waiter for "a/b" does not wait for holders of "a". Do not lock "a" while you hold "a/b".
 *
 * @example
 * const session = await Session.open(etcd, { ttl: 10 });
 * const mutex = new Mutex(session, 'jobs');
 * await using held = await mutex.lock({ maxWaitMs: 5_000 });
 * await work({ signal: held.signal });
 */
export class Mutex {
  readonly name: string;
  readonly #contender: Contender;

  /** @throws EtcdError with reason `InvalidInput` if `session` is not a `Session`, or if `name` is empty. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#contender = sharedContender(checkSession(session), name);
  }

  /**
   * Acquires the lock, and waits until it is free if necessary. If the wait times out or is canceled, the waiter leaves
   * the queue.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  lock(options: WaitOptions = {}): Promise<Held> {
    return acquire('lock', this.#contender, options, Held);
  }

  /**
   * Acquires the lock if it is free and no other caller waits for it in this session. Returns undefined otherwise.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  tryLock(options: WaitOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryLock', this.#contender, options);
  }
}

/** Options of `withLock`. */
export interface WithLockOptions extends WaitOptions {
  /** TTL of the lock's lease in seconds. If this process dies, the lock is free after this time. Default 10. */
  readonly ttl?: number | undefined;
}

const WITH_LOCK_OPTIONS = { ttl: true, ...WAIT_OPTIONS } as const;

/**
 * Opens a session, acquires a lock, runs `action` while holding the lock, and returns what `action` returns.
 * `maxWaitMs` and `signal` limit the wait for the lock, not the action.
 *
 * @throws EtcdError if the lock was not acquired, or if it was lost before `action` returned. If the lock was lost,
 * another holder may have run at the same time as `action`. In that case, only writes through `held.txn` were safe.
 * @example
 * await withLock(etcd, 'jobs', async (held) => {
 *   await held.txn({ then: [op.put('jobs/last', 'done')] });
 * });
 */
export async function withLock<T>(
  client: CoreKeyspace,
  name: string,
  action: (held: Held) => Promise<T> | T,
  options: WithLockOptions = {},
): Promise<T> {
  checkFunction(action, 'action');
  checkOptions(options, WITH_LOCK_OPTIONS, 'withLock');
  const { ttl, ...wait } = options;
  const limit = waitLimit('withLock', wait);
  const { signal } = limit;
  let session: Session | undefined;
  let held: Held | undefined;
  try {
    session = await untilAnswered(signal, (callOptions) => Session.open(client, { ...callOptions, ttl }));
    held = await new Mutex(session, name).lock({ signal });
    limit.dispose();
    const result = await action(held);
    const lost = held.lostBy();
    if (lost !== undefined && lost.reason !== 'LockReleased') throw lost;
    return result;
  } catch (error) {
    if (held !== undefined) throw error;
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
    // Errors of `release` and `close` must not replace the result of `action`. If both fail, the lock ends with the
    // lease.
    await held?.release().catch(() => {});
    const closed = session?.close().catch(() => {});
    // A caller that did not get the lock waits only a short time for the session to close.
    if (held !== undefined) await closed;
    else if (closed !== undefined) await settledWithin(CLEANUP_WAIT_MS, closed);
  }
}
