import type { PutRequest, RequestOp, TxnRequest } from '../../gen/etcdserverpb/rpc.js';
import type { Member } from './member.js';
import { serverError } from './service.js';

// The rules by which etcd limits the size of its database: `storage/quota.go` and `etcdserver/api/v3rpc/quota.go`. etcd
// estimates how much a request adds to the database, and adds the estimate to the size of the database.
//
// Two differences from etcd remain. The size of a `MemoryEtcd` is an estimate (see `Store.bytes`), so it reaches the
// quota some requests earlier or later. The size also grows with each write, but in etcd only with the next commit of
// the database, every 100 ms. Therefore etcd may accept some more requests, and may apply a request although it answers
// with `NoSpace`.

/** Estimate of the bytes that the metadata of a key needs: `kvOverhead` in etcd's `storage/quota.go`. */
const KEY_BYTES = 256;

/** Returns how many bytes etcd expects a put to add to the database. */
export function costOfPut({ key, value }: PutRequest): number {
  return KEY_BYTES + key.length + value.length;
}

/** Returns how many bytes etcd expects a transaction to add to the database: the costs of its more expensive branch. */
export function costOfTxn({ success, failure }: TxnRequest): number {
  return Math.max(costOfOperations(success), costOfOperations(failure));
}

function costOfOperations(operations: readonly RequestOp[]): number {
  let cost = 0;
  for (const { request } of operations) {
    if (request?.case === 'requestPut') cost += costOfPut(request.value);
    if (request?.case === 'requestTxn') cost += costOfTxn(request.value);
  }
  return cost;
}

/**
 * Raises the alarm `NOSPACE` if a request with this cost in bytes exceeds the quota.
 *
 * @throws StatusError with `NoSpace` if the request exceeds the quota.
 */
export function checkQuota(member: Member, cost: number): void {
  if (cost === 0 || member.store.bytes + cost < member.settings.quotaBytes) return;
  member.raiseNoSpace();
  throw serverError('NoSpace');
}
