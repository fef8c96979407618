import { invalidInput } from '../errors/etcd-error.js';
import type * as wire from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { idOf } from '../runtime/bytes.js';
import { contains, type WireRange } from './keys.js';

/**
 * Checks two of the server's rules. First, `if`, `then` and `else` may each contain at most `maxOps` items. A nested
 * transaction has a lower limit: `maxOps` minus the length of the longest list in each transaction around it
 * (`checkTxnRequest` in etcd's `v3rpc/key.go`). Second, a transaction may put each key only once, and must not delete a
 * key that it puts.
 *
 * @throws EtcdError with reason `InvalidInput` if the transaction breaks one of the rules.
 */
export function checkTxn(txn: Init<wire.TxnRequest>, maxOps: number): void {
  checkLengths(txn, maxOps, maxOps);
  checkWrites(txn.success ?? [], 'then');
  checkWrites(txn.failure ?? [], 'else');
}

function checkLengths(
  { compare = [], success = [], failure = [] }: Init<wire.TxnRequest>,
  left: number,
  maxOps: number,
): void {
  for (const [name, { length }] of Object.entries({ if: compare, then: success, else: failure })) {
    if (length <= left) continue;
    const items = `${length} ${name === 'if' ? 'condition' : 'operation'}${length === 1 ? '' : 's'}`;
    const limit = 'option maxTxnOps of the client, --max-txn-ops of the server';
    if (left === maxOps) throw invalidInput(name, items, `at most ${maxOps} (${limit})`);
    const allowed = `at most ${left}, because the transactions around it use ${maxOps - left} of ${maxOps} (${limit})`;
    throw invalidInput(name, `${items} in a nested transaction`, allowed);
  }
  const longest = Math.max(compare.length, success.length, failure.length);
  for (const { request } of [...success, ...failure])
    if (request?.case === 'requestTxn') checkLengths(request.value, left - longest, maxOps);
}

/** The keys that a list of operations writes. */
interface Writes {
  /** The keys that the list puts, indexed by `idOf(key)`. */
  readonly puts: ReadonlyMap<string, Uint8Array>;
  /** The ranges that the list deletes. */
  readonly deletes: readonly WireRange[];
}

function checkWrites(ops: readonly Init<wire.RequestOp>[], list: string): Writes {
  const puts = new Map<string, Uint8Array>();
  const deletes: WireRange[] = [];
  const add = (key: Uint8Array, alternatives?: ReadonlyMap<string, Uint8Array>): void => {
    const id = idOf(key);
    const isPutTwice = puts.has(id) && !alternatives?.has(id);
    if (isPutTwice || deletes.some((range) => contains(range, key))) {
      const given = `a key that is ${isPutTwice ? 'put twice' : 'put and deleted'}`;
      throw invalidInput(list, given, 'at most one write per key in a transaction');
    }
    puts.set(id, key);
  };
  for (const { request } of ops) if (request?.case === 'requestDeleteRange') deletes.push(request.value as WireRange);
  for (const { request } of ops) {
    if (request?.case !== 'requestTxn') continue;
    // The server runs only one of the two lists, so both may write the same key.
    const whenThen = checkWrites(request.value.success ?? [], list);
    const whenElse = checkWrites(request.value.failure ?? [], list);
    for (const key of whenThen.puts.values()) add(key);
    for (const key of whenElse.puts.values()) add(key, whenThen.puts);
    deletes.push(...whenThen.deletes, ...whenElse.deletes);
  }
  for (const { request } of ops) if (request?.case === 'requestPut') add(request.value.key as Uint8Array);
  return { puts, deletes };
}
