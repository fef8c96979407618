import { describe, expect, onTestFinished, test } from 'vitest';
import { Client, type Raw, rawEnums } from '../../../src/index.js';
import { MemoryEtcd, type MemoryEtcdOptions, memory } from '../../../src/testing/index.js';
import { errorOf } from '../../support/errors.js';

// etcd 3.5.33, 3.6.14 and 3.7.1 showed the behavior that these tests expect of a `MemoryEtcd`.

const { SortOrder, SortTarget, CompareResult, CompareTarget } = rawEnums;
const VERSIONS = ['3.5', '3.6', '3.7'] as const;
const NO_LEASE = 404n;

type Kv = Raw['kv'];
type Operation = NonNullable<Parameters<Kv['txn']>[0]['success']>[number];

interface Server {
  readonly server: MemoryEtcd;
  readonly client: Client;
  readonly kv: Kv;
}

function open(options: MemoryEtcdOptions = {}): Server {
  const server = new MemoryEtcd(options);
  const client = new Client({ transport: memory(server), maxRequestBytes: 100_000_000 });
  onTestFinished(() => client.close());
  return { server, client, kv: client.raw.kv };
}

function utf8(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function keysIn(kvs: readonly { readonly key: Uint8Array }[]): string[] {
  return kvs.map(({ key }) => textOf(key));
}

async function putAll(kv: Kv, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await kv.put({ key: utf8(key), value: utf8(key) });
}

async function reasonOf(call: Promise<unknown>): Promise<string> {
  const error = await errorOf(call);
  return (error as { readonly reason: string }).reason;
}

const EMPTY = utf8('');
const ALL_KEYS = { key: utf8('\0'), rangeEnd: utf8('\0') };

function range(key: string, rangeEnd = ''): Operation {
  return { request: { case: 'requestRange', value: { key: utf8(key), rangeEnd: utf8(rangeEnd) } } };
}

function rangeAt(revision: bigint): Operation {
  return { request: { case: 'requestRange', value: { key: utf8('a'), revision } } };
}

function put(key: string, value = ''): Operation {
  return { request: { case: 'requestPut', value: { key: utf8(key), value: utf8(value) } } };
}

function remove(key: string, rangeEnd = ''): Operation {
  return { request: { case: 'requestDeleteRange', value: { key: utf8(key), rangeEnd: utf8(rangeEnd) } } };
}

function nested(success: readonly Operation[], failure: readonly Operation[] = []): Operation {
  return { request: { case: 'requestTxn', value: { success, failure } } };
}

describe("MemoryEtcd's Range", () => {
  test('returns the newest revision in the header when it reads an old revision', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'b', 'a');
    const response = await kv.range({ ...ALL_KEYS, revision: 2n });
    expect(response.header?.revision).toBe(4n);
    expect(keysIn(response.kvs)).toEqual(['a']);
    expect(response.kvs[0]).toMatchObject({ version: 1n, modRevision: 2n });
  });

  test('counts all keys of the range, and reports that there are more, when it has a limit', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'b', 'c');
    expect(await kv.range({ ...ALL_KEYS, limit: 2n })).toMatchObject({ more: true, count: 3n, kvs: { length: 2 } });
    expect(await kv.range({ ...ALL_KEYS, limit: 3n })).toMatchObject({ more: false, count: 3n, kvs: { length: 3 } });
    expect(await kv.range({ ...ALL_KEYS, limit: -1n })).toMatchObject({ more: false, count: 3n, kvs: { length: 3 } });
    expect(await kv.range({ ...ALL_KEYS, countOnly: true, limit: 1n })).toMatchObject({
      more: false,
      count: 3n,
      kvs: [],
    });
  });

  test('filters by revisions before it applies the limit, and counts without the filters', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'b', 'c', 'b');
    const response = await kv.range({ ...ALL_KEYS, minModRevision: 3n, maxCreateRevision: 3n, limit: 1n });
    expect(keysIn(response.kvs)).toEqual(['b']);
    expect(response).toMatchObject({ more: false, count: 3n });
    const created = await kv.range({ ...ALL_KEYS, minCreateRevision: 3n, maxModRevision: 4n });
    expect(keysIn(created.kvs)).toEqual(['c']);
  });

  test.for([
    [SortTarget.KEY, 'abc'],
    [SortTarget.VERSION, 'acb'],
    [SortTarget.CREATE, 'bac'],
    [SortTarget.MOD, 'acb'],
    [SortTarget.VALUE, 'cba'],
  ] as const)('sorts by target %d in both orders', async ([sortTarget, expected]) => {
    const { kv } = open();
    await kv.put({ key: utf8('b'), value: utf8('1') });
    await kv.put({ key: utf8('a'), value: utf8('3') });
    await kv.put({ key: utf8('c'), value: utf8('1') });
    await kv.put({ key: utf8('b'), value: utf8('2') });
    const ascending = await kv.range({ ...ALL_KEYS, sortTarget, sortOrder: SortOrder.ASCEND });
    expect(keysIn(ascending.kvs).join('')).toBe(expected);
    const descending = await kv.range({ ...ALL_KEYS, sortTarget, sortOrder: SortOrder.DESCEND, limit: 2n });
    const reversed = sortTarget === SortTarget.VERSION ? 'bac' : [...expected].reverse().join('');
    expect(keysIn(descending.kvs).join('')).toBe(reversed.slice(0, 2));
    expect(descending).toMatchObject({ more: true, count: 3n });
  });

  test('sorts only the first keys when it has a limit and no order', async () => {
    const { kv } = open();
    await putAll(kv, 'd', 'c', 'b', 'a');
    const { kvs } = await kv.range({ ...ALL_KEYS, sortTarget: SortTarget.CREATE, limit: 2n });
    expect(keysIn(kvs)).toEqual(['c', 'b']);
  });

  test.for(VERSIONS)(
    'with `keysOnly` returns leases before etcd 3.7, and in etcd 3.7 only when it sorts by value (%s)',
    async (version) => {
      const { client, kv } = open({ version });
      await client.raw.lease.leaseGrant({ id: 7n, ttl: 60n });
      await kv.put({ key: utf8('a'), value: utf8('x'), lease: 7n });
      const plain = await kv.range({ ...ALL_KEYS, keysOnly: true });
      expect(plain.kvs).toMatchObject([{ value: EMPTY, version: 1n, lease: version === '3.7' ? 0n : 7n }]);
      const byValue = await kv.range({ ...ALL_KEYS, keysOnly: true, sortTarget: SortTarget.VALUE });
      expect(byValue.kvs).toMatchObject([{ value: EMPTY, version: 1n, lease: 7n }]);
    },
  );

  test('treats a negative revision as the newest revision', async () => {
    const { kv } = open();
    await putAll(kv, 'a');
    expect((await kv.range({ ...ALL_KEYS, revision: -5n })).count).toBe(1n);
  });

  test('returns no key when the range ends before it starts', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'b');
    expect((await kv.range({ key: utf8('b'), rangeEnd: utf8('a') })).count).toBe(0n);
  });

  test('rejects an empty key, an unknown order, and a revision that does not exist', async () => {
    const { kv } = open();
    const unknown = 9 as never;
    expect(await reasonOf(kv.range({ sortOrder: unknown }))).toBe('EmptyKey');
    expect(await reasonOf(kv.range({ key: utf8('a'), sortOrder: unknown, revision: 9n }))).toBe('InvalidSortOption');
    expect(await reasonOf(kv.range({ key: utf8('a'), sortTarget: unknown }))).toBe('InvalidSortOption');
    expect(await reasonOf(kv.range({ key: utf8('a'), revision: 2n }))).toBe('FutureRev');
  });
});

describe("MemoryEtcd's Put", () => {
  test('keeps the value with `ignoreValue`, and the lease with `ignoreLease`', async () => {
    const { client, kv } = open();
    await client.raw.lease.leaseGrant({ id: 7n, ttl: 60n });
    await kv.put({ key: utf8('a'), value: utf8('x'), lease: 7n });
    await kv.put({ key: utf8('a'), value: utf8('y'), ignoreLease: true });
    const { prevKv } = await kv.put({ key: utf8('a'), ignoreValue: true, prevKv: true });
    expect(prevKv).toMatchObject({ value: utf8('y'), lease: 7n, version: 2n });
    const { kvs } = await kv.range({ key: utf8('a') });
    expect(kvs).toMatchObject([{ value: utf8('y'), lease: 0n, version: 3n }]);
  });

  test('checks the fields of the request before the lease, and the lease before the key', async () => {
    const { kv } = open();
    const wrong = { ignoreValue: true, value: utf8('x'), ignoreLease: true, lease: NO_LEASE };
    expect(await reasonOf(kv.put(wrong))).toBe('EmptyKey');
    expect(await reasonOf(kv.put({ ...wrong, key: utf8('a') }))).toBe('ValueProvided');
    expect(await reasonOf(kv.put({ ...wrong, key: utf8('a'), value: EMPTY }))).toBe('LeaseProvided');
    expect(await reasonOf(kv.put({ key: utf8('a'), ignoreValue: true, lease: NO_LEASE }))).toBe('LeaseNotFound');
    expect(await reasonOf(kv.put({ key: utf8('a'), ignoreValue: true }))).toBe('KeyNotFound');
  });

  test.for(VERSIONS)('in a transaction looks for the lease first only in etcd 3.7 (%s)', async (version) => {
    const { kv } = open({ version });
    const value = { key: utf8('a'), ignoreValue: true, lease: NO_LEASE };
    const success: Operation[] = [{ request: { case: 'requestPut', value } }];
    expect(await reasonOf(kv.txn({ success }))).toBe(version === '3.7' ? 'LeaseNotFound' : 'KeyNotFound');
  });
});

describe('a MemoryEtcd call without permission', () => {
  test('is refused after the fields and the size are checked, and before leases and keys are looked up', async () => {
    const { server, client, kv: withoutToken } = open({ maxRequestBytes: 20_000 });
    const { auth } = client.raw;
    for (const name of ['root', 'user']) await auth.userAdd({ name, password: 'p' });
    await auth.userGrantRole({ user: 'root', role: 'root' });
    await auth.authEnable({});
    const user = new Client({ transport: memory(server), auth: { username: 'user', password: 'p' } });
    onTestFinished(() => user.close());
    const { kv } = user.raw;
    expect(await reasonOf(kv.put({}))).toBe('EmptyKey');
    expect(await reasonOf(kv.put({ key: new Uint8Array(30_000) }))).toBe('RequestTooLarge');
    expect(await reasonOf(kv.put({ key: utf8('a'), lease: NO_LEASE }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.put({ key: utf8('a'), ignoreValue: true }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.range({ key: utf8('a'), revision: 99n }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.deleteRange({ key: utf8('a') }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.txn({ failure: [rangeAt(99n)] }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.txn({ failure: [nested([put('a')])] }))).toBe('PermissionDenied');
    expect(await reasonOf(kv.compact({ revision: 99n }))).toBe('PermissionDenied');
    expect(await reasonOf(withoutToken.put({ key: utf8('a') }))).toBe('UserEmpty');
  });
});

describe("MemoryEtcd's DeleteRange", () => {
  test('does not change the revision when no key exists', async () => {
    const { kv } = open();
    await putAll(kv, 'a');
    expect(await kv.deleteRange({ key: utf8('b') })).toMatchObject({ header: { revision: 2n }, deleted: 0n });
    const { header, deleted, prevKvs } = await kv.deleteRange({ ...ALL_KEYS, prevKv: true });
    expect([header?.revision, deleted, keysIn(prevKvs)]).toEqual([3n, 1n, ['a']]);
    expect(await reasonOf(kv.deleteRange({}))).toBe('EmptyKey');
  });
});

describe("MemoryEtcd's Txn", () => {
  test('reads its own writes, and fills only the revisions of inner headers', async () => {
    const { kv } = open();
    await putAll(kv, 'a');
    const success = [range('\0', '\0'), put('b'), range('\0', '\0'), remove('a'), nested([range('\0', '\0')])];
    const { header, succeeded, responses } = await kv.txn({ success });
    expect(header?.revision).toBe(3n);
    expect(succeeded).toBe(true);
    const inner = { clusterId: 0n, memberId: 0n, raftTerm: 0n };
    expect(responses.map(({ response }) => response?.value.header)).toEqual([
      { ...inner, revision: 2n },
      { ...inner, revision: 3n },
      { ...inner, revision: 3n },
      { ...inner, revision: 3n },
      { ...inner, revision: 0n },
    ]);
    expect(responses[2]?.response?.value).toMatchObject({ count: 2n });
    const last = responses[4]?.response;
    expect(last?.case === 'responseTxn' && last.value.responses[0]?.response?.value).toMatchObject({ count: 1n });
  });

  test('evaluates the conditions of nested transactions before it changes a key', async () => {
    const { kv } = open();
    const isNew = {
      key: utf8('a'),
      target: CompareTarget.VERSION,
      targetUnion: { case: 'version', value: 0n },
    } as const;
    const inner: Operation = { request: { case: 'requestTxn', value: { compare: [isNew], success: [put('b')] } } };
    const { responses } = await kv.txn({ success: [put('a'), inner] });
    expect(responses[1]?.response?.value).toMatchObject({ succeeded: true });
  });

  test('keeps the revision when it changes nothing', async () => {
    const { kv } = open();
    await putAll(kv, 'a');
    expect((await kv.txn({})).header?.revision).toBe(2n);
    expect((await kv.txn({ success: [remove('b'), range('a')] })).header?.revision).toBe(2n);
  });

  test.for([
    [CompareResult.EQUAL, '2', [true, false, false]],
    [CompareResult.NOT_EQUAL, '2', [false, true, true]],
    [CompareResult.GREATER, '2', [false, true, false]],
    [CompareResult.LESS, '2', [false, false, true]],
  ] as const)('compares values with relation %d', async ([result, operand, expected]) => {
    const { kv } = open();
    const targetUnion = { case: 'value', value: utf8(operand) } as const;
    const succeeds = async (value: string): Promise<boolean> => {
      await kv.put({ key: utf8('a'), value: utf8(value) });
      const compare = [{ key: utf8('a'), result, target: CompareTarget.VALUE, targetUnion }];
      return (await kv.txn({ compare })).succeeded;
    };
    expect([await succeeds('2'), await succeeds('20'), await succeeds('10')]).toEqual(expected);
  });

  test('compares each property, on each key of a range', async () => {
    const { client, kv } = open();
    await client.raw.lease.leaseGrant({ id: 7n, ttl: 60n });
    await kv.put({ key: utf8('a'), lease: 7n });
    await kv.put({ key: utf8('b'), lease: 7n });
    await kv.put({ key: utf8('b'), lease: 7n });
    const holds = async (
      key: string,
      target: number,
      targetUnion: { case: 'version' | 'createRevision' | 'modRevision' | 'lease'; value: bigint } | undefined,
      rangeEnd = '',
    ): Promise<boolean> => {
      const condition = { key: utf8(key), rangeEnd: utf8(rangeEnd), target: target as never, targetUnion };
      return (await kv.txn({ compare: [condition] })).succeeded;
    };
    expect(await holds('b', CompareTarget.VERSION, { case: 'version', value: 2n })).toBe(true);
    expect(await holds('b', CompareTarget.CREATE, { case: 'createRevision', value: 3n })).toBe(true);
    expect(await holds('b', CompareTarget.MOD, { case: 'modRevision', value: 4n })).toBe(true);
    expect(await holds('a', CompareTarget.LEASE, { case: 'lease', value: 7n }, '\0')).toBe(true);
    expect(await holds('a', CompareTarget.VERSION, { case: 'version', value: 1n }, 'b')).toBe(true);
    expect(await holds('a', CompareTarget.VERSION, { case: 'version', value: 1n }, '\0')).toBe(false);
    // A key that does not exist has version 0 and no value. An operand of the wrong type counts as 0.
    expect(await holds('x', CompareTarget.VERSION, { case: 'version', value: 0n }, 'z')).toBe(true);
    expect(await holds('x', CompareTarget.MOD, { case: 'version', value: 9n })).toBe(true);
    expect(await holds('x', CompareTarget.VALUE, undefined)).toBe(false);
    // etcd treats a comparison of an unknown property as true.
    expect(await holds('b', 9, undefined)).toBe(true);
  });

  test('allows a nested transaction as many operations as the longest list of the outer transaction leaves of the maximum', async () => {
    const { kv } = open({ maxTxnOps: 4 });
    const three = [range('a'), range('b')];
    expect(await reasonOf(kv.txn({ failure: Array(5).fill(range('a')) }))).toBe('TooManyOps');
    expect(await reasonOf(kv.txn({ success: [...three, nested([range('a'), range('b')])] }))).toBe('TooManyOps');
    expect((await kv.txn({ success: [...three, nested([range('a')])] })).succeeded).toBe(true);
    expect(await reasonOf(kv.txn({ success: [nested([]), nested([]), nested([]), nested([range('')])] }))).toBe(
      'TooManyOps',
    );
  });

  test('checks the operations of both branches', async () => {
    const { kv } = open();
    expect(await reasonOf(kv.txn({ compare: [{}], success: [put('')] }))).toBe('EmptyKey');
    expect(await reasonOf(kv.txn({ failure: [{ request: undefined }] }))).toBe('KeyNotFound');
    expect(await reasonOf(kv.txn({ failure: [put('a'), put('a')] }))).toBe('DuplicateKey');
  });

  test.for<[string, Operation[], boolean]>([
    ['two puts of a key', [put('a'), put('a')], true],
    ['a put and a deletion of its key', [put('a'), remove('a')], true],
    ['a put and a deletion of a range with its key', [remove('a', 'c'), put('b')], true],
    ['a put and a deletion of a range that ends at its key', [remove('a', 'b'), put('b')], false],
    ['a put and a deletion of all keys from its key on', [remove('a', '\0'), put('b')], false],
    ['a put and a nested put of its key', [nested([], [put('a')]), put('a')], true],
    ['a put and a nested deletion of its key', [nested([remove('a')]), put('a')], true],
    ['puts of a key in both branches of a nested transaction', [nested([put('a')], [put('a')])], false],
    ['a put and a deletion in different branches', [nested([put('a')], [remove('a')])], false],
    ['puts of a key in two nested transactions', [nested([put('a')]), nested([], [put('a')])], true],
    ['a nested put after a nested deletion', [nested([remove('a')]), nested([put('a')])], true],
    ['a nested deletion after a nested put', [nested([put('a')]), nested([remove('a')])], false],
    ['a nested put, and a deletion in the outer list', [nested([put('a')]), remove('a')], true],
    ['two deletions of a key', [remove('a'), remove('a'), nested([remove('a')])], false],
  ])('with %s is accepted or refused as by etcd', async ([, success, isRefused]) => {
    const { kv } = open();
    const outcome = kv.txn({ success });
    if (isRefused) expect(await reasonOf(outcome)).toBe('DuplicateKey');
    else expect((await outcome).succeeded).toBe(true);
  });

  test('applies changes of the same key in their order when the check for duplicate keys misses them', async () => {
    const { kv } = open();
    await putAll(kv, 'b');
    const { responses } = await kv.txn({ success: [put('c'), remove('a', '\0'), nested([put('d')])] });
    expect(responses[1]?.response?.value).toMatchObject({ deleted: 2n });
    const { kvs } = await kv.range(ALL_KEYS);
    expect(kvs).toMatchObject([{ key: utf8('d'), version: 1n, createRevision: 3n }]);
  });

  test('checks revisions against the state before the transaction, and refuses negative revisions after a compaction', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'a');
    expect(await reasonOf(kv.txn({ success: [put('a'), rangeAt(4n)] }))).toBe('FutureRev');
    expect((await kv.txn({ success: [rangeAt(-1n)] })).succeeded).toBe(true);
    expect(await reasonOf(kv.txn({ success: [rangeAt(-2n)] }))).toBe('Compacted');
    await kv.compact({ revision: 3n });
    expect(await reasonOf(kv.txn({ success: [put('a'), rangeAt(2n)] }))).toBe('Compacted');
    expect(await reasonOf(kv.txn({ success: [rangeAt(-1n)] }))).toBe('Compacted');
    expect((await kv.range({ key: utf8('a') })).kvs).toMatchObject([{ version: 2n }]);
  });

  test.for(VERSIONS)('reports the first failing operation, in etcd 3.5 the first failing put (%s)', async (version) => {
    const { kv } = open({ version });
    const value = { key: utf8('a'), lease: NO_LEASE };
    const success: Operation[] = [rangeAt(9n), nested([{ request: { case: 'requestPut', value } }])];
    expect(await reasonOf(kv.txn({ success }))).toBe(version === '3.5' ? 'LeaseNotFound' : 'FutureRev');
  });
});

describe("MemoryEtcd's Compact", () => {
  test('makes older revisions unreadable, and leaves the compacted revision readable', async () => {
    const { kv } = open();
    await putAll(kv, 'a', 'b', 'a');
    expect((await kv.compact({ revision: 3n, physical: true })).header?.revision).toBe(4n);
    expect(await reasonOf(kv.range({ key: utf8('a'), revision: 2n }))).toBe('Compacted');
    expect((await kv.range({ key: utf8('a'), revision: 3n })).kvs).toMatchObject([{ version: 1n }]);
  });

  test('accepts each revision from 0 to the newest revision once', async () => {
    const { kv } = open();
    await putAll(kv, 'a');
    expect(await reasonOf(kv.compact({ revision: -1n }))).toBe('Compacted');
    await kv.compact({});
    expect(await reasonOf(kv.compact({}))).toBe('Compacted');
    expect(await reasonOf(kv.compact({ revision: 3n }))).toBe('FutureRev');
    await kv.compact({ revision: 2n });
    expect(await reasonOf(kv.compact({ revision: 1n }))).toBe('Compacted');
  });
});

describe("MemoryEtcd's RangeStream", () => {
  const digits = (index: number): string => String(index).padStart(3, '0');

  async function chunksOf(kv: Kv, request: Parameters<Kv['rangeStream']>[0]): Promise<unknown[]> {
    const chunks: unknown[] = [];
    for await (const { rangeResponse } of kv.rangeStream(request)) {
      const { kvs = [], header, more, count } = rangeResponse ?? {};
      chunks.push(header === undefined ? kvs.length : [kvs.length, header.revision, more, count]);
    }
    return chunks;
  }

  test('doubles the number of keys in each response, and ends with the header and the count', async () => {
    const { kv } = open({ version: '3.7' });
    await putAll(kv, ...Array.from({ length: 100 }, (_, index) => digits(index)));
    expect(await chunksOf(kv, ALL_KEYS)).toEqual([10, 20, 40, [30, 101n, false, 100n]]);
    expect(await chunksOf(kv, { ...ALL_KEYS, limit: 35n })).toEqual([10, 20, [5, 101n, true, 100n]]);
    expect(await chunksOf(kv, { ...ALL_KEYS, limit: 30n })).toEqual([10, [20, 101n, true, 100n]]);
    expect(await chunksOf(kv, { ...ALL_KEYS, revision: 6n })).toEqual([[5, 101n, false, 5n]]);
    expect(await chunksOf(kv, { ...ALL_KEYS, countOnly: true, limit: 3n })).toEqual([[0, 101n, false, 100n]]);
  });

  test('sends fewer keys in the next response when a response is too large', async () => {
    const { kv } = open({ version: '3.7', maxRequestBytes: 2_000 });
    for (let index = 0; index < 30; index += 1) await kv.put({ key: utf8(digits(index)), value: new Uint8Array(900) });
    expect(await chunksOf(kv, ALL_KEYS)).toEqual([10, 5, 2, 2, 2, 2, 2, 2, 2, [1, 31n, false, 30n]]);
  });

  test('rejects requests that it cannot answer in key order', async () => {
    const { kv } = open({ version: '3.7' });
    const rejected = async (request: Parameters<Kv['rangeStream']>[0]): Promise<unknown> =>
      errorOf(chunksOf(kv, request));
    expect(await rejected({})).toMatchObject({ reason: 'EmptyKey' });
    expect(await rejected({ ...ALL_KEYS, revision: 5n })).toMatchObject({ reason: 'FutureRev' });
    expect(await rejected({ ...ALL_KEYS, sortOrder: SortOrder.DESCEND, minModRevision: 1n })).toMatchObject({
      code: 'Unimplemented',
      problem: 'RangeStream does not support custom sort orders',
    });
    expect(await rejected({ ...ALL_KEYS, minModRevision: 1n })).toMatchObject({
      code: 'Unimplemented',
      problem: 'RangeStream does not support revision filters',
    });
  });

  test.for(['3.5', '3.6'] as const)('does not exist in etcd %s', async (version) => {
    const { kv } = open({ version });
    expect(await errorOf(chunksOf(kv, ALL_KEYS))).toMatchObject({
      code: 'Unimplemented',
      problem: 'unknown method RangeStream for service etcdserverpb.KV',
    });
  });
});

describe('a request to a MemoryEtcd that is too large', () => {
  test('is refused by the service, or by gRPC if it exceeds the limit by more than 512 KiB', async () => {
    const { kv } = open({ maxRequestBytes: 20_000 });
    await kv.put({ key: utf8('a'), value: new Uint8Array(19_960) });
    expect(await reasonOf(kv.put({ key: utf8('a'), value: new Uint8Array(19_985) }))).toBe('RequestTooLarge');
    // The service checks the fields before the size. gRPC refuses an even larger request before these checks.
    expect(await reasonOf(kv.put({ value: new Uint8Array(544_284) }))).toBe('EmptyKey');
    expect(await errorOf(kv.put({ value: new Uint8Array(544_285) }))).toMatchObject({
      code: 'ResourceExhausted',
      problem: 'grpc: received message larger than max (544289 vs. 544288)',
    });
    expect((await kv.range({ key: utf8('b') })).header?.revision).toBe(2n);
  });

  test('is not refused when it only reads', async () => {
    const { kv } = open({ maxRequestBytes: 20_000 });
    expect((await kv.range({ key: new Uint8Array(30_000) })).count).toBe(0n);
    const key = new Uint8Array(30_000);
    expect((await kv.txn({ success: [{ request: { case: 'requestRange', value: { key } } }] })).succeeded).toBe(true);
    expect(await reasonOf(kv.deleteRange({ key }))).toBe('RequestTooLarge');
  });
});

describe('a put that exceeds the quota of a MemoryEtcd', () => {
  test('raises the alarm, so that the server refuses all puts, but no reads and deletions', async () => {
    const { kv } = open({ quotaBytes: 200_000 });
    await kv.put({ key: utf8('a'), value: new Uint8Array(100_000) });
    expect(await reasonOf(kv.put({ value: new Uint8Array(100_000) }))).toBe('NoSpace');
    expect(await reasonOf(kv.put({ key: utf8('b') }))).toBe('NoSpace');
    expect(await reasonOf(kv.txn({ failure: [nested([put('b')])] }))).toBe('NoSpace');
    // The server checks the fields of a request before the alarm refuses the request.
    expect(await reasonOf(kv.put({}))).toBe('EmptyKey');
    expect((await kv.txn({ success: [remove('a')] })).header?.revision).toBe(3n);
    expect((await kv.deleteRange({ key: utf8('a') })).deleted).toBe(0n);
    expect((await kv.compact({ revision: 3n })).header?.revision).toBe(3n);
  });
});
