import { describe, expect, expectTypeOf, test } from 'vitest';
import * as etcdwire from '../../src/index.js';
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
} from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

type Call = (etcd: Client) => unknown;

const REFUSED = { reason: 'InvalidInput', outcome: 'not-sent' };

describe('the compiler and the client refuse', () => {
  test.each<[string, Call]>([
    // @ts-expect-error: get reads one key, so it has no limit.
    ['a limit of get', (etcd) => etcd.get('k', { limit: 1 })],
    // @ts-expect-error: get reads one key, so it has no order.
    ['a preset of get', (etcd) => etcd.get('k', withFirstCreate())],
    // @ts-expect-error: a spread does not hide the options of range.
    ['a preset of get in a spread', (etcd) => etcd.get('k', { ...withFirstCreate(), keysOnly: true })],
    // @ts-expect-error: get has no revision bounds.
    ['a bound of get', (etcd) => etcd.get('k', { minModRevision: 1n })],
    // @ts-expect-error: scan reads every key.
    ['a limit of scan', (etcd) => etcd.scan(prefix('k'), { limit: 10 }).next()],
    // @ts-expect-error: scan reads in the order of the keys.
    ['a preset of scan', (etcd) => etcd.scan(prefix('k'), withLastKey()).next()],
    // @ts-expect-error: a spread does not hide the options of range.
    ['a preset of scan in a spread', (etcd) => etcd.scan(prefix('k'), { ...withLastKey(), keysOnly: true }).next()],
    // @ts-expect-error: scan returns keys, so it has no option that only counts them.
    ['countOnly of scan', (etcd) => etcd.scan(prefix('k'), { countOnly: true }).next()],
    // @ts-expect-error: op.get takes the options of get.
    ['a limit of op.get', (etcd) => etcd.txn({ then: [op.get('k', { limit: 1 })] })],
    // @ts-expect-error: op.get takes the options of get.
    ['a preset of op.get', (etcd) => etcd.txn({ then: [op.get('k', withLastCreate())] })],
    // @ts-expect-error: a limit counts keys, so it is a number.
    ['a limit that is a bigint', (etcd) => etcd.range(prefix('k'), { limit: 5n })],
    // @ts-expect-error: targets have the names that compare uses.
    ['an abbreviated target', (etcd) => etcd.range(prefix('k'), { sort: { target: 'mod', order: 'asc' } })],
    // @ts-expect-error: orders are asc and desc.
    ['another order', (etcd) => etcd.range(prefix('k'), { sort: { target: 'key', order: 'descend' } })],
    // @ts-expect-error: prefix('k') names the keys.
    ['a prefix as an object', (etcd) => etcd.range({ prefix: 'k' })],
    // @ts-expect-error: keyRange('a', 'b') names the keys.
    ['an interval as an object', (etcd) => etcd.delete({ start: 'a', end: 'b' })],
    // @ts-expect-error: only prefix, fromKey and keyRange make a KeyRange.
    ['a range of a message', (etcd) => etcd.range({ key: new Uint8Array([1]), rangeEnd: new Uint8Array([2]) })],
    // @ts-expect-error: a KeyRange is used as a whole.
    ['the copy of a KeyRange', (etcd) => etcd.range({ ...prefix('k') })],
    // @ts-expect-error: get reads one key.
    ['a range of get', (etcd) => etcd.get(prefix('k'))],
    // @ts-expect-error: without if, else never runs.
    ['else without if', (etcd) => etcd.txn({ else: [op.get('k')] })],
    // @ts-expect-error: without if, else never runs.
    ['else without if in a nested transaction', (etcd) => etcd.txn({ then: [op.txn({ else: [op.get('k')] })] })],
    // @ts-expect-error: the endpoint is an argument.
    ['two endpoints of status', (etcd) => etcd.maintenance.status('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument.
    ['two endpoints of defragment', (etcd) => etcd.maintenance.defragment('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument.
    ['two endpoints of hash', (etcd) => etcd.maintenance.hash('http://a:1', { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument.
    ['two endpoints of hashKV', (etcd) => etcd.maintenance.hashKV('http://a:1', 0n, { endpoint: 'http://b:2' })],
    // @ts-expect-error: the endpoint is an argument.
    ['two endpoints of snapshot', (etcd) => etcd.maintenance.snapshot('http://a:1', { endpoint: 'http://b:2' })],
  ])('%s', async (_what, call) => {
    expect(await errorOf(async () => call(openClient()))).toMatchObject(REFUSED);
  });
});

describe('the types', () => {
  test('do not let a program construct a KeyValue or a KeyRange', () => {
    // @ts-expect-error: the package exports the type alone.
    expect(() => new etcdwire.KeyValue()).toThrow(TypeError);
    // @ts-expect-error: the package exports the type alone.
    expect(() => new etcdwire.KeyRange()).toThrow(TypeError);
  });

  test('include an exported type for every set of options that a method accepts', () => {
    expectTypeOf(withLastCreate()).toExtend<etcdwire.RangeOptions>();
    expectTypeOf({ ...withLastCreate(), ...withMaxCreateRev(5n), keysOnly: true }).toExtend<etcdwire.RangeOptions>();
    expectTypeOf<{ revision: bigint; serializable: true; keysOnly: true }>().toExtend<GetOptions>();
    expectTypeOf<{ keysOnly: true; minModRevision: bigint }>().toExtend<ScanOptions>();
    expectTypeOf(keyRange('a', 'b')).toEqualTypeOf<KeyRange>();
  });

  test('of a transaction without if have no result of else', async () => {
    const [etcd, key] = [openClient(), unique()];
    const result = await etcd.txn({ then: [op.put(key, 'x'), op.get(key), op.range(prefix(key))] });
    expectTypeOf(result.succeeded).toEqualTypeOf<true>();
    expectTypeOf(result.responses[1]).toEqualTypeOf<KeyValue | undefined>();
    expectTypeOf(result.responses[2]).toEqualTypeOf<RangeResult>();
    expect([result.succeeded, result.responses[1]?.text(), result.responses[2].count]).toEqual([true, 'x', 1]);
  });

  test('of a nested transaction depend on its own if', async () => {
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

  test('of a transaction whose conditions are built at run time have both results', async () => {
    const txn: Txn = { then: [op.get(unique())] };
    const result = await openClient().txn(txn);
    expectTypeOf(result.succeeded).toEqualTypeOf<boolean>();
    expect(result.succeeded).toBe(true);
  });
});
