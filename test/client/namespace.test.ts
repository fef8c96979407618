import { describe, expect, test } from 'vitest';
import {
  type Client,
  compare,
  type EtcdError,
  fromKey,
  type Keyspace,
  keyRange,
  op,
  prefix,
  type WatchBatch,
} from '../../src/index.js';
import { Mutex, Session, withLock } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';
import { valueText } from '../support/watch-events.js';

test('a namespace keeps its prefix when the caller overwrites the Buffer that contained the prefix', async () => {
  const [etcd, name] = [openClient(), `${unique('namespace')}/`];
  const bytes = Buffer.from(name);
  const namespace = etcd.namespace(bytes);
  bytes.fill(0);
  await namespace.put('k', 'x');
  expect((await etcd.get(`${name}k`))?.text()).toBe('x');
});

describe('a namespace', () => {
  test('adds the prefix to the keys of requests, and removes it from the keys of responses', async () => {
    const { etcd, inside, name } = namespaceOf();
    await inside.put('a', 'one');
    expect((await etcd.get(`${name}a`))?.text()).toBe('one');
    expect((await inside.get('a'))?.key).toBe('a');
    const { prevKv } = await inside.put('a', 'two', { prevKv: true });
    expect([prevKv?.key, prevKv?.text()]).toEqual(['a', 'one']);
    await inside.put('b', 'x');
    expect((await inside.range(prefix(''))).kvs.map((kv) => kv.key)).toEqual(['a', 'b']);
    expect((await inside.range(keyRange('a', 'b'))).kvs.map((kv) => kv.key)).toEqual(['a']);
    const deleted = await inside.delete('a', { prevKv: true });
    expect(deleted.prevKvs.map((kv) => kv.key)).toEqual(['a']);
    expect(await texts(etcd, name)).toEqual([`${name}b`]);
  });

  test.each([
    ['a byte other than 0xff', [0x61], [0x62]],
    ['one byte 0xff', [0x61, 0xff], [0x62]],
    ['two bytes 0xff', [0x61, 0xff, 0xff], [0x62]],
  ])('limits open-ended ranges to its own keys when its prefix ends with %s (S34)', async (_what, own, next) => {
    const etcd = openClient();
    const root = new TextEncoder().encode(unique());
    const at = (...tail: number[]): Uint8Array => new Uint8Array([...root, ...tail]);
    const inside = etcd.namespace(at(...own));
    const neighbors = [[0x60, 0xff], own.slice(0, -1), next, [...next, 0], [...next, 0xff], [...next, 0xff, 0]];
    const foreign = neighbors.filter((tail) => tail.length > 0).map((tail) => at(...tail));
    for (const key of foreign) await etcd.put(key, 'foreign');
    for (const key of ['a', 'b', '\xff']) await inside.put(key, 'own');
    const values = async (keys: ReturnType<typeof fromKey> | ReturnType<typeof prefix>): Promise<string[]> =>
      (await inside.range(keys)).kvs.map((kv) => kv.text());
    expect(await values(prefix(''))).toEqual(['own', 'own', 'own']);
    expect(await values(fromKey('b'))).toEqual(['own', 'own']);
    expect(await values(prefix(new Uint8Array([0xff])))).toEqual([]);
    expect((await inside.delete(fromKey('\0'))).deleted).toBe(3);
    expect((await etcd.range(prefix(root))).count).toBe(foreign.length);
  });

  test('translates the keys of conditions, operations and nested transactions', async () => {
    const { etcd, inside, name } = namespaceOf();
    // If the comparison included keys outside of the namespace, this key would make the comparison fail.
    await etcd.put(`${name.slice(0, -1)}0`, 'foreign');
    for (const key of ['a', 'b', 'c']) await inside.put(key, 'mine');
    const result = await inside.txn({
      if: [compare.value(prefix(''), '==', 'mine'), compare.version('a', '==', 1n), compare.version('d', '==', 0n)],
      then: [
        op.put('a', 'new', { prevKv: true }),
        op.get('a'),
        op.range(fromKey('b')),
        op.delete(keyRange('c', 'd'), { prevKv: true }),
        op.txn({
          if: [compare.value('b', '!=', 'mine')],
          else: [op.put('e', 'deep'), op.range(prefix('')), op.txn({ then: [op.put('b', 'x', { prevKv: true })] })],
        }),
      ],
    });
    if (!result.succeeded) throw new Error('the conditions did not hold, so the then list did not run');
    const [put, got, ranged, deleted, nested] = result.responses;
    expect([put.prevKv?.key, put.prevKv?.text()]).toEqual(['a', 'mine']);
    expect([got?.key, got?.text()]).toEqual(['a', 'new']);
    expect(ranged.kvs.map((kv) => kv.key)).toEqual(['b', 'c']);
    expect(deleted.prevKvs.map((kv) => kv.key)).toEqual(['c']);
    if (nested.succeeded) throw new Error('the nested condition held, so the nested else list did not run');
    const [, inner, innermost] = nested.responses;
    expect(inner.kvs.map((kv) => kv.key)).toEqual(['a', 'b', 'e']);
    if (!innermost.succeeded) throw new Error('a transaction without conditions must succeed');
    expect(innermost.responses[0].prevKv?.key).toBe('b');
    expect(await texts(etcd, name)).toEqual([`${name}a`, `${name}b`, `${name}e`]);
  });

  test('yields exactly its own keys, without the prefix, in a scan of 120 keys', async () => {
    const { etcd, inside, name } = namespaceOf();
    const keys = Array.from({ length: 120 }, (_, index) => `k${String(index).padStart(3, '0')}`);
    await inside.txn({ then: keys.map((key) => op.put(key, 'x'.repeat(1_000))) });
    await etcd.put(`${name.slice(0, -1)}0`, 'foreign');
    const seen: string[] = [];
    for await (const kv of inside.scan(fromKey('k'))) seen.push(kv.key);
    expect(seen).toEqual(keys);
  });

  test('delivers watch events for its own keys only, without the prefix and with previous values', async () => {
    const { etcd, inside, name } = namespaceOf();
    const watch = inside.watch(fromKey('a'), { prevKv: true });
    await watch.created();
    await etcd.put(`${name.slice(0, -1)}0`, 'foreign');
    await etcd.put(`${name}a`, 'one');
    await inside.put('a', 'two');
    await etcd.delete(prefix(name));
    const events = [];
    for await (const event of watch) {
      events.push([event.type, event.key, valueText(event), event.prevKv?.key, event.prevKv?.text()]);
      if (event.type === 'delete') break;
    }
    expect(events).toEqual([
      ['put', 'a', 'one', undefined, undefined],
      ['put', 'a', 'two', 'a', 'one'],
      ['delete', 'a', '', 'a', 'two'],
    ]);
  });

  test('has cached ranges that contain only its own keys, without the prefix', async () => {
    const { etcd, inside, name } = namespaceOf();
    await etcd.put(`${name}a`, 'one');
    await etcd.put(`${name.slice(0, -1)}0`, 'foreign');
    await using cached = await inside.cachedRange(prefix(''));
    expect(cached.range().map((kv) => kv.key)).toEqual(['a']);
    const { header } = await inside.put('b', 'two');
    await cached.waitForRevision(header.revision);
    expect(cached.get('b')?.text()).toBe('two');
  });

  test('lists only those keys of a lease that are in the namespace', async () => {
    const { etcd, inside, name } = namespaceOf();
    const { id } = await inside.lease.grant({ ttl: 60 });
    await inside.put('a', 'x', { lease: id });
    await etcd.put(`${name.slice(0, -1)}0`, 'foreign', { lease: id });
    await etcd.put('short', 'foreign', { lease: id });
    await etcd.put(name, 'the prefix itself is not a key of the namespace', { lease: id });
    const { keys } = await inside.lease.timeToLive(id, { keys: true });
    expect(keys).toEqual(['a']);
    expect((await etcd.lease.timeToLive(id, { keys: true })).keys).toHaveLength(4);
    await inside.lease.revoke(id);
    expect(await inside.get('a')).toBeUndefined();
  });

  test('keeps its locks under its prefix, and such a lock excludes a lock of the client with the same full name', async () => {
    const { etcd, inside, name } = namespaceOf();
    const [own, outer] = [await Session.open(inside), await Session.open(etcd)];
    const held = await new Mutex(own, 'job').lock();
    expect(await texts(etcd, `${name}job`)).toEqual([`${name}job/${own.leaseId.toString(16)}`]);
    expect(await new Mutex(outer, `${name}job`).tryLock()).toBeUndefined();
    const waiting = new Mutex(outer, `${name}job`).lock();
    await queueLength(etcd, `${name}job`, 2);
    const { succeeded } = await held.txn({ then: [op.put('report', 'done')] });
    expect(succeeded).toBe(true);
    expect((await etcd.get(`${name}report`))?.text()).toBe('done');
    await held.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(held.token);
    expect(await errorOf(withLock(inside, 'job', { maxWaitMs: 100 }, () => {}))).toMatchObject({
      reason: 'LockTaken',
    });
    await next.release();
    expect(await withLock(inside, 'job', () => texts(etcd, `${name}job/`))).toHaveLength(1);
  });

  test('inside another namespace appends its prefix to the outer prefix, and ends at its own last key (S34)', async () => {
    const { etcd, inside, name } = namespaceOf();
    const nested = inside.namespace(new Uint8Array([0x6e, 0xff]));
    await inside.put('o', 'only in the outer namespace');
    await nested.put('a', 'nested');
    expect((await nested.range(prefix(''))).kvs.map((kv) => kv.key)).toEqual(['a']);
    const bytes = new Uint8Array([...new TextEncoder().encode(`${name}n`), 0xff, 0x61]);
    expect((await etcd.get(bytes))?.text()).toBe('nested');
    expect((await nested.delete(fromKey('\0'))).deleted).toBe(1);
    expect((await inside.range(prefix(''))).kvs.map((kv) => kv.key)).toEqual(['o']);
  });

  test('keeps its prefix when the caller overwrites the Uint8Array that contained the prefix', async () => {
    const etcd = openClient();
    const bytes = new TextEncoder().encode(`${unique()}/`);
    const inside = etcd.namespace(bytes);
    const full = new Uint8Array([...bytes, 0x61]);
    bytes.fill(0x2e);
    await inside.put('a', 'x');
    expect((await etcd.get(full))?.text()).toBe('x');
  });

  test('cannot have a prefix that is empty or a number', async () => {
    const etcd = openClient();
    for (const empty of ['', new Uint8Array(0)]) {
      const error = await errorOf(() => etcd.namespace(empty));
      expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
      expect(error.message).toMatch(/^prefix: got an empty key/);
    }
    expect((await errorOf(() => etcd.namespace(5 as never))).message).toMatch(/^prefix: got a number/);
  });
});

describe('`close`', () => {
  test('of a namespace ends only the watches and keepalives of that namespace', async () => {
    const { etcd, inside, name } = namespaceOf();
    const [own, outer] = [inside.watch('a').batches(), etcd.watch(`${name}a`)];
    await outer.created();
    const session = await Session.open(inside);
    const ended = own.next();
    await inside.close();
    expect(await ended).toMatchObject({ done: true });
    expect(session.signal.aborted).toBe(true);
    await etcd.put(`${name}a`, 'still there');
    const { value } = await outer.batches().next();
    expect((value as WatchBatch).events.map(valueText)).toEqual(['still there']);
  });

  test('of a namespace makes the namespace refuse new watches and keepalives with reason ClientClosed', async () => {
    const { etcd, inside } = namespaceOf();
    const lease = await etcd.lease.grant({ ttl: 60 });
    await inside.close();
    expect(await errorOf(inside.watch('a').created())).toMatchObject({ reason: 'ClientClosed' });
    const { signal } = inside.lease.keepAlive(lease);
    expect(signal.aborted && (signal.reason as EtcdError).reason).toBe('ClientClosed');
    await using kept = etcd.lease.keepAlive(lease);
    expect(kept.valid()).toBe(true);
  });

  test('of the client ends the watches of its namespaces without an error', async () => {
    const { etcd, inside } = namespaceOf();
    const watch = inside.namespace('deeper/').watch('a');
    await watch.created();
    const ended = watch.batches().next();
    await etcd.close();
    expect(await ended).toMatchObject({ done: true });
    expect(await errorOf(inside.get('a'))).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
  });

  test('of the client ends its keepalives and the keepalives of its namespaces with reason ClientClosed', async () => {
    const { etcd, inside } = namespaceOf();
    const sessions = [await Session.open(etcd), await Session.open(inside), await Session.open(inside.namespace('n/'))];
    await etcd.close();
    const reasons = sessions.map(({ signal }) => signal.aborted && (signal.reason as EtcdError).reason);
    expect(reasons).toEqual(['ClientClosed', 'ClientClosed', 'ClientClosed']);
  });
});

interface Namespaced {
  readonly etcd: Client;
  readonly inside: Keyspace;
  /**
   * The prefix of the namespace. The prefix ends in "/". The first key after the namespace is the prefix with "0" in
   * place of this "/".
   */
  readonly name: string;
}

function namespaceOf(): Namespaced {
  const [etcd, name] = [openClient(), `${unique()}/`];
  return { etcd, inside: etcd.namespace(name), name };
}

async function texts(etcd: Keyspace, start: string): Promise<string[]> {
  return (await etcd.range(prefix(start))).kvs.map((kv) => kv.key);
}
