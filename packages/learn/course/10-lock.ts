import type { Fields } from './04-protobuf.js';
import { Connection } from './05-call.js';
import { grant } from './08-lease.js';
import { enter, OPERATION, PUT, TXN_RESPONSE, transact, waitForTurn } from './09-queue.js';

/** Waits for a lock with the keys of `etcdctl lock`. Resolves with `token`, `isHeld()`, `put()` and `unlock()`. */
export async function lock(address: string, name: string, ttl = 10) {
  const connection = new Connection(address);
  try {
    const lease = await grant(connection, ttl);
    const key = `${name}/${lease.id.toString(16)}`;
    const token = await enter(connection, key, lease.id);
    await waitForTurn(address, connection, name, token);
    const ifHeld = async (operations: Fields[]): Promise<boolean> =>
      (await transact(connection, key, token, operations, [])).int(TXN_RESPONSE.succeeded) === 1n;
    if (!(await ifHeld([]))) throw new Error(`the lease of ${key} ended before its turn`);
    /** Writes a key, unless the lock was lost. Resolves with whether the key was written. */
    const put = (written: string, value: string) =>
      ifHeld([{ [OPERATION.put]: { [PUT.key]: written, [PUT.value]: value } }]);
    const unlock = () => lease.revoke().finally(() => connection.close());
    // `token` grows with each holder. `isHeld` relies on the clock of this process, and notices a revocation late.
    return { token, isHeld: () => lease.isAlive(), put, unlock };
  } catch (error) {
    connection.close(); // This ends the renewals, so the key leaves the queue after the TTL.
    throw error;
  }
}
