import { idOf, invalidInput } from '../../base/index.js';
import type * as wire from '../../gen/etcdserverpb/rpc.js';
import type { Init } from '../../wire/index.js';
import { contains, hasNoEnd, type WireRange } from './keys.js';

/**
 * Checks two of the server's rules. First, `if`, `then` and `else` may each contain at most `maxOps` items. A nested
 * transaction has a lower limit: `maxOps` minus the length of the longest list in each transaction around it
 * (`checkTxnRequest` in etcd's `v3rpc/key.go`). Second, a transaction may put each key only once, and must not delete a
 * key that it puts. Also checks the rule of `checkReads`.
 *
 * Returns whether the transaction only reads.
 *
 * @throws EtcdError with reason `InvalidInput` if the transaction breaks one of the rules.
 */
export function checkTxn(txn: Init<wire.TxnRequest>, maxOps: number): boolean {
  checkLengths(txn, maxOps, maxOps);
  const onlyReads = checkReads(txn);
  checkWrites(txn.success ?? [], 'then');
  checkWrites(txn.failure ?? [], 'else');
  return onlyReads;
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

/**
 * Checks that a transaction that writes contains no read with a `revision`. If the revision is compacted or in the
 * future, the member that receives the transaction refuses it. But before etcd 3.7, the other members do not check the
 * read and apply the writes, so that the data of the members differ from then on (etcd issue 18667). Returns whether the
 * transaction only reads.
 *
 * @throws EtcdError with reason `InvalidInput` if the transaction breaks the rule.
 */
export function checkReads({ success, failure }: Init<wire.TxnRequest>): boolean {
  const requests = [...flat(success), ...flat(failure)];
  if (requests.every((request) => request?.case === 'requestRange')) return true;
  for (const request of requests) {
    if (request?.case !== 'requestRange' || !request.value.revision) continue;
    const given = `a read with revision = ${request.value.revision} beside a write`;
    throw invalidInput('txn', given, 'reads without revision beside a write; read in a call of its own');
  }
  return false;
}

/**
 * Refuses a transaction that deletes all keys from a key on, and puts one of them with `ignoreValue` or `ignoreLease`.
 * etcd checks that the key exists before the transaction, and its check for two changes of one key misses a deletion
 * without an end. If the deletion comes first, every member that applies the transaction panics, and panics again at each
 * restart (`apply` in etcd's `txn/txn.go`).
 *
 * @throws EtcdError with reason `InvalidInput` for such a transaction.
 */
export function checkFatal({ success, failure }: Init<wire.TxnRequest>): void {
  for (const list of [success, failure]) {
    const all = flat(list);
    for (const put of all) {
      if (put?.case !== 'requestPut' || !(put.value.ignoreValue || put.value.ignoreLease)) continue;
      const isDeleted = (range: WireRange): boolean =>
        range.rangeEnd !== undefined && hasNoEnd(range) && contains(range, put.value.key as Uint8Array);
      if (all.some((each) => each?.case === 'requestDeleteRange' && isDeleted(each.value as WireRange)))
        throw invalidInput(
          'txn',
          'a put with ignoreValue or ignoreLease, and a deletion without an end of the same key',
          'two transactions, because each member of etcd that applies both together panics for good',
        );
    }
  }
}

/** Returns the operations of a list, and those of its nested transactions instead of these. */
function flat(list: readonly Init<wire.RequestOp>[] = []): readonly Init<wire.RequestOp>['request'][] {
  return list.flatMap(({ request }) =>
    request?.case === 'requestTxn' ? [...flat(request.value.success), ...flat(request.value.failure)] : [request],
  );
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
