import { compareBytes, idOf } from '../bytes.js';
import { invalidInput } from '../errors.js';
import type { DeleteRangeRequest, RequestOp, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';

type WireOps = readonly Init<RequestOp>[];
type Interval = { readonly key: Uint8Array; readonly rangeEnd: Uint8Array };
interface Writes {
  /** Keys put, as text of their bytes. */
  readonly puts: ReadonlyMap<string, Uint8Array>;
  readonly deletes: readonly Interval[];
}

/**
 * Refuses what the server would refuse: the longest of a transaction's lists counts against the limit, and nested
 * transactions share what it leaves; a key is written only once.
 *
 * @throws EtcdError, reason `InvalidInput`.
 */
export function checkTxn(txn: Init<TxnRequest>, maxOps: number): void {
  checkCount(txn, maxOps, maxOps);
  checkWrites(txn.success ?? [], 'then');
  checkWrites(txn.failure ?? [], 'else');
}

function checkCount(txn: Init<TxnRequest>, left: number, maxOps: number): void {
  for (const [name, list] of [
    ['if', txn.compare],
    ['then', txn.success],
    ['else', txn.failure],
  ] as const) {
    const length = list?.length ?? 0;
    if (length <= left) continue;
    const nested = left < maxOps ? ` in a nested transaction, whose parents leave ${left}` : '';
    throw invalidInput(
      name,
      `${length} operations${nested}`,
      `at most ${maxOps} (maxTxnOps, the server's --max-txn-ops)`,
    );
  }
  const longest = Math.max(txn.compare?.length ?? 0, txn.success?.length ?? 0, txn.failure?.length ?? 0);
  for (const { request } of [...(txn.success ?? []), ...(txn.failure ?? [])]) {
    if (request?.case === 'requestTxn') checkCount(request.value, left - longest, maxOps);
  }
}

function checkWrites(ops: WireOps, list: string): Writes {
  const puts = new Map<string, Uint8Array>();
  const deletes: Interval[] = [];
  for (const { request } of ops) {
    if (request?.case === 'requestDeleteRange') deletes.push(intervalOf(request.value));
  }
  const add = (key: Uint8Array, alternatives?: ReadonlyMap<string, Uint8Array>): void => {
    const id = idOf(key);
    const twice = puts.has(id) && !alternatives?.has(id);
    if (twice || deletes.some((interval) => contains(interval, key))) {
      throw invalidInput(
        list,
        `a key that is ${twice ? 'put twice' : 'put and deleted'}`,
        'one write a key in a transaction',
      );
    }
    puts.set(id, key);
  };
  for (const { request } of ops) {
    if (request?.case !== 'requestTxn') continue;
    // Only one of the two lists runs, so they may write the same key.
    const whenThen = checkWrites(request.value.success ?? [], list);
    const whenElse = checkWrites(request.value.failure ?? [], list);
    for (const key of whenThen.puts.values()) add(key);
    for (const key of whenElse.puts.values()) add(key, whenThen.puts);
    deletes.push(...whenThen.deletes, ...whenElse.deletes);
  }
  for (const { request } of ops) {
    if (request?.case === 'requestPut') add(request.value.key as Uint8Array);
  }
  return { puts, deletes };
}

function intervalOf({ key, rangeEnd }: Init<DeleteRangeRequest>): Interval {
  return { key: key as Uint8Array, rangeEnd: rangeEnd as Uint8Array };
}

function contains({ key, rangeEnd }: Interval, point: Uint8Array): boolean {
  if (rangeEnd.length === 0) return compareBytes(key, point) === 0;
  if (compareBytes(point, key) < 0) return false;
  return (rangeEnd.length === 1 && rangeEnd[0] === 0) || compareBytes(point, rangeEnd) < 0;
}
