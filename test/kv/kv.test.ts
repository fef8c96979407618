import { describe, expect, test } from 'vitest';
import {
  fromKey,
  keyRange,
  op,
  prefix,
  withCountOnly,
  withFirstCreate,
  withFirstKey,
  withFirstRev,
  withKeysOnly,
  withLastCreate,
  withLastKey,
  withLastRev,
  withLimit,
  withMaxCreateRev,
  withMaxModRev,
  withMinCreateRev,
  withMinModRev,
  withRev,
  withSerializable,
  withSort,
} from '../../src/index.js';
import { rangeRequest } from '../../src/kv/requests.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

describe('one key', () => {
  test('is put, read and deleted', async () => {
    const etcd = openClient();
    const key = unique();
    expect(await etcd.get(key)).toBeUndefined();
    const { header } = await etcd.put(key, 'blue');
    const kv = await etcd.get(key);
    expect(kv).toMatchObject({ createRevision: header.revision, modRevision: header.revision, version: 1n, lease: 0n });
    expect([kv?.keyText(), kv?.text()]).toEqual([key, 'blue']);
    expect(await etcd.delete(key, { prevKv: true })).toMatchObject({ deleted: 1n, prevKvs: [{ version: 1n }] });
    expect(await etcd.delete(key)).toMatchObject({ deleted: 0n, prevKvs: [] });
  });

  test('may hold any bytes, and JSON', async () => {
    const etcd = openClient();
    const all = Uint8Array.from({ length: 256 }, (_, index) => index);
    const key = new Uint8Array([...new TextEncoder().encode(unique()), ...all]);
    await etcd.put(key, all);
    const kv = await etcd.get(key);
    expect(kv?.key).toEqual(key);
    expect(kv?.value).toEqual(all);
    await etcd.put(key, JSON.stringify({ a: [1] }));
    expect((await etcd.get(key))?.json<{ a: number[] }>()).toEqual({ a: [1] });
  });

  test('as of an older revision, and the one before a put', async () => {
    const etcd = openClient();
    const key = unique();
    const { header } = await etcd.put(key, 'old');
    expect((await etcd.put(key, 'new', { prevKv: true })).prevKv?.text()).toBe('old');
    expect((await etcd.get(key, { revision: header.revision }))?.text()).toBe('old');
    expect((await etcd.get(key, { keysOnly: true }))?.value).toHaveLength(0);
  });

  test('keeps its value or its lease when a put ignores it', async () => {
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

describe('a range', () => {
  test('is limited, sorted, filtered and counted', async () => {
    const etcd = openClient();
    const name = unique();
    const revisions: bigint[] = [];
    for (const letter of ['c', 'a', 'b']) revisions.push((await etcd.put(`${name}/${letter}`, letter)).header.revision);
    await etcd.put(`${name}/c`, 'c again');
    const keys = prefix(`${name}/`);
    const letters = async (options: Parameters<typeof etcd.range>[1]): Promise<string> =>
      (await etcd.range(keys, options)).kvs.map((kv) => kv.keyText().at(-1)).join('');
    expect(await letters({})).toBe('abc');
    expect(await letters(withFirstKey())).toBe('a');
    expect(await letters(withLastKey())).toBe('c');
    expect(await letters(withFirstCreate())).toBe('c');
    expect(await letters(withLastCreate())).toBe('b');
    expect(await letters(withFirstRev())).toBe('a');
    expect(await letters(withLastRev())).toBe('c');
    expect(await letters(withSort('create', 'descend'))).toBe('bac');
    expect(await letters(withSort('value', 'descend'))).toBe('cba');
    expect(await letters(withSort('version', 'descend'))).toMatch(/^c/);
    expect(await letters({ ...withLastCreate(), ...withMaxCreateRev(revisions[1] as bigint) })).toBe('a');
    expect(await letters(withMinCreateRev(revisions[1] as bigint))).toBe('ab');
    expect(await letters(withMaxModRev(revisions[1] as bigint))).toBe('a');
    expect(await letters(withMinModRev(revisions[2] as bigint))).toBe('bc');
    expect(await letters(withRev(revisions[1] as bigint))).toBe('ac');
    expect(await letters({ ...withLimit(2), ...withSerializable() })).toBe('ab');
    expect(await etcd.range(keys, withLimit(2))).toMatchObject({ more: true, count: 3n });
    expect(await etcd.range(keys, withCountOnly())).toMatchObject({ kvs: [], count: 3n });
    expect((await etcd.range(keys, withKeysOnly())).kvs.every((kv) => kv.value.length === 0)).toBe(true);
    // S35: the count ignores the filters.
    expect((await etcd.range(keys, withMinModRev(revisions[2] as bigint))).count).toBe(3n);
    expect((await etcd.range(keyRange(`${name}/a`, `${name}/c`))).count).toBe(2n);
    expect((await etcd.range(fromKey(`${name}/b`), { limit: 2 })).kvs.map((kv) => kv.text())).toEqual(['b', 'c again']);
  });

  test('sorted by ascending key is sent without a sort (S35)', () => {
    const { sortOrder, sortTarget } = rangeRequest('a', withFirstKey());
    expect([sortOrder, sortTarget]).toEqual([undefined, undefined]);
  });

  test('larger than gRPC libraries take by default comes whole', async () => {
    const etcd = openClient();
    const name = unique();
    for (let index = 0; index < 6; index += 1) await etcd.put(`${name}/${index}`, 'x'.repeat(1_000_000));
    expect((await etcd.range(prefix(name))).kvs).toHaveLength(6);
  });
});

describe('a scan', () => {
  test('gives every key at one revision, in order, whatever is written meanwhile', async () => {
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
      seen.push(`${kv.keyText().slice(-4)}${kv.text()}`);
    }
    expect(seen).toEqual(Array.from({ length: 1_000 }, (_, index) => `${String(index).padStart(4, '0')}old`));
  });

  test('whose revision is compacted on the way ends with reason Compacted', async () => {
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

test('reads and compactions of revisions that are not there are typed errors', async () => {
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
