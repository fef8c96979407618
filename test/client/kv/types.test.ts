import { describe, expect, expectTypeOf, test } from 'vitest';
import * as etcdwire from '../../../src/index.js';
import {
  type Client,
  compare,
  type GetOptions,
  type KeyRange,
  type KeyValue,
  keyRange,
  op,
  prefix,
  type RangeResult,
  type ScanOptions,
  type Txn,
  withFirstCreate,
  withLastCreate,
  withLastKey,
  withMaxCreateRev,
} from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

type Call = (etcd: Client) => unknown;

const REFUSED = { reason: 'InvalidInput', outcome: 'not-sent' };

describe('the compiler and the client refuse', () => {
  test.each<[string, Call]>([
    // @ts-expect-error: get reads one key, so it takes no limit.
    ['the option `limit` for `get`', (etcd) => etcd.get('k', { limit: 1 })],
    // @ts-expect-error: get reads one key, so it takes no sort order.
    ['`withFirstCreate()` for `get`', (etcd) => etcd.get('k', withFirstCreate())],
    // @ts-expect-error: the compiler checks the options in a spread, too.
    ['a withFirstCreate() spread for get', (etcd) => etcd.get('k', { ...withFirstCreate(), keysOnly: true })],
    // @ts-expect-error: get has no revision bounds.
    ['a revision bound for get', (etcd) => etcd.get('k', { minModRevision: 1n })],
    // @ts-expect-error: scan reads every key.
    ['the option `limit` for `scan`', (etcd) => etcd.scan(prefix('k'), { limit: 10 }).next()],
    // @ts-expect-error: scan always reads in key order.
    ['`withLastKey()` for `scan`', (etcd) => etcd.scan(prefix('k'), withLastKey()).next()],
    // @ts-expect-error: the compiler checks the options in a spread, too.
    ['a withLastKey() spread for scan', (etcd) => etcd.scan(prefix('k'), { ...withLastKey(), keysOnly: true }).next()],
    // @ts-expect-error: scan returns keys, so it has no option that only counts them.
    ['the option `countOnly` for `scan`', (etcd) => etcd.scan(prefix('k'), { countOnly: true }).next()],
    // @ts-expect-error: op.get accepts only the options of get.
    ['the option `limit` for `op.get`', (etcd) => etcd.txn({ then: [op.get('k', { limit: 1 })] })],
    // @ts-expect-error: op.get accepts only the options of get.
    ['`withLastCreate()` for `op.get`', (etcd) => etcd.txn({ then: [op.get('k', withLastCreate())] })],
    // @ts-expect-error: a limit counts keys, so it is a number.
    ['a limit that is a bigint', (etcd) => etcd.range(prefix('k'), { limit: 5n })],
    // @ts-expect-error: sort targets have the names that compare uses.
    ['an abbreviated sort target', (etcd) => etcd.range(prefix('k'), { sort: { target: 'mod', order: 'asc' } })],
    // @ts-expect-error: the sort orders are asc and desc.
    ['an unknown sort order', (etcd) => etcd.range(prefix('k'), { sort: { target: 'key', order: 'descend' } })],
    // @ts-expect-error: keys with a prefix are given as prefix('k').
    ['a plain object with a prefix as the keys', (etcd) => etcd.range({ prefix: 'k' })],
    // @ts-expect-error: a range of keys is given as keyRange('a', 'b').
    ['a plain object with a start and an end as the keys', (etcd) => etcd.delete({ start: 'a', end: 'b' })],
    // @ts-expect-error: only prefix, fromKey and keyRange create a KeyRange.
    ['a range as message fields', (etcd) => etcd.range({ key: new Uint8Array([1]), rangeEnd: new Uint8Array([2]) })],
    // @ts-expect-error: a spread copy of a KeyRange is not a KeyRange.
    ['a copy of a KeyRange', (etcd) => etcd.range({ ...prefix('k') })],
    // @ts-expect-error: get reads one key.
    ['a range of keys for get', (etcd) => etcd.get(prefix('k'))],
    // @ts-expect-error: without if, else never runs.
    ['`else` without `if`', (etcd) => etcd.txn({ else: [op.get('k')] })],
    // @ts-expect-error: without if, else never runs.
    ['`else` without `if` in a nested transaction', (etcd) => etcd.txn({ then: [op.txn({ else: [op.get('k')] })] })],
    // @ts-expect-error: the endpoint is an argument, not an option.
    ['two endpoints for status', (etcd) => etcd.maintenance.status('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument, not an option.
    ['two endpoints for defragment', (etcd) => etcd.maintenance.defragment('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument, not an option.
    ['two endpoints for hash', (etcd) => etcd.maintenance.hash('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument, not an option.
    ['two endpoints for hashKV', (etcd) => etcd.maintenance.hashKV('http://a:1', 0n, { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument, not an option.
    ['two endpoints for snapshot', (etcd) => etcd.maintenance.snapshot('http://a:1', { endpoint: 'http://b:2' })],
  ])('%s', async (_what, call) => {
    expect(await errorOf(async () => call(openClient()))).toMatchObject(REFUSED);
  });
});

describe('the types', () => {
  test('KeyValue and KeyRange have no exported constructor', () => {
    // @ts-expect-error: the package exports only the type, not the class.
    expect(() => new etcdwire.KeyValue()).toThrow(TypeError);
    // @ts-expect-error: the package exports only the type, not the class.
    expect(() => new etcdwire.KeyRange()).toThrow(TypeError);
  });

  test('RangeOptions, GetOptions and ScanOptions accept the options of their methods, and `keyRange` returns a KeyRange', () => {
    expectTypeOf(withLastCreate()).toExtend<etcdwire.RangeOptions>();
    expectTypeOf({ ...withLastCreate(), ...withMaxCreateRev(5n), keysOnly: true }).toExtend<etcdwire.RangeOptions>();
    expectTypeOf<{ revision: bigint; serializable: true; keysOnly: true }>().toExtend<GetOptions>();
    expectTypeOf<{ keysOnly: true; minModRevision: bigint }>().toExtend<ScanOptions>();
    expectTypeOf(keyRange('a', 'b')).toEqualTypeOf<KeyRange>();
  });

  test('of the result of a transaction without `if` contain no result of `else`', async () => {
    const [etcd, key] = [openClient(), unique()];
    const result = await etcd.txn({ then: [op.put(key, 'x'), op.get(key), op.range(prefix(key))] });
    expectTypeOf(result.succeeded).toEqualTypeOf<true>();
    expectTypeOf(result.responses[1]).toEqualTypeOf<KeyValue | undefined>();
    expectTypeOf(result.responses[2]).toEqualTypeOf<RangeResult>();
    expect([result.succeeded, result.responses[1]?.text(), result.responses[2].count]).toEqual([true, 'x', 1]);
  });

  test('of the result of a nested transaction depend on whether that transaction has an `if`', async () => {
    const [etcd, key] = [openClient(), unique()];
    const { responses } = await etcd.txn({
      then: [
        op.txn({ then: [op.get(key)] }),
        op.txn({ if: [compare.exists(key)], then: [op.get(key)], else: [op.put(key, 'x')] }),
      ],
    });
    const [plain, conditional] = responses;
    expectTypeOf(plain.succeeded).toEqualTypeOf<true>();
    expectTypeOf(conditional.succeeded).toEqualTypeOf<boolean>();
    expect([plain.succeeded, plain.responses, conditional.succeeded]).toEqual([true, [undefined], false]);
  });

  test('of the result of a transaction that is built at run time contain the results of both `then` and `else`', async () => {
    const txn: Txn = { then: [op.get(unique())] };
    const result = await openClient().txn(txn);
    expectTypeOf(result.succeeded).toEqualTypeOf<boolean>();
    expect(result.succeeded).toBe(true);
  });
});
