import { Connection } from '../05-call.js';
import { call } from '../06-status.js';
import { grant } from '../08-lease.js';
import { enter, RANGE, RANGE_RESPONSE, TXN_RESPONSE, transact, waitForTurn } from '../09-queue.js';
import { lock } from '../10-lock.js';

/** Exercise 1: runs an action with a lock, and releases the lock also if the action throws. */
export async function withLock<T>(address: string, name: string, action: (token: bigint) => Promise<T>): Promise<T> {
  const held = await lock(address, name);
  try {
    return await action(held.token);
  } finally {
    await held.unlock();
  }
}

/** Enters the queue of a lock. `unlock` leaves it. */
async function join(address: string, name: string) {
  const connection = new Connection(address);
  try {
    const lease = await grant(connection, 10);
    const key = `${name}/${lease.id.toString(16)}`;
    const token = await enter(connection, key, lease.id);
    /** Asks whether the key is still in the queue. It is not if the lease has ended. */
    const isQueued = async () => (await transact(connection, key, token, [], [])).int(TXN_RESPONSE.succeeded) === 1n;
    const unlock = () => lease.revoke().finally(() => connection.close());
    return { connection, token, isQueued, unlock };
  } catch (error) {
    connection.close(); // This ends the renewals, so the key leaves the queue after the TTL.
    throw error;
  }
}

/** Exercise 2: resolves with the lock if it is free, otherwise with undefined. Leaves nothing in the queue then. */
export async function tryLock(address: string, name: string) {
  const { connection, token, isQueued, unlock } = await join(address, name);
  const queue = { [RANGE.key]: `${name}/`, [RANGE.rangeEnd]: `${name}0` };
  const older = { ...queue, [RANGE.maxCreateRevision]: token - 1n, [RANGE.limit]: 1 };
  try {
    const response = await call(connection, '/etcdserverpb.KV/Range', older);
    const isFirst = response.messages(RANGE_RESPONSE.kvs).length === 0;
    if (isFirst && (await isQueued())) return { token, unlock };
  } catch (error) {
    connection.close();
    throw error;
  }
  await unlock();
  return undefined;
}

/**
 * Exercise 3: waits for a lock, but leaves the queue and throws the reason of the signal if the signal aborts. In that
 * case, `waitForTurn` and its watch run on until the key that they wait for is deleted.
 */
export async function lockUntil(address: string, name: string, signal: AbortSignal) {
  const { connection, token, isQueued, unlock } = await join(address, name);
  const aborted = new Promise<never>((_, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    await Promise.race([waitForTurn(address, connection, name, token), aborted]);
    if (!(await isQueued())) throw new Error(`the lease ended while the client waited for ${name}`);
    return { token, unlock };
  } catch (error) {
    await unlock().catch(() => {}); // The lease may have ended.
    throw error;
  }
}
