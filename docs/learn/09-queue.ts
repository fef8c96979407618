import type { Fields, Message } from './04-protobuf.js';
import type { Connection } from './05-call.js';
import { call } from './06-status.js';
import { watch } from './07-watch.js';

/** Almost every response of etcd has a header (field 1), which contains the revision of the store (field 3). */
const revisionOf = (response: Message): bigint => response.messages(1)[0]?.int(3) ?? 0n;

/** Applies `ifEqual` if the key has this create revision, otherwise `ifNot`. A missing key has create revision 0. */
export function transact(connection: Connection, key: string, created: bigint, ifEqual: Fields[], ifNot: Fields[]) {
  const compare = { 2: 1, 3: key, 5: created };
  return call(connection, '/etcdserverpb.KV/Txn', { 1: compare, 2: ifEqual, 3: ifNot });
}

/** Puts a key into the queue of a lock, unless the key exists. Resolves with the create revision of the key. */
export async function enter(connection: Connection, key: string, leaseId: bigint): Promise<bigint> {
  const [put, get] = [{ 2: { 1: key, 3: leaseId } }, { 1: { 1: key } }];
  const response = await transact(connection, key, 0n, [put], [get]);
  const [existing] = response.messages(3)[0]?.messages(1)[0]?.messages(2) ?? [];
  return existing?.int(2) ?? revisionOf(response);
}

/** Waits until no key of the queue is older than `revision`. */
export async function waitForTurn(address: string, connection: Connection, name: string, revision: bigint) {
  for (;;) {
    // Of the keys from `name/` to `name0` with a lower create revision (13), read the one (3) with the highest (5, 6).
    const newestOlder = { 1: `${name}/`, 2: `${name}0`, 3: 1, 5: 2, 6: 2, 13: revision - 1n };
    const response = await call(connection, '/etcdserverpb.KV/Range', newestOlder);
    const [predecessor] = response.messages(2);
    if (predecessor === undefined) return;
    const events = watch(address, `${predecessor.bytes(1)}`, revisionOf(response) + 1n);
    for await (const { type } of events) if (type === 'delete') break;
  }
}
