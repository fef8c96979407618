import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  type Compare,
  compare,
  type KeyValue,
  type Op,
  op,
  prefix,
  type RangeResult,
  type Txn,
} from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

describe('a transaction', () => {
  test('runs `then` or `else`, and returns responses whose types match the operations', async () => {
    const etcd = openClient();
    const key = unique();
    const create = (value: string) =>
      etcd.txn({
        if: [compare.createRevision(key, '==', 0n)],
        then: [op.put(key, value), op.get(key)],
        else: [op.get(key), op.range(prefix(key)), op.delete(key, { prevKv: true })],
      });
    const first = await create('one');
    if (!first.succeeded) throw new Error('expected the then list');
    expectTypeOf(first.responses[1]).toEqualTypeOf<KeyValue | undefined>();
    expect(first.responses[1]?.text()).toBe('one');
    expect(first.responses[1]?.createRevision).toBe(first.header.revision);
    const second = await create('two');
    if (second.succeeded) throw new Error('expected the else list');
    expectTypeOf(second.responses[1]).toEqualTypeOf<RangeResult>();
    expect(second.responses[0]?.text()).toBe('one');
    expect(second.responses[1].count).toBe(1);
    expect(second.responses[2]).toMatchObject({ deleted: 1, prevKvs: [{ version: 1n }] });
  });

  test('checks with `exists` and `missing` whether a key, or any key in a range, exists', async () => {
    const [etcd, name] = [openClient(), unique()];
    await etcd.put(`${name}/a`, 'x');
    const holds = async (condition: Compare): Promise<boolean> => (await etcd.txn({ if: [condition] })).succeeded;
    expect(await holds(compare.exists(`${name}/a`))).toBe(true);
    expect(await holds(compare.exists(`${name}/b`))).toBe(false);
    expect(await holds(compare.exists(prefix(`${name}/`)))).toBe(true);
    expect(await holds(compare.exists(prefix(`${name}/b`)))).toBe(false);
    expect(await holds(compare.missing(`${name}/a`))).toBe(false);
    expect(await holds(compare.missing(prefix(`${name}/b`)))).toBe(true);
    expect(await holds(compare.missing(prefix(`${name}/`)))).toBe(false);
  });

  test('returns the result of a nested transaction at the index of the nested operation', async () => {
    const etcd = openClient();
    const key = unique();
    const result = await etcd.txn({
      then: [
        op.txn({ if: [compare.version(key, '>', 0n)], then: [op.get(key)], else: [op.put(key, 'made inside')] }),
        op.get(key),
      ],
    });
    const [inner, outer] = result.responses;
    expect(inner.succeeded).toBe(false);
    expect(outer?.text()).toBe('made inside');
  });

  test('compares the value, version, revisions and lease of a key or of every key in a range', async () => {
    const etcd = openClient();
    const name = unique();
    const { id } = await etcd.lease.grant({ ttl: 60 });
    const { header } = await etcd.txn({
      then: [op.put(`${name}/a`, 'm', { lease: id }), op.put(`${name}/b`, 'm', { lease: id })],
    });
    const key = `${name}/a`;
    const conditions = [
      compare.value(key, '==', 'm'),
      compare.value(key, '<', 'n'),
      compare.value(key, '>', 'l'),
      compare.value(key, '!=', 'x'),
      compare.version(key, '==', 1n),
      compare.createRevision(key, '==', header.revision),
      compare.modRevision(key, '>', 0n),
      compare.lease(key, '==', id),
      compare.value(prefix(`${name}/`), '==', 'm'),
      compare.createRevision(prefix(`${name}/none`), '==', 0n),
      compare.version(`${name}/none`, '==', 0n),
    ];
    expect((await etcd.txn({ if: conditions })).succeeded).toBe(true);
    for (const condition of [
      compare.value(`${name}/none`, '==', ''),
      compare.lease(key, '<', id),
      compare.version(prefix(name), '>', 1n),
    ]) {
      expect((await etcd.txn({ if: [condition] })).succeeded).toBe(false);
    }
  });

  test('writes all its keys at one revision', async () => {
    const etcd = openClient();
    const name = unique();
    const { header } = await etcd.txn({
      then: Array.from({ length: 128 }, (_, index) => op.put(`${name}/${index}`, 'x')),
    });
    const { kvs } = await etcd.range(prefix(name));
    expect(new Set(kvs.map((kv) => kv.modRevision))).toEqual(new Set([header.revision]));
  });

  test('accepts a list of operations that is built at run time', async () => {
    const etcd = openClient();
    const ops: Op[] = [op.put(unique(), 'x'), op.get('nothing')];
    const { succeeded, responses } = await etcd.txn({ then: ops });
    expect([succeeded, responses.length]).toEqual([true, 2]);
  });
});

// Rule S36 (docs/semantics.md): The client refuses invalid input before it sends a request.
describe('`txn`', () => {
  const puts = (count: number): Op[] => Array.from({ length: count }, (_, index) => op.put(`k${index}`, 'x'));

  test.each<[string, () => Txn, RegExp]>([
    ['129 operations', () => ({ then: puts(129) }), /^then: got 129 operations; allowed: at most 128/],
    ['129 conditions', () => ({ if: puts(129).map(() => compare.version('a', '==', 0n)) }), /^if: got 129/],
    [
      'more operations in a nested transaction than its parents leave room for',
      () => ({ then: [...puts(100), op.txn({ if: [], else: puts(28) })] }),
      /^else: got 28 operations in a nested transaction; allowed: at most 27, because the transactions around it use 101 of 128/,
    ],
    [
      'two puts of one key',
      () => ({ then: [op.put('a', '1'), op.put('a', '2')] }),
      /^then: got a key that is put twice/,
    ],
    [
      'two puts of one key, one of which is in a nested transaction',
      () => ({ if: [], else: [op.put('a', '1'), op.txn({ then: [op.put('a', '2')] })] }),
      /^else: got a key that is put twice/,
    ],
    [
      'a put and a deletion of one key',
      () => ({ then: [op.put('ab', '1'), op.delete(prefix('a'))] }),
      /put and deleted/,
    ],
    // etcd before 3.7 applies the writes of such a transaction at some members only: etcd issue 18667.
    [
      'a read with a revision beside a write',
      () => ({ then: [op.put('a', '1'), op.get('b', { revision: 5n })] }),
      /^txn: got a read with revision = 5 beside a write; allowed: reads without revision beside a write; read/,
    ],
    [
      'a read with a revision in another branch than the write',
      () => ({ if: [], then: [op.range(prefix('b'), { revision: 5n })], else: [op.delete('a')] }),
      /^txn: got a read with revision/,
    ],
    [
      'a read with a revision in a nested transaction beside a write',
      () => ({ then: [op.put('a', '1'), op.txn({ then: [op.get('b', { revision: 5n })] })] }),
      /^txn: got a read with revision/,
    ],
    [
      'a read with a revision beside a write in a nested transaction',
      () => ({ then: [op.get('b', { revision: 5n }), op.txn({ if: [], else: [op.put('a', '1')] })] }),
      /^txn: got a read with revision/,
    ],
    [
      'a misspelled name of an operation list',
      () => ({ than: [] }) as never,
      /^txn: got the unknown option than; allowed: if, then, else$/,
    ],
    [
      'an unknown operator',
      () => ({ if: [compare.version('a', '=' as never, 1n)] }),
      /^operator: got a string; allowed: ==, !=, <, >/,
    ],
    [
      'a fraction as a version',
      () => ({ if: [compare.version('a', '==', 1.5)] }),
      /^operand: got the number 1\.5; allowed: an integer from/,
    ],
    [
      'an unknown operation',
      () => ({ then: [{ type: 'frobnicate' } as never] }),
      /^then\[0\]: got an object \(Object\); allowed: an operation made by op\.get/,
    ],
    ['`else` without `if`', () => ({ else: [op.get('a')] }) as never, /^else: got operations that never run/],
    ['an empty `else` without `if`', () => ({ then: [], else: [] }) as never, /^else: got operations that never run/],
    [
      '`else` without `if` in a nested transaction',
      () => ({ then: [op.txn({ else: [] } as never)] }),
      /^else: got operations/,
    ],
    [
      'a bigint as a limit',
      () => ({ then: [op.range('a', { limit: 1n as never })] }),
      /^limit: got 1n; allowed: a whole number/,
    ],
    ['a range in `op.get`', () => ({ then: [op.get(prefix('a') as never)] }), /^key: got a range; allowed: one key/],
    ['an empty key', () => ({ then: [op.get('')] }), /empty key/],
  ])('refuses %s without sending a request', async (_what, txn, message) => {
    const error = await errorOf(async () => openClient().txn(txn()));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toMatch(message);
  });

  test('allows `then` and `else` to write the same key, even in a nested transaction', async () => {
    const key = unique();
    const etcd = openClient();
    await etcd.txn({
      if: [compare.version(key, '==', 0n)],
      then: [op.txn({ if: [], then: [op.put(key, '1')], else: [op.put(key, '2')] })],
      else: [op.put(key, '3')],
    });
    expect((await etcd.get(key))?.text()).toBe('1');
  });

  test('has the same limit on the number of operations as the server', async () => {
    const loose = openClient({ maxTxnOps: 10_000 });
    const name = unique();
    const named = (count: number): Op[] => Array.from({ length: count }, (_, index) => op.put(`${name}/${index}`, 'x'));
    expect(await errorOf(loose.txn({ then: named(129) }))).toMatchObject({ reason: 'TooManyOps', outcome: 'rejected' });
    expect((await loose.txn({ then: named(128) })).succeeded).toBe(true);
    expect(
      (await openClient().txn({ then: [...named(99), op.txn({ then: [op.get('a'), op.get('b')] })] })).succeeded,
    ).toBe(true);
  });

  test('allows a nested transaction as many operations as the server does when the outer transaction has many conditions', async () => {
    const [etcd, loose, name] = [openClient(), openClient({ maxTxnOps: 10_000 }), unique()];
    const conditions = Array.from({ length: 127 }, (_, index) => compare.missing(`${name}/${index}`));
    const nested = (...ops: Op[]) => ({ if: conditions, then: [op.txn({ then: ops })] });
    expect((await etcd.txn(nested(op.get(name)))).succeeded).toBe(true);
    const tooMany = nested(op.get(name), op.put(name, 'x'));
    expect(await errorOf(loose.txn(tooMany))).toMatchObject({ reason: 'TooManyOps', outcome: 'rejected' });
    expect(await errorOf(etcd.txn(tooMany))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });
});
