import { describe, expect, test } from 'vitest';
import { CachedKeyRange } from '../../../src/extras/ranges/cached-range.js';
import {
  Client,
  EtcdError,
  type Interceptor,
  type KeyValue,
  type MirrorMessage,
  prefix,
  type WatchEvent,
} from '../../../src/index.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import { gate } from '../../support/signals.js';

test('a cached range discards the keys of a read that a resync interrupts', async () => {
  const kvOf = (key: string): KeyValue => ({ key, keyBytes: Buffer.from(key) }) as unknown as KeyValue;
  const cause = new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    yield { type: 'keys', revision: 5n, kvs: [kvOf('a'), kvOf('b')] };
    yield { type: 'resync', cause };
    yield { type: 'keys', revision: 7n, kvs: [kvOf('b')] };
    yield { type: 'synced', revision: 7n, clusterId: 0n };
    await new Promise(() => {});
  }
  const kv = { txn: () => new Promise<never>(() => {}) };
  await using cached = new CachedKeyRange(prefix(''), kv, messages);
  await cached.waitForRevision(7n);
  expect(cached.range().map((each) => each.key)).toEqual(['b']);
});

test('`CachedRange.changes` yields the differences that the cached range finds when it reads the range again', async () => {
  const kvOf = (key: string, value: string, modRevision: bigint): KeyValue =>
    ({ key, keyBytes: Buffer.from(key), value: Buffer.from(value), modRevision, lease: 0n }) as unknown as KeyValue;
  const cause = new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  let goOn = (): void => {};
  const isRead = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    const first = [kvOf('deleted', '1', 2n), kvOf('kept', '1', 3n), kvOf('put', '1', 4n), kvOf('restored', '1', 5n)];
    yield { type: 'keys', revision: 5n, kvs: first };
    yield { type: 'synced', revision: 5n, clusterId: 0n };
    await isRead;
    yield { type: 'resync', cause };
    // A store that was restored from a backup may use a revision again, for another value.
    const next = [kvOf('created', '2', 6n), kvOf('kept', '1', 3n), kvOf('put', '2', 7n), kvOf('restored', '2', 5n)];
    yield { type: 'keys', revision: 7n, kvs: next };
    yield { type: 'synced', revision: 7n, clusterId: 0n };
    await new Promise(() => {});
  }
  const kv = { txn: () => new Promise<never>(() => {}) };
  await using cached = new CachedKeyRange(prefix(''), kv, messages);
  await cached.waitForRevision(5n);
  const changes = cached.changes();
  goOn();
  await cached.waitForRevision(7n);
  const seen: string[] = [];
  for await (const { type, key } of changes) if (seen.push(`${type} ${key}`) === 4) break;
  expect(seen).toEqual(['delete deleted', 'put created', 'put put', 'put restored']);
});

test('a cached range never shows an older state after `waitForRevision`, although the events of earlier revisions arrive late', async () => {
  const kvOf = (key: string): KeyValue => ({ key, keyBytes: Buffer.from(key) }) as unknown as KeyValue;
  let goOn = (): void => {};
  const isAwaited = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    yield { type: 'keys', revision: 5n, kvs: [kvOf('a')] };
    yield { type: 'synced', revision: 5n, clusterId: 0n };
    await isAwaited;
    // The key was put in revision 6 and deleted in revision 7, so the range had the same keys before and after.
    const put = { type: 'put', keyBytes: Buffer.from('b'), kv: kvOf('b') } as unknown as WatchEvent;
    yield { type: 'events', revision: 6n, clusterId: 0n, events: [put] };
    await new Promise(() => {});
  }
  const unchanged = [{ count: 1 }, { kvs: [] }];
  const kv = { txn: async () => ({ header: { revision: 7n }, responses: unchanged }) as never };
  await using cached = new CachedKeyRange(prefix(''), kv, messages);
  await cached.waitForRevision(7n);
  goOn();
  // The late event has been applied or dropped after a turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  expect({ revision: cached.revision, keys: cached.range().map((each) => each.key) }).toEqual({
    revision: 7n,
    keys: ['a'],
  });
});

describe('after the cluster was restored from a backup,', () => {
  test('`waitForRevision` of a write waits until the range shows the write', async () => {
    const server = new MemoryEtcd();
    const etcd = new Client({ transport: memory(server) });
    await etcd.put('a', 'backup');
    const backup = server.snapshot();
    for (let count = 0; count < 50; count += 1) await etcd.put('a', `former ${count}`);
    await using cached = await etcd.cachedRange('a');
    server.restore(backup);
    const { header } = await etcd.put('a', 'new');
    await cached.waitForRevision(header.revision);
    expect([cached.get('a')?.text(), cached.revision]).toEqual(['new', header.revision]);
    await etcd.close();
  });

  test('a cached range opens although its own read finds that the store went back', async () => {
    const server = new MemoryEtcd();
    let creating: Promise<void> = Promise.resolve();
    const holding: Interceptor = {
      stream: (call, handler, next) => {
        const stream = next(call, handler);
        return { ...stream, send: (message) => void creating.then(() => stream.send(message)) };
      },
    };
    const etcd = new Client({ transport: memory(server), interceptors: [holding] });
    await etcd.put('a', 'backup');
    const backup = server.snapshot();
    for (let count = 0; count < 5; count += 1) await etcd.put('a', 'former');
    server.restore(backup);
    const created = gate();
    creating = created.opened;
    etcd.onEvent(({ type }) => {
      if (type === 'cluster restored') created.open();
    });
    await using cached = await etcd.cachedRange('a');
    expect(cached.get('a')?.text()).toBe('backup');
    await etcd.close();
  });
});
