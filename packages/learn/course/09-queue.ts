import type { Fields, Message } from './04-protobuf.js';
import type { Connection } from './05-call.js';
import { call } from './06-status.js';
import { watch } from './07-watch.js';

// The numbers of the fields by message, with the names of proto/etcdserverpb/rpc.proto and proto/mvccpb/kv.proto.
export const TXN_REQUEST = { compare: 1, success: 2, failure: 3 } as const;
export const COMPARE = { target: 2, key: 3, createRevision: 5, modRevision: 6 } as const;
export const OPERATION = { range: 1, put: 2 } as const;
export const PUT = { key: 1, value: 2, lease: 3 } as const;
export const RANGE = { key: 1, rangeEnd: 2, limit: 3, sortOrder: 5, sortTarget: 6, maxCreateRevision: 13 } as const;
export const TXN_RESPONSE = { succeeded: 2, responses: 3 } as const;
export const RANGE_RESPONSE = { kvs: 2 } as const;
export const KEY_VALUE = { key: 1, createRevision: 2, modRevision: 3, value: 5, lease: 6 } as const;
// The values of the fields `target`, `sortTarget` and `sortOrder`, which are enums.
export const TARGET = { createRevision: 1, modRevision: 2 } as const;
export const SORT = { byCreateRevision: 2, ascending: 1, descending: 2 } as const;

/** Almost every response of etcd has a header (field 1), which contains the revision of the store (field 3). */
const revisionOf = (response: Message): bigint => response.messages(1)[0]?.int(3) ?? 0n;

/** Applies `ifEqual` if the key has this create revision (0: no key), otherwise `ifNot`. Resolves with the response. */
export function transact(connection: Connection, key: string, created: bigint, ifEqual: Fields[], ifNot: Fields[]) {
  const compare = { [COMPARE.target]: TARGET.createRevision, [COMPARE.key]: key, [COMPARE.createRevision]: created };
  const request = { [TXN_REQUEST.compare]: compare, [TXN_REQUEST.success]: ifEqual, [TXN_REQUEST.failure]: ifNot };
  return call(connection, '/etcdserverpb.KV/Txn', request);
}

/** Puts a key into the queue of a lock, unless the key exists. Resolves with the create revision of the key. */
export async function enter(connection: Connection, key: string, leaseId: bigint): Promise<bigint> {
  const put = { [OPERATION.put]: { [PUT.key]: key, [PUT.lease]: leaseId } };
  const get = { [OPERATION.range]: { [RANGE.key]: key } };
  const response = await transact(connection, key, 0n, [put], [get]);
  const [range] = response.messages(TXN_RESPONSE.responses)[0]?.messages(OPERATION.range) ?? [];
  const [existing] = range?.messages(RANGE_RESPONSE.kvs) ?? [];
  return existing?.int(KEY_VALUE.createRevision) ?? revisionOf(response);
}

/** Waits until no key that begins with `name/` has a lower create revision than `revision`. */
export async function waitForTurn(address: string, connection: Connection, name: string, revision: bigint) {
  for (;;) {
    // Of the keys from `name/` to `name0` with a lower create revision, read the one with the highest.
    const newest = { [RANGE.sortTarget]: SORT.byCreateRevision, [RANGE.sortOrder]: SORT.descending, [RANGE.limit]: 1 };
    const older = { [RANGE.key]: `${name}/`, [RANGE.rangeEnd]: `${name}0`, [RANGE.maxCreateRevision]: revision - 1n };
    const response = await call(connection, '/etcdserverpb.KV/Range', { ...older, ...newest });
    const [predecessor] = response.messages(RANGE_RESPONSE.kvs);
    if (predecessor === undefined) return;
    const events = watch(address, `${predecessor.bytes(KEY_VALUE.key)}`, revisionOf(response) + 1n);
    for await (const { type } of events) if (type === 'delete') break;
  }
}
