import {
  type ActionLast,
  actionLast,
  type BytesLike,
  checkList,
  checkOptions,
  type EtcdError,
  invalidInput,
  orAborted,
  toBytes,
} from '../base/index.js';
import type { CoreKeyspace } from '../client/index.js';
import type { AsyncContext } from '../host/index.js';
import { asyncContext } from '../host/node.js';
import { acquire, type QueueContender, sharedContender, tryAcquire } from './acquire.js';
import { Held } from './held.js';
import { checkName } from './lock-queue.js';
import { checkSession, isSameKeyspace, LEASE_OPTIONS, Session, type SessionOptions } from './session.js';
import { cleanedUp, LOCK_OPTIONS, type LockOptions, untilAnswered, waitLimit } from './waiting.js';
import { delayingClose } from './with-sessions.js';

/** Options of a `Mutex`. */
export interface MutexOptions {
  /** The value of the queue key, such as a host name. `inspectLock` shows it. Default: empty, as in Go. */
  readonly value?: BytesLike | undefined;
}

const MUTEX_OPTIONS = { value: toBytes } as const;

/**
 * A fair lock: contenders hold it in the order in which they queued, and a release wakes only one waiter. The class
 * uses the same keys as Go's `concurrency.Mutex` and `etcdctl lock`, so all locks with the same name exclude each
 * other.
 *
 * The keys of a lock "a/b" lie under "a/", the prefix of the lock "a". As in Go, a contender for "a" therefore waits
 * for all earlier contenders for "a/b", while a contender for "a/b" does not wait for contenders for "a". Do not lock
 * "a" while you hold "a/b", and keep data such as "a/last" outside of "a/", because each key there blocks the lock "a".
 * Encode names that come from users, for example with `encodeURIComponent`.
 *
 * @example
 * const session = await Session.open(etcd, { ttl: 10 });
 * const mutex = new Mutex(session, 'jobs');
 * await using held = await mutex.lock({ maxWaitMs: 5_000 });
 * await work({ signal: held.signal });
 */
export class Mutex {
  readonly name: string;
  readonly #contender: QueueContender;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string, options: MutexOptions = {}) {
    checkOptions(options, MUTEX_OPTIONS, 'Mutex');
    this.name = checkName(name);
    this.#contender = sharedContender(checkSession(session), name, toBytes(options.value ?? '', 'value'));
  }

  /**
   * Acquires the lock, and waits until it is free if necessary. If the wait times out or is canceled, the waiter leaves
   * the queue.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  lock(options: LockOptions = {}): Promise<Held> {
    return acquire('lock', this.#contender, options, Held);
  }

  /**
   * Acquires the lock if it is free and no other caller waits for it in this session. Returns undefined otherwise.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  tryLock(options: LockOptions = {}): Promise<Held | undefined> {
    return tryAcquire('tryLock', this.#contender, options);
  }
}

/** Options of `withLock` and `withLocks`. */
export interface WithLockOptions extends LockOptions, Pick<SessionOptions, 'allowLongTtl'> {
  /** The value of the queue keys, such as a host name. `inspectLock` shows it. Default: empty. */
  readonly value?: BytesLike | undefined;
  /** TTL of the lock's lease in seconds. If this process dies, the lock is free after this time. Default 10. */
  readonly ttl?: number | undefined;
}

const WITH_LOCK_OPTIONS = { value: toBytes, ...LEASE_OPTIONS, ...LOCK_OPTIONS } as const;

/**
 * Opens a session, acquires a lock, runs `action` while holding the lock, and returns what `action` returns.
 * `maxWaitMs` and `signal` limit the wait for the lock, not the action.
 *
 * @throws EtcdError if the lock was not acquired, or if it was lost before `action` returned. If the lock was lost,
 * another holder may have run at the same time as `action`. In that case, only writes through `held.txn` were safe.
 * A call inside `action` for the same lock of the same client, without `maxWaitMs` and `signal`, rejects with reason
 * `InvalidInput`, because `action` would wait for itself. To start such a call without awaiting it, set `maxWaitMs`.
 * Runtimes without `AsyncLocalStorage` of Node.js do not detect such calls.
 * @example
 * await withLock(etcd, 'jobs/nightly', async (held) => {
 *   await held.txn({ then: [op.put('jobs/last', 'done')] });
 * });
 */
export async function withLock<T>(
  client: CoreKeyspace,
  name: string,
  ...last: ActionLast<WithLockOptions, (held: Held) => Promise<T> | T>
): Promise<T> {
  const [options, action] = actionLast(last, 'action');
  checkOptions(options, WITH_LOCK_OPTIONS, 'withLock');
  checkName(name);
  return holding('withLock', 'lock', client, [name], ([held]) => action(held as Held), options) as Promise<T>;
}

/**
 * Does the same as `withLock` if the lock is free. Resolves with undefined, without calling `action`, if another
 * contender holds the lock or waits for it.
 *
 * @throws EtcdError as `withLock` does.
 *
 * @example
 * const size = await tryWithLock(etcd, 'jobs/nightly', async (held) => {
 *   const { responses } = await held.txn({ then: [op.get('config/size')] });
 *   return responses[0]?.text();
 * });
 * console.log(size); // 10
 */
export async function tryWithLock<T>(
  client: CoreKeyspace,
  name: string,
  ...last: ActionLast<WithLockOptions, (held: Held) => Promise<T> | T>
): Promise<T | undefined> {
  const [options, action] = actionLast(last, 'action');
  checkOptions(options, WITH_LOCK_OPTIONS, 'tryWithLock');
  checkName(name);
  return holding('tryWithLock', 'tryLock', client, [name], ([held]) => action(held as Held), options);
}

/**
 * Does the same as `withLock` for several locks, which belong to one session. The locks are acquired one after the
 * other in the order of their names in UTF-16 code units, whatever the order of `names` is. So callers of `withLocks`
 * never wait for each other in a circle. A caller that holds one lock and then waits for another with `withLock` has no
 * such guarantee. `action` gets the locks in the order of `names`. A name that occurs twice is locked once.
 *
 * @throws EtcdError as `withLock` does.
 *
 * @example
 * await withLocks(etcd, ['accounts/ada', 'accounts/bob'], async ([ada, bob]) => {
 *   console.log(ada?.token, bob?.token);
 * });
 */
export async function withLocks<T>(
  client: CoreKeyspace,
  names: readonly string[],
  ...last: ActionLast<WithLockOptions, (held: readonly Held[]) => Promise<T> | T>
): Promise<T> {
  const [options, action] = actionLast(last, 'action');
  checkOptions(options, WITH_LOCK_OPTIONS, 'withLocks');
  const allowed = 'a list of at least one name';
  const wanted = checkList(names, 'names', allowed);
  if (wanted.length === 0) throw invalidInput('names', 'an empty list', allowed);
  for (const [index, name] of wanted.entries()) checkName(name, `names[${index}]`);
  const ordered = [...new Set(wanted)].sort((a, b) => (a < b ? -1 : 1));
  return holding(
    'withLocks',
    'lock',
    client,
    ordered,
    (held) => action(wanted.map((name) => held[ordered.indexOf(name)] as Held)),
    options,
  ) as Promise<T>;
}

/**
 * The locks that a call of `withLock` or `withLocks` holds while its action runs. A nested call without a limit refuses
 * to wait for one of them.
 */
interface Holding {
  readonly client: CoreKeyspace;
  readonly names: readonly string[];
  isActive: boolean;
  readonly outer: Holding | undefined;
}

/** Created by the first call, because its creation would be a side effect of the import. */
let holdings: AsyncContext<Holding> | undefined;

/** @throws EtcdError with reason `InvalidInput` if the calling action already holds one of the locks. */
function checkNotNested(client: CoreKeyspace, names: readonly string[]): void {
  for (let holding = holdings?.getStore(); holding !== undefined; holding = holding.outer) {
    if (!holding.isActive || !holding.names.some((name) => names.includes(name))) continue;
    if (!isSameKeyspace(client, holding.client)) continue;
    throw invalidInput(
      'name',
      'a lock that the enclosing action holds, so the action would wait for itself',
      'a lock that no enclosing action holds; pass the `held` of the action on, use ReentrantMutex, or set maxWaitMs',
    );
  }
}

/**
 * Runs the action while a session holds all locks, which the method `acquire` acquires in the given order. Resolves
 * with undefined if a call of `tryLock` does not get its lock.
 */
async function holding<T>(
  what: string,
  acquire: 'lock' | 'tryLock',
  client: CoreKeyspace,
  names: readonly string[],
  action: (held: readonly Held[]) => Promise<T> | T,
  options: WithLockOptions,
): Promise<T | undefined> {
  const { maxWaitMs, signal } = options;
  const value = toBytes(options.value ?? '', 'value');
  // A call with a limit cannot wait forever, and `tryLock` does not wait.
  if (acquire === 'lock' && maxWaitMs === undefined && (signal ?? undefined) === undefined)
    checkNotNested(client, names);
  return delayingClose(client, () => whileHeld(what, acquire, client, names, action, { ...options, value }));
}

async function whileHeld<T>(
  what: string,
  acquire: 'lock' | 'tryLock',
  client: CoreKeyspace,
  names: readonly string[],
  action: (held: readonly Held[]) => Promise<T> | T,
  { ttl, allowLongTtl, value, maxHoldMs, ...wait }: WithLockOptions,
): Promise<T | undefined> {
  const limit = waitLimit(what, wait).forLock();
  let session: Session | undefined;
  let own: Holding | undefined;
  const held: Held[] = [];
  const holdsAll = (): boolean => held.length === names.length;
  try {
    session = await untilAnswered(limit.waiting, (callOptions) =>
      Session.open(client, { ...callOptions, ttl, allowLongTtl }),
    );
    let { waiting } = limit;
    for (const name of names) {
      const locking = new Mutex(session, name, { value })[acquire]({ ...waiting, maxHoldMs });
      // If the wait ends, closing the session deletes the queue key, too.
      const next = await orAborted<Held | undefined>(locking, waiting.signal);
      if (next === undefined) {
        await cleanedUp(session.close());
        return undefined;
      }
      held.push(next);
      if (holdsAll()) break;
      // The loss of a lock ends the wait for the next one.
      waiting = { ...waiting, signal: next.signalWith(waiting.signal) };
    }
    throwFirst(held.map((each) => each.lostBy()));
    limit.dispose();
    holdings ??= asyncContext<Holding>();
    own = { client, names, isActive: true, outer: holdings.getStore() };
    const result = await holdings.run(own, () => action(held));
    throwFirst(held.map((each) => each.loss()));
    return result;
  } catch (error) {
    if (holdsAll()) throw error;
    const loss = held.map((each) => each.loss()).find((each) => each !== undefined);
    // A caller that did not get all locks waits only a short time until the session is closed, which frees its locks.
    if (session !== undefined && !(await cleanedUp(session.close()))) limit.setOutcome('unknown');
    throw loss ?? limit.endedBy(error);
  } finally {
    if (own !== undefined) own.isActive = false;
    limit.dispose();
    // Errors of `release` and `close` must not replace the result of `action`. If both fail, the lock ends with the
    // lease.
    if (holdsAll()) {
      await Promise.all(held.map((each) => each.release().catch(() => {})));
      await session?.close().catch(() => {});
    }
  }
}

function throwFirst(errors: readonly (EtcdError | undefined)[]): void {
  for (const error of errors) if (error !== undefined) throw error;
}
