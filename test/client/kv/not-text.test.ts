import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { json, type KeyValue, prefix, typed } from '../../../src/index.js';
import { reconcile } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

// The key of each result is text. A key may be any bytes, and text with U+FFFD in place of malformed bytes would name
// another key, so reading the text of such a key fails.

const encoder = new TextEncoder();
const NOT_TEXT = { reason: 'NotText', outcome: 'not-sent', message: expect.stringContaining('read keyBytes') };

/** Returns a key under `start` that is not UTF-8. */
function malformed(start: string): Uint8Array {
  return Uint8Array.from([...encoder.encode(start), 0xff]);
}

/** Something with the key of a result. */
type WithKey = Pick<KeyValue, 'key' | 'keyBytes'>;

async function resultsOf(key: string | Uint8Array, start: string): Promise<Readonly<Record<string, WithKey>>> {
  const etcd = openClient();
  await using cached = await etcd.cachedRange(prefix(start));
  const changes = cached.changes();
  const watch = etcd.watch(prefix(start), { prevKv: true });
  await watch.created();
  const events = watch[Symbol.asyncIterator]();
  await etcd.put(key, '1');
  const { value: changed } = await changes.next();
  await etcd.delete(key);
  const { value: deleted } = await changes.next();
  const [put, removed] = [(await events.next()).value, (await events.next()).value];
  await watch.close();
  return { put, removed, changed, deleted, kv: changed.kv, prevKv: removed?.prevKv } as Readonly<
    Record<string, WithKey>
  >;
}

test('the key of a result is text, and `keyBytes` contains its bytes', async () => {
  const start = unique();
  const key = `${start}/ä`;
  for (const [name, result] of Object.entries(await resultsOf(key, start))) {
    expect(result.key, name).toBe(key);
    expect([...result.keyBytes], name).toEqual([...encoder.encode(key)]);
    expect(JSON.parse(JSON.stringify(result)), name).toMatchObject({ key });
    expect(JSON.stringify(result), name).not.toContain('keyBytes');
    expect(inspect(result), name).toContain(`key: '${key}'`);
  }
});

test('reading the key of a result fails with NotText when the key is not UTF-8, and everything else still works', async () => {
  const start = unique();
  const key = malformed(start);
  for (const [name, result] of Object.entries(await resultsOf(key, start))) {
    expect(await errorOf(() => Promise.resolve().then(() => result.key)), name).toMatchObject(NOT_TEXT);
    expect([...result.keyBytes], name).toEqual([...key]);
    const base64 = Buffer.from(key).toString('base64');
    expect(JSON.parse(JSON.stringify(result)), name).toMatchObject({ key: { base64 } });
    expect(inspect(result), name).toContain('key: ');
    expect(String(result), name).toBeTypeOf('string');
  }
});

test('the name of a typed key fails with NotText when the key is not UTF-8', async () => {
  const etcd = openClient();
  const start = `${unique()}/`;
  const numbers = typed(etcd, start, json(Number));
  await etcd.put(malformed(start), '5');
  await numbers.put('ä', 6);
  const [good, bad] = await numbers.range();
  expect(good).toMatchObject({ name: 'ä', value: 6 });
  expect(() => bad?.name).toThrow(expect.objectContaining(NOT_TEXT));
  expect(bad?.value).toBe(5);
  expect(JSON.parse(JSON.stringify([good, bad]))).toMatchObject([
    { name: 'ä' },
    { name: { base64: expect.any(String) } },
  ]);
});

test('the keys of a lease are text, and reading them fails with NotText when one of them is not UTF-8', async () => {
  const etcd = openClient();
  const { id: lease } = await etcd.lease.grant({ ttl: 60 });
  const name = unique();
  await etcd.put(name, '', { lease });
  expect((await etcd.lease.timeToLive(lease, { keys: true })).keys).toEqual([name]);
  await etcd.put(malformed(name), '', { lease });
  const left = await etcd.lease.timeToLive(lease, { keys: true });
  expect(() => left.keys).toThrow(expect.objectContaining(NOT_TEXT));
  expect(left.keyBytes).toHaveLength(2);
  expect(JSON.parse(JSON.stringify(left)).keys).toEqual(expect.arrayContaining([name]));
  await etcd.lease.revoke(lease);
});

test('`reconcile` runs its handler for a key that is not UTF-8, and reports what reading the text throws', async () => {
  const etcd = openClient();
  const start = unique();
  const [bad, stop] = [malformed(start), new AbortController()];
  await etcd.put(bad, '1');
  const seen: unknown[] = [];
  await reconcile(
    etcd,
    prefix(start),
    {
      signal: stop.signal,
      onRun: ({ error, keyBytes }) => {
        seen.push(error, [...keyBytes]);
        stop.abort();
      },
    },
    ({ key }) => void seen.push(key),
  );
  expect(seen).toEqual([expect.objectContaining(NOT_TEXT), [...bad]]);
});
