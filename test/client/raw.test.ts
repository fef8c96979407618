import { describe, expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { type Interceptor, rawEnums } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { gate } from '../support/signals.js';

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('`Client.raw`', () => {
  test('has one function for each RPC', () => {
    const { raw } = openClient();
    for (const [service, table] of Object.entries(methods)) {
      expect(Object.keys(raw[service as keyof typeof raw])).toEqual(Object.keys(table));
    }
  });

  test('sends a message without fields if the program passes none', async () => {
    const { raw } = openClient();
    const none = undefined as never;
    await raw.cluster.memberList(none);
    await raw.maintenance.status(none);
    expect(await errorOf(raw.kv.range(none))).toMatchObject({ reason: 'EmptyKey' });
  });

  test('opens no stream while the client closes', async () => {
    const arrived = gate();
    const answered = gate();
    const holding: Interceptor = {
      unary: async (call, next) => {
        arrived.open();
        await answered.opened;
        return next(call);
      },
    };
    const etcd = openClient({ interceptors: [holding] });
    const writing = etcd.put(unique(), 'x');
    await arrived.opened;
    const closing = etcd.close({ drainMs: 10_000 });
    expect(await errorOf(() => etcd.raw.lease.leaseKeepAlive())).toMatchObject({ reason: 'ClientClosed' });
    answered.open();
    await Promise.all([writing, closing]);
  });

  test('makes unary calls', async () => {
    const { raw } = openClient();
    const key = utf8(unique());
    await raw.kv.put({ key, value: utf8('x') });
    expect((await raw.kv.range({ key })).kvs).toMatchObject([{ version: 1n }]);
    expect((await raw.maintenance.status({})).version).toMatch(/^3\.\d+\.\d+/);
    expect((await raw.cluster.memberList({})).members).toHaveLength(1);
  });

  test.each([
    ['ignoreLease', 'after', false],
    ['ignoreValue', 'after', false],
    ['ignoreLease', 'in a nested transaction after', true],
  ] as const)(
    'refuses a put with %s %s the deletion of all keys from its key on, which would end etcd for good',
    async (flag, _, isNested) => {
      // A server of its own, because a client that sends the transaction ends it.
      const { endpoints } = await ownEtcd();
      const { raw } = openClient({ endpoints });
      const [start, key] = [utf8('a'), utf8('b')];
      await raw.kv.put({ key });
      const deletion = {
        request: { case: 'requestDeleteRange', value: { key: start, rangeEnd: Uint8Array.of(0) } },
      } as const;
      const put = { request: { case: 'requestPut', value: { key, [flag]: true } } } as const;
      const nested = { request: { case: 'requestTxn', value: { success: [put] } } } as const;
      const list = [deletion, isNested ? nested : put];
      for (const txn of [{ success: list }, { failure: list }]) {
        const error = await errorOf(raw.kv.txn(txn));
        expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
        expect(error.message).toContain('each member of etcd that applies both together panics for good');
      }
      expect((await raw.kv.range({ key })).kvs).toHaveLength(1);
    },
  );

  test('sends a deletion of all keys from a key on with a put of an earlier key that keeps its lease', async () => {
    const { endpoints } = await ownEtcd();
    const { raw } = openClient({ endpoints });
    for (const key of ['a', 'b', 'c']) await raw.kv.put({ key: utf8(key) });
    const deletion = { case: 'requestDeleteRange', value: { key: utf8('b'), rangeEnd: Uint8Array.of(0) } } as const;
    const put = { case: 'requestPut', value: { key: utf8('a'), ignoreLease: true } } as const;
    expect(await raw.kv.txn({ success: [{ request: deletion }, { request: put }] })).toMatchObject({ succeeded: true });
    expect((await raw.kv.range({ key: utf8('a'), rangeEnd: Uint8Array.of(0) })).kvs).toHaveLength(1);
  });

  test('accepts values of `rawEnums` in messages', async () => {
    const { raw } = openClient();
    const key = unique();
    for (const name of ['a', 'b']) await raw.kv.put({ key: utf8(`${key}/${name}`) });
    const range = { key: utf8(`${key}/`), rangeEnd: utf8(`${key}0`) };
    const { kvs } = await raw.kv.range({ ...range, sortOrder: rawEnums.SortOrder.DESCEND });
    expect(kvs.map((kv) => kv.key.at(-1))).toEqual([0x62, 0x61]);
  });

  test('reads a server stream to its end', async () => {
    let bytes = 0;
    let remaining = -1n;
    const { endpoints } = await ownEtcd();
    for await (const { blob, remainingBytes } of openClient({ endpoints }).raw.maintenance.snapshot({})) {
      bytes += blob.length;
      remaining = remainingBytes;
    }
    expect([bytes % 512, remaining]).toEqual([32, 0n]);
  });

  test('opens a bidirectional stream, and cancels the stream when the caller breaks out of the loop', async () => {
    const { raw, lease } = openClient();
    const { id } = await lease.grant({ ttl: 60 });
    const stream = raw.lease.leaseKeepAlive();
    stream.send({ id });
    for await (const { ttl } of stream) {
      expect(ttl).toBe(60n);
      break;
    }
    expect(await stream.next()).toMatchObject({ done: true });
  });

  test('rejects a stream with Canceled when its signal aborts, and rejects a put without a key with EmptyKey', async () => {
    const { raw } = openClient();
    const stop = new AbortController();
    const reading = errorOf(raw.watch.watch({ signal: stop.signal }).next());
    stop.abort();
    expect(await reading).toMatchObject({ reason: 'Canceled' });
    expect(await errorOf(raw.kv.put({ value: utf8('x') }))).toMatchObject({
      reason: 'EmptyKey',
      code: 'InvalidArgument',
      outcome: 'rejected',
    });
  });

  test('ignores a message that the caller sends after `end()` of the stream', async () => {
    const { raw } = openClient();
    await raw.kv.range({ key: utf8('a') });
    const stream = raw.watch.watch();
    stream.end();
    stream.send({ requestUnion: { case: 'progressRequest', value: {} } });
    await raw.kv.range({ key: utf8('a') });
    stream.cancel();
    expect(await stream.next()).toMatchObject({ done: true });
  });

  test.each([
    ['a number instead of a list', { success: 5 }],
    ['an operation that is undefined', { success: [undefined] }],
    ['a put without a value', { failure: [{ request: { case: 'requestPut' } }] }],
  ])('refuses a transaction with %s', async (_, message) => {
    const { raw } = openClient();
    expect(await errorOf(raw.kv.txn(message as never))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });

  test('refuses a value that is out of range for its field', async () => {
    expect(await errorOf(openClient().raw.kv.range({ key: utf8('a'), revision: 2n ** 63n }))).toMatchObject({
      reason: 'InvalidInput',
      outcome: 'not-sent',
    });
  });
});
