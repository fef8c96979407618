import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { EtcdError } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';

// These tests check what programs print with `console.log`, with `JSON.stringify` and in template literals.

test('a KeyValue prints its key and value as text', async () => {
  const etcd = openClient();
  const key = unique();
  const { header } = await etcd.put(key, 'blue');
  const kv = await etcd.get(key);
  const revision = header.revision;
  expect(inspect(kv, { breakLength: 200 })).toBe(
    `KeyValue { key: '${key}', value: 'blue', createRevision: ${revision}n, modRevision: ${revision}n, version: 1n, lease: 0n }`,
  );
  expect(`${kv}`).toBe(`${key} = blue`);
  expect(JSON.parse(JSON.stringify(kv))).toMatchObject({ key, value: 'blue', modRevision: `${revision}` });
});

test('a KeyValue prints bytes that are not text as bytes', async () => {
  const etcd = openClient();
  const key = unique();
  await etcd.put(key, Uint8Array.of(0xff, 1));
  const kv = await etcd.get(key);
  expect(inspect(kv)).toContain('value: Uint8Array(2) [ 255, 1 ]');
  expect(JSON.parse(JSON.stringify(kv))).toMatchObject({ key, value: { base64: '/wE=' } });
});

test('`inspect` prints `[KeyValue]` or `[Object]` for a KeyValue below the depth limit', async () => {
  const etcd = openClient();
  const key = unique();
  await etcd.put(key, 'x');
  const kv = await etcd.get(key);
  expect(inspect({ a: { b: { c: { kv } } } })).toContain('[Object]');
  expect(inspect({ a: { b: { kv } } }, { depth: 2 })).toContain('KeyValue');
  expect(inspect({ kv }, { depth: 0 })).toBe('{ kv: [KeyValue] }');
});

test('`JSON.stringify` writes every result, with its bigints as decimal strings', async () => {
  const etcd = openClient();
  const key = unique();
  const put = await etcd.put(key, 'x');
  const revision = `${put.header.revision}`;
  expect(JSON.parse(JSON.stringify(put))).toMatchObject({ header: { revision } });
  expect(JSON.parse(JSON.stringify(await etcd.range(key)))).toMatchObject({
    header: { revision: expect.any(String) },
    kvs: [{ key, value: 'x', modRevision: revision }],
    count: 1,
  });
  const lease = await etcd.lease.grant({ ttl: 60 });
  await etcd.put(key, 'x', { lease });
  expect(JSON.parse(JSON.stringify(lease))).toMatchObject({ id: `${lease.id}`, ttl: 60 });
  expect(JSON.parse(JSON.stringify(await etcd.lease.timeToLive(lease, { keys: true })))).toMatchObject({ keys: [key] });
  expect(JSON.parse(JSON.stringify(await etcd.cluster.memberList()))).toMatchObject({
    members: [{ id: expect.any(String) }],
  });
  expect(inspect(put)).toMatch(/^Result \{\s+header: \{/);
  await etcd.lease.revoke(lease);
});

test('a Client prints its endpoints, those that are unavailable, and no credentials', async () => {
  const auth = { username: 'root', password: 'hunter2', allowPlaintext: true };
  const etcd = openClient({ endpoints: ['http://127.0.0.1:1'], auth });
  expect(inspect(etcd)).toBe("Client { endpoints: [ 'http://127.0.0.1:1' ], unavailable: [] }");
  await etcd.get('k', { timeoutMs: 100 }).catch(() => {});
  expect(JSON.stringify(etcd)).toBe('{"endpoints":["http://127.0.0.1:1"],"unavailable":["http://127.0.0.1:1"]}');
});

test('a namespace does not print its prefix, because keys may be secret', () => {
  const namespace = openClient().namespace('app/');
  expect(inspect(namespace)).toBe('Keyspace {}');
  expect(JSON.stringify(namespace)).toBe('{}');
});

test('a Session and a Held print what identifies them, and whether they are valid', async () => {
  const etcd = openClient();
  const session = await Session.open(etcd);
  const name = unique();
  const held = await new Mutex(session, name).lock();
  expect(inspect(session)).toBe(`Session { leaseId: ${session.leaseId}n, valid: true }`);
  expect(JSON.parse(JSON.stringify({ session }))).toEqual({ session: { leaseId: `${session.leaseId}`, valid: true } });
  expect(inspect(held, { breakLength: 200 })).toBe(
    `Held { name: '${name}', key: '${held.key}', token: ${held.token}n, valid: true }`,
  );
  await held.release();
  expect(JSON.parse(JSON.stringify(held))).toEqual({ name, key: held.key, token: `${held.token}`, valid: false });
  await session.close();
});

test('the method for `util.inspect` does not need its last argument, which some libraries for assertions leave out', async () => {
  const session = await Session.open(openClient());
  const method = Reflect.get(session, Symbol.for('nodejs.util.inspect.custom')) as (depth: number) => string;
  expect(method.call(session, 2)).toBe(`Session {"leaseId":"${session.leaseId}","valid":true}`);
});

test('`JSON.stringify` writes the results of a held lock', async () => {
  const held = await new Mutex(await Session.open(openClient()), unique()).lock();
  expect(JSON.parse(JSON.stringify(await held.txn({})))).toMatchObject({ header: { revision: expect.any(String) } });
});

test('`KeyValue.json` passes the parsed value to a parser, whose error becomes the cause', async () => {
  const etcd = openClient();
  const key = unique();
  await etcd.put(key, '{"size":3}');
  const kv = await etcd.get(key);
  const sizeOf = (json: unknown): number => (json as { size: number }).size;
  expect(kv?.json()).toEqual({ size: 3 });
  expect(kv?.json(sizeOf)).toBe(3);
  const cause = new TypeError('not a list');
  const parse = (): never => {
    throw cause;
  };
  expect(() => kv?.json(parse)).toThrow(EtcdError);
  expect(() => kv?.json(parse)).toThrow(
    expect.objectContaining({ reason: 'InvalidJson', cause, message: expect.not.stringContaining('size') }),
  );
});
