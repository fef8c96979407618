import { expect, test } from 'vitest';
import { compare, getMany, op, prefix, updateKey, withMaxCreateRev } from '../../src/index.js';
import { Election, Session } from '../../src/locks.js';
import { Barrier } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';

// Results contain revisions, versions and IDs of leases as bigints. Arguments may also be numbers, because programs read
// them from JSON, from command lines and from literals.

test('a read accepts numbers as revisions', async () => {
  const etcd = openClient();
  const name = unique();
  const { header } = await etcd.put(`${name}/a`, '1');
  await etcd.put(`${name}/a`, '2');
  const last = Number((await etcd.put(`${name}/b`, '3')).header.revision);
  const revision = Number(header.revision);
  const keysOf = async (options: object): Promise<unknown> =>
    (await etcd.range(prefix(`${name}/`), options)).kvs.map((kv) => `${kv.key.at(-1)}${kv.text()}`);
  expect((await etcd.get(`${name}/a`, { revision }))?.text()).toBe('1');
  expect(await keysOf({ revision })).toEqual(['a1']);
  expect(await keysOf({ maxCreateRevision: revision })).toEqual(['a2']);
  expect(await keysOf(withMaxCreateRev(revision))).toEqual(['a2']);
  expect(await keysOf({ minCreateRevision: revision + 1 })).toEqual(['b3']);
  expect(await keysOf({ minModRevision: last, maxModRevision: last })).toEqual(['b3']);
  // 0 means the latest revision, at which `getMany` reads all keys, although another client writes between its calls.
  const txn = async (...given: Parameters<typeof etcd.txn>) => {
    const result = await etcd.txn(...given);
    await etcd.put(`${name}/b`, 'later');
    return result;
  };
  const client = new Proxy(etcd, { get: (target, key) => (key === 'txn' ? txn : Reflect.get(target, key, target)) });
  const many = await getMany(client, [`${name}/a`, `${name}/b`], { revision: 0, keysPerTxn: 1 });
  expect(many.kvs.map((kv) => kv?.text())).toEqual(['2', '3']);
  const scanned: string[] = [];
  for await (const kv of etcd.scan(prefix(`${name}/`), { revision })) scanned.push(kv.text());
  expect(scanned).toEqual(['1']);
});

test('a transaction accepts numbers as versions, revisions and leases, also in a condition without `compare`', async () => {
  const etcd = openClient();
  const key = unique();
  const { id } = await etcd.lease.grant({ ttl: 60, id: 123_456 });
  expect(id).toBe(123_456n);
  const { header } = await etcd.put(key, '1', { lease: 123_456 });
  const revision = Number(header.revision);
  const conditions = [
    compare.version(key, '==', 1),
    compare.createRevision(key, '==', revision),
    compare.modRevision(key, '<', revision + 1),
    compare.lease(key, '==', 123_456),
    { target: 'version', keys: key, operator: '==', operand: 1 } as const,
  ];
  expect(conditions[0]).toMatchObject({ operand: 1n });
  expect(await etcd.txn({ if: conditions, then: [op.get(key, { revision })] })).toMatchObject({ succeeded: true });
  expect(await updateKey(etcd, key, '2', { modRevision: revision, lease: 0 })).toMatchObject({ succeeded: true });
  expect(await etcd.get(key)).toMatchObject({ lease: 0n });
  await etcd.lease.revoke(123_456);
});

test('watches, mirrors, cached ranges and compactions accept numbers as revisions', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const { header } = await etcd.put('w/1', '1');
  const revision = Number(header.revision);
  await etcd.put('w/2', '2');
  const seen: string[] = [];
  for await (const { key } of etcd.watch(prefix('w/'), { startRevision: revision })) if (seen.push(key) === 2) break;
  expect(seen).toEqual(['w/1', 'w/2']);
  for await (const message of etcd.mirror(prefix('w/'), { fromRevision: revision })) {
    expect(message).toMatchObject({ type: 'events', revision: header.revision + 1n });
    break;
  }
  await using cached = await etcd.cachedRange(prefix('w/'));
  await cached.waitForRevision(revision + 1);
  await etcd.compact(revision + 1);
  expect(await errorOf(etcd.get('w/1', { revision }))).toMatchObject({ reason: 'Compacted' });
});

test('elections and barriers accept a number as token and lease', async () => {
  const etcd = openClient();
  const [session, name] = [await Session.open(etcd), unique()];
  const { token } = await new Election(session, name).campaign('a');
  session.orphan();
  await using next = await Session.open(etcd, { lease: session.leaseId });
  expect((await new Election(next, name).resume(Number(token))).token).toBe(token);
  await etcd.lease.grant({ ttl: 60, id: 987_654 });
  expect(await new Barrier(etcd, unique()).hold({ lease: 987_654 })).toBe(true);
  await etcd.lease.revoke(987_654);
});

test.each([2 ** 53, 1.5, Number.NaN])('an argument for a revision cannot be the number %d', async (revision) => {
  const etcd = openClient();
  const message = `revision: got the number ${revision}; allowed: an integer from 0 to 2^63 - 1, as a bigint or as a number that is safe`;
  expect(await errorOf(etcd.get('k', { revision }))).toMatchObject({ message, reason: 'InvalidInput' });
});

test('a value that is an object is refused with the ways to store it', async () => {
  const etcd = openClient();
  const advice = 'a string or a Uint8Array; JSON.stringify or typed keys convert other values';
  expect((await errorOf(etcd.put('k', {} as never))).message).toContain(
    `value: got an object (Object); allowed: ${advice}`,
  );
  expect((await errorOf(etcd.put({} as never, ''))).message).not.toContain('JSON');
});
