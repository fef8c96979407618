import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Election, Session } from '../src/concurrency/index.js';
import { compare, type KeyValue, keyRange, op, prefix } from '../src/index.js';
import { openClient, unique } from './support/client.js';

// A caller may overwrite its buffer once a method has returned. Calls and watches must still send the original bytes.

/** Opens a client that sends each call in a later turn of the event loop, as if it first had to fetch a token. */
function lateClient() {
  return openClient({
    interceptors: [
      {
        unary: async (call, next) => {
          await turn();
          return next(call);
        },
      },
    ],
  });
}

/** Passes a buffer that contains `text` to `action`, and overwrites the buffer as soon as `action` has returned. */
function withBuffer<T>(text: string, action: (buffer: Uint8Array) => T): T {
  const buffer = new Uint8Array(Buffer.from(text));
  const result = action(buffer);
  buffer.fill(0x2e);
  return result;
}

test('the client sends the original keys and values when the caller overwrites its buffers before the requests leave', async () => {
  const [etcd, key] = [lateClient(), unique()];
  await withBuffer(key, (bytes) => withBuffer('value', (value) => etcd.put(bytes, value)));
  expect((await withBuffer(key, (bytes) => etcd.get(bytes)))?.text()).toBe('value');
  const { succeeded } = await withBuffer(key, (bytes) =>
    etcd.txn({ if: [compare.exists(bytes)], then: [op.get(bytes)], else: [] }),
  );
  expect(succeeded).toBe(true);
  expect((await withBuffer(key, (bytes) => etcd.range(prefix(bytes)))).count).toBe(1);
  const scanned: KeyValue[] = [];
  for await (const kv of withBuffer(key, (bytes) => etcd.scan(prefix(bytes)))) scanned.push(kv);
  expect(scanned.map((kv) => kv.keyText())).toEqual([key]);
  expect((await withBuffer(key, (bytes) => etcd.delete(bytes))).deleted).toBe(1);
});

test.each(['key', 'prefix', 'key range'] as const)(
  'a watch, a mirror and a cached range of a %s use the original keys when the caller overwrites its buffer before the client sends the requests',
  async (form) => {
    const [etcd, name] = [lateClient(), unique()];
    const keysOf = (bytes: Uint8Array) => {
      if (form === 'key') return bytes;
      return form === 'prefix' ? prefix(bytes) : keyRange(bytes, new Uint8Array(Buffer.from(`${name}\xff`)));
    };
    await etcd.put(name, 'first');
    const watch = withBuffer(name, (bytes) => etcd.watch(keysOf(bytes)));
    const mirror = withBuffer(name, (bytes) => etcd.mirror(keysOf(bytes)))[Symbol.asyncIterator]();
    const cached = await withBuffer(name, (bytes) => etcd.cachedRange(keysOf(bytes)));
    await watch.created();
    expect((await mirror.next()).value).toMatchObject({ type: 'keys', kvs: { length: 1 } });
    const { header } = await etcd.put(name, 'second');
    await cached.waitForRevision(header.revision);
    expect(cached.get(name)?.text()).toBe('second');
    expect((await watch.batches().next()).value).toMatchObject({ revision: header.revision });
    await Promise.all([watch.close(), cached.close(), mirror.return?.(undefined as never)]);
  },
);

test('an election campaign proclaims the original value when the caller overwrites its buffer before the client sends the request', async () => {
  const etcd = lateClient();
  const election = new Election(await Session.open(etcd), unique('election'));
  await using _leadership = await withBuffer('me', (value) => election.campaign(value));
  expect((await election.leader())?.text()).toBe('me');
});
