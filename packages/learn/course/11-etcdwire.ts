import { Client, EtcdError, Mutex, op, Session } from './etcdwire.js';

/** Waits for a lock, and returns the same functions as `lock` of chapter 10, and a signal. */
export async function lock(address: string, name: string, ttl = 10) {
  const client = new Client({ endpoints: [`http://${address}`] });
  try {
    const session = await Session.open(client, { ttl });
    const held = await new Mutex(session, name).lock();
    /** Writes a key, unless the lock was lost. Resolves with whether the key was written. */
    const put = async (written: string, value: string): Promise<boolean> => {
      try {
        await held.txn({ then: [op.put(written, value)] });
        return true;
      } catch (error) {
        if (error instanceof EtcdError && error.reason === 'LockLost') return false;
        throw error;
      }
    };
    const unlock = async () => {
      await held.release();
      await client.close(); // This ends the session, which revokes the lease.
    };
    return { token: held.token, signal: held.signal, isHeld: () => held.valid(), put, unlock };
  } catch (error) {
    await client.close();
    throw error;
  }
}
