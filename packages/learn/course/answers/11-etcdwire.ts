import { Client, EtcdError, type Held, Mutex, op, Session, withLock } from '../etcdwire.js';

const clientOf = (address: string) => new Client({ endpoints: [`http://${address}`] });

/** Exercise 1: adds a line to the value of a key. Callers with the same lock do not lose each other's lines. */
export async function addLine(address: string, name: string, key: string, line: string): Promise<void> {
  await using etcd = clientOf(address);
  await withLock(etcd, name, async (held) => {
    const lines = (await etcd.get(key))?.text() ?? '';
    await held.txn({ then: [op.put(key, `${lines}${line}\n`)] });
  });
}

/** Exercise 2: resolves with the lock, or with undefined if another client still has the lock after `ms` milliseconds. */
export async function lockWithin(address: string, name: string, ms: number) {
  const etcd = clientOf(address);
  try {
    const held = await new Mutex(await Session.open(etcd), name).lock({ maxWaitMs: ms });
    return { token: held.token, unlock: () => held.release().then(() => etcd.close()) };
  } catch (error) {
    await etcd.close();
    if (error instanceof EtcdError && error.reason === 'LockTaken') return undefined;
    throw error;
  }
}

/** Exercise 3: runs an action with the lock, and again with a new lock if it lost the lock. Resolves with the runs. */
export async function runUntilDone(address: string, name: string, action: (signal: AbortSignal) => Promise<void>) {
  await using etcd = clientOf(address);
  for (let runs = 1; ; runs += 1) {
    let lastHeld: Held | undefined;
    try {
      await withLock(etcd, name, (held) => {
        lastHeld = held;
        return action(held.signal);
      });
      return runs;
    } catch (error) {
      // The signal has aborted in any case, because `withLock` has released the lock. Its reason says which came first.
      const reason = lastHeld?.signal.reason;
      if (!(reason instanceof EtcdError) || reason.reason === 'LockReleased') throw error;
    }
  }
}
