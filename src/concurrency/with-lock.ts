import type { Keyspace } from '../keyspace.js';
import { checkFunction, checkOptions } from '../runtime/arguments.js';
import { settledWithin } from '../runtime/timers.js';
import type { Held } from './held.js';
import { Mutex } from './mutex.js';
import { Session } from './session.js';
import { untilAnswered, WAIT_OPTIONS, type WaitOptions, waitLimit } from './wait-limit.js';

const CLOSE_WAIT_MS = 1_000;

export interface WithLockOptions extends WaitOptions {
  /** Seconds after which the lock is free should this process die. Default 10. */
  readonly ttl?: number | undefined;
}

const WITH_LOCK_OPTIONS = { ttl: true, ...WAIT_OPTIONS } as const;

/**
 * Runs `action` under a lock, in a session of its own, and gives back what it returns. `timeoutMs` bounds the way to the
 * lock, not the action.
 *
 * @throws EtcdError where the lock is not to be had, and where it was lost before `action` was done: what `action` did
 * outside `held.txn` then may have happened beside another holder.
 */
export async function withLock<T>(
  client: Keyspace,
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
    // Without a time limit this waits for a server as long as for the lock.
    session = await untilAnswered(signal, (callOptions) => Session.open(client, { ...callOptions, ttl }));
    held = await new Mutex(session, name).lock({ signal });
    limit.dispose();
    const result = await action(held);
    if (held.signal.aborted && held.signal.reason.reason !== 'LockReleased') throw held.signal.reason;
    return result;
  } catch (error) {
    if (held !== undefined) throw error;
    throw limit.endedBy(error);
  } finally {
    limit.dispose();
    // Where these fail the lease runs out by itself; that must not hide what became of the action.
    await held?.unlock().catch(() => {});
    const closed = session?.close().catch(() => {});
    // Whoever did not get the lock in time has waited long enough.
    if (held !== undefined) await closed;
    else if (closed !== undefined) await settledWithin(CLOSE_WAIT_MS, closed);
  }
}
