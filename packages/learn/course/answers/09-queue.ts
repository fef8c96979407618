import type { Connection } from '../05-call.js';
import { call } from '../06-status.js';
import {
  COMPARE,
  KEY_VALUE,
  OPERATION,
  PUT,
  RANGE,
  RANGE_RESPONSE,
  SORT,
  TARGET,
  TXN_REQUEST,
  TXN_RESPONSE,
  transact,
} from '../09-queue.js';

/** Exercise 1: puts a key only if it does not exist. Resolves with whether the key was put. */
export async function create(connection: Connection, key: string, value: string): Promise<boolean> {
  const put = { [OPERATION.put]: { [PUT.key]: key, [PUT.value]: value } };
  return (await transact(connection, key, 0n, [put], [])).int(TXN_RESPONSE.succeeded) === 1n;
}

/** Exercise 2: adds 1 to a number in a key. Several clients may do so at once. */
export async function increment(connection: Connection, key: string): Promise<number> {
  for (;;) {
    const response = await call(connection, '/etcdserverpb.KV/Range', { [RANGE.key]: key });
    const [kv] = response.messages(RANGE_RESPONSE.kvs);
    const next = Number(`${kv?.bytes(KEY_VALUE.value) ?? 0}`) + 1;
    const modRevision = kv?.int(KEY_VALUE.modRevision) ?? 0n;
    const unchanged = { [COMPARE.target]: TARGET.modRevision, [COMPARE.key]: key, [COMPARE.modRevision]: modRevision };
    const put = { [OPERATION.put]: { [PUT.key]: key, [PUT.value]: `${next}` } };
    const request = { [TXN_REQUEST.compare]: unchanged, [TXN_REQUEST.success]: put };
    if ((await call(connection, '/etcdserverpb.KV/Txn', request)).int(TXN_RESPONSE.succeeded) === 1n) return next;
  }
}

/** Exercise 3: lists the keys in the queue of a lock, the holder's key first. */
export async function queueOf(connection: Connection, name: string): Promise<string[]> {
  const byCreation = { [RANGE.sortTarget]: SORT.byCreateRevision, [RANGE.sortOrder]: SORT.ascending };
  const request = { [RANGE.key]: `${name}/`, [RANGE.rangeEnd]: `${name}0`, ...byCreation };
  const response = await call(connection, '/etcdserverpb.KV/Range', request);
  return response.messages(RANGE_RESPONSE.kvs).map((kv) => `${kv.bytes(KEY_VALUE.key)}`);
}
