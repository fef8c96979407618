import { describe, expect, test } from 'vitest';
import { resolveKeys } from '../../../src/client/kv/keys.js';
import { deleteResult, rangeRequest, rangeResult } from '../../../src/client/kv/requests.js';
import {
  EtcdError,
  fromKey,
  type KeyValue,
  keyRange,
  op,
  prefix,
  type RangeOptions,
  withFirstCreate,
  withFirstKey,
  withFirstRev,
  withLastCreate,
  withLastKey,
  withLastRev,
  withMaxCreateRev,
} from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

describe('a key', () => {
  test('can be put, read and deleted', async () => {
    const etcd = openClient();
    const key = unique();
    expect(await etcd.get(key)).toBeUndefined();
    const { header } = await etcd.put(key, 'blue');
    const kv = await etcd.get(key);
    expect(kv).toMatchObject({ createRevision: header.revision, modRevision: header.revision, version: 1n, lease: 0n });
    expect([kv?.key, kv?.text()]).toEqual([key, 'blue']);
    expect(await etcd.delete(key, { prevKv: true })).toMatchObject({ deleted: 1, prevKvs: [{ version: 1n }] });
    expect(await etcd.delete(key)).toMatchObject({ deleted: 0, prevKvs: [] });
  });

  test('may consist of any bytes, and its value may be any bytes or JSON', async () => {
    const etcd = openClient();
    const all = Uint8Array.from({ length: 256 }, (_, index) => index);
    const key = new Uint8Array([...new TextEncoder().encode(unique()), ...all]);
    await etcd.put(key, all);
    const kv = await etcd.get(key);
    expect(kv?.keyBytes).toEqual(key);
    expect(kv?.value).toEqual(all);
    await etcd.put(key, JSON.stringify({ a: [1] }));
    expect((await etcd.get(key))?.json()).toEqual({ a: [1] });
  });

  test('can be read at an older revision or without its value, and a put can return its previous value', async () => {
    const etcd = openClient();
    const key = unique();
    const { header } = await etcd.put(key, 'old');
    expect((await etcd.put(key, 'new', { prevKv: true })).prevKv?.text()).toBe('old');
    expect((await etcd.get(key, { revision: header.revision }))?.text()).toBe('old');
    expect((await etcd.get(key, { keysOnly: true }))?.value).toHaveLength(0);
  });

  test('keeps its value when a put has `ignoreValue`, and its lease when a put has `ignoreLease`', async () => {
    const etcd = openClient();
    const key = unique();
    const { id } = await etcd.lease.grant({ ttl: 60 });
    await etcd.put(key, 'kept', { lease: id });
    await etcd.put(key, '', { ignoreValue: true });
    expect(await etcd.get(key)).toMatchObject({ lease: 0n, version: 2n });
    await etcd.put(key, 'leased', { lease: id });
    await etcd.put(key, 'changed', { ignoreLease: true });
    const kv = await etcd.get(key);
    expect([kv?.text(), kv?.lease]).toEqual(['changed', id]);
    expect(await errorOf(etcd.put(unique(), '', { ignoreValue: true }))).toMatchObject({
      reason: 'KeyNotFound',
      outcome: 'rejected',
    });
  });
});

describe('a KeyValue', () => {
  const stored = async (key: string | Uint8Array, value: string | Uint8Array): Promise<KeyValue> => {
    const etcd = openClient();
    await etcd.put(key, value);
    return (await etcd.get(key)) as KeyValue;
  };

  test('becomes JSON with its integers as decimal strings', async () => {
    const key = unique();
    const kv = await stored(key, 'größer');
    const { createRevision, modRevision } = kv;
    expect(JSON.parse(JSON.stringify(kv))).toEqual({
      key,
      value: 'größer',
      createRevision: `${createRevision}`,
      modRevision: `${modRevision}`,
      version: '1',
      lease: '0',
    });
  });

  test('becomes JSON with base64 for a key or a value that is not valid UTF-8', async () => {
    const key = new Uint8Array([...new TextEncoder().encode(unique()), 0xff]);
    const json = JSON.parse(JSON.stringify(await stored(key, new Uint8Array([0xc3, 0x28]))));
    expect(json).toMatchObject({ key: { base64: Buffer.from(key).toString('base64') }, value: { base64: 'wyg=' } });
  });

  test('throws InvalidJson from `json()` when its value is not JSON, and the error does not show the value', async () => {
    const kv = await stored(unique(), 's3cret');
    const error = await errorOf(() => kv.json());
    expect(error).toBeInstanceOf(EtcdError);
    expect(error).toMatchObject({ reason: 'InvalidJson', code: 'FailedPrecondition', outcome: 'not-sent' });
    expect(error.cause).toBeInstanceOf(SyntaxError);
    for (const { message } of [error, error.cause as SyntaxError]) expect(message).not.toMatch(/s3/);
  });
});

describe('`range`', () => {
  test('limits, sorts, filters and counts the keys', async () => {
    const etcd = openClient();
    const name = unique();
    const revisions: bigint[] = [];
    for (const letter of ['c', 'a', 'b']) revisions.push((await etcd.put(`${name}/${letter}`, letter)).header.revision);
    await etcd.put(`${name}/c`, 'c again');
    const keys = prefix(`${name}/`);
    const letters = async (options: RangeOptions): Promise<string> =>
      (await etcd.range(keys, options)).kvs.map((kv) => kv.key.at(-1)).join('');
    expect(await letters({})).toBe('abc');
    expect(await letters(withFirstKey())).toBe('a');
    expect(await letters(withLastKey())).toBe('c');
    expect(await letters(withFirstCreate())).toBe('c');
    expect(await letters(withLastCreate())).toBe('b');
    expect(await letters(withFirstRev())).toBe('a');
    expect(await letters(withLastRev())).toBe('c');
    expect(await letters({ sort: { target: 'createRevision', order: 'desc' } })).toBe('bac');
    expect(await letters({ sort: { target: 'value', order: 'desc' } })).toBe('cba');
    expect(await letters({ sort: { target: 'version', order: 'desc' } })).toMatch(/^c/);
    expect(await letters({ ...withLastCreate(), ...withMaxCreateRev(revisions[1] as bigint) })).toBe('a');
    expect(await letters({ minCreateRevision: revisions[1] })).toBe('ab');
    expect(await letters({ maxModRevision: revisions[1] })).toBe('a');
    expect(await letters({ minModRevision: revisions[2] })).toBe('bc');
    expect(await letters({ revision: revisions[1] })).toBe('ac');
    expect(await letters({ limit: 2, serializable: true })).toBe('ab');
    expect(await etcd.range(keys, { limit: 2 })).toMatchObject({ more: true, count: 3 });
    expect(await etcd.range(keys, { countOnly: true })).toMatchObject({ kvs: [], count: 3 });
    expect((await etcd.range(keys, { keysOnly: true })).kvs.every((kv) => kv.value.length === 0)).toBe(true);
    // Rule S35 (docs/semantics.md): etcd counts the keys before it applies the revision bounds.
    expect((await etcd.range(keys, { minModRevision: revisions[2] })).count).toBe(3);
    expect((await etcd.range(keyRange(`${name}/a`, `${name}/c`))).count).toBe(2);
    expect((await etcd.range(fromKey(`${name}/b`), { limit: 2 })).kvs.map((kv) => kv.text())).toEqual(['b', 'c again']);
  });

  // Rule S35: the client does not ask the server to sort by key in ascending order.
  test('requests no sort order for ascending keys, because etcd would sort the keys again', () => {
    const { sortOrder, sortTarget } = rangeRequest(resolveKeys('a', 'keys'), withFirstKey());
    expect([sortOrder, sortTarget]).toEqual([undefined, undefined]);
  });

  test('returns a response that is larger than the default limit of gRPC libraries', async () => {
    const etcd = openClient();
    const name = unique();
    for (let index = 0; index < 6; index += 1) await etcd.put(`${name}/${index}`, 'x'.repeat(1_000_000));
    expect((await etcd.range(prefix(name))).kvs).toHaveLength(6);
  });
});

describe('the number of keys in a response', () => {
  const count = (value: bigint) => ({ header: undefined, kvs: [], more: false, count: value });
  const deleted = (value: bigint) => ({ header: undefined, prevKvs: [], deleted: value });

  test('is converted to a number when it is a safe integer', () => {
    const greatest = BigInt(Number.MAX_SAFE_INTEGER);
    expect(rangeResult(count(greatest)).count).toBe(Number.MAX_SAFE_INTEGER);
    expect(deleteResult(deleted(greatest)).deleted).toBe(Number.MAX_SAFE_INTEGER);
  });

  test.each([2n ** 53n, 2n ** 63n - 1n, -1n])('is refused as a malformed message when it is %s', async (value) => {
    for (const read of [() => rangeResult(count(value)), () => deleteResult(deleted(value))])
      expect(await errorOf(read)).toMatchObject({ reason: 'MalformedMessage', outcome: 'unknown' });
  });
});

describe('a scan', () => {
  test('yields every key as of one revision, in order, while a client writes keys in the range', async () => {
    const etcd = openClient();
    const name = unique();
    for (let at = 0; at < 1_000; at += 100) {
      await etcd.txn({
        then: Array.from({ length: 100 }, (_, index) =>
          op.put(`${name}/${String(at + index).padStart(4, '0')}`, 'old'),
        ),
      });
    }
    const seen: string[] = [];
    for await (const kv of etcd.scan(prefix(`${name}/`))) {
      if (seen.length === 0) await etcd.txn({ then: [op.put(`${name}/0999`, 'new'), op.put(`${name}/0500x`, 'new')] });
      seen.push(`${kv.key.slice(-4)}${kv.text()}`);
    }
    expect(seen).toEqual(Array.from({ length: 1_000 }, (_, index) => `${String(index).padStart(4, '0')}old`));
  });

  test('rejects with reason Compacted when its revision is compacted before the scan ends', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const name = unique();
    for (let at = 0; at < 300; at += 100)
      await etcd.txn({ then: Array.from({ length: 100 }, (_, index) => op.put(`${name}/${at + index}`, 'x')) });
    const scan = etcd.scan(prefix(`${name}/`));
    await scan.next();
    const { header } = await etcd.put(name, 'x');
    await etcd.compact(header.revision);
    expect(
      await errorOf(async () => {
        for await (const _ of scan);
      }),
    ).toMatchObject({ reason: 'Compacted' });
  });
});

test('a read at a future revision rejects with FutureRev, and a read at a compacted revision rejects with Compacted', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const { header } = await etcd.put(unique(), 'x');
  expect(await errorOf(etcd.get('a', { revision: header.revision + 1_000n }))).toMatchObject({
    reason: 'FutureRev',
    code: 'OutOfRange',
    outcome: 'rejected',
  });
  await etcd.compact(header.revision, { physical: true });
  expect(await errorOf(etcd.get('a', { revision: header.revision - 1n }))).toMatchObject({ reason: 'Compacted' });
  expect(await errorOf(etcd.compact(header.revision))).toMatchObject({ reason: 'Compacted' });
});
