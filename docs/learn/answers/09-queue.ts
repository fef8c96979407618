import type { Connection } from '../05-call.js';
import { call } from '../06-status.js';
import { transact } from '../09-queue.js';

/** Exercise 1: puts a key only if it does not exist. Resolves with whether the key was put. */
export async function create(connection: Connection, key: string, value: string): Promise<boolean> {
  return (await transact(connection, key, 0n, [{ 2: { 1: key, 2: value } }], [])).int(2) === 1n;
}

/** Exercise 2: adds 1 to a number in a key. Several clients may do so at once. */
export async function increment(connection: Connection, key: string): Promise<number> {
  for (;;) {
    const [kv] = (await call(connection, '/etcdserverpb.KV/Range', { 1: key })).messages(2);
    const next = Number(`${kv?.bytes(5) ?? 0}`) + 1;
    const unchanged = { 2: 2, 3: key, 6: kv?.int(3) ?? 0n }; // Target 2 is the revision of the last change.
    const put = { 2: { 1: key, 2: `${next}` } };
    if ((await call(connection, '/etcdserverpb.KV/Txn', { 1: unchanged, 2: put })).int(2) === 1n) return next;
  }
}

/** Exercise 3: lists the keys in the queue of a lock, the holder's key first. */
export async function queueOf(connection: Connection, name: string): Promise<string[]> {
  const byCreation = { 1: `${name}/`, 2: `${name}0`, 5: 1, 6: 2 };
  return (await call(connection, '/etcdserverpb.KV/Range', byCreation)).messages(2).map((kv) => `${kv.bytes(1)}`);
}
