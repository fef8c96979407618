import { expect, test } from 'vitest';
import { CachedKeyRange } from '../../../src/extras/ranges/cached-range.js';
import { EtcdError, type MirrorMessage, prefix } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

test('a cached range contains each write of another client that was complete before `catchUp` was called', async () => {
  const [etcd, writer, name] = [openClient(), openClient(), `${unique('cache')}/`];
  await using cached = await etcd.cachedRange(prefix(name));
  for (let round = 0; round < 30; round += 1) {
    await writer.put(`${name}a`, String(round));
    await cached.catchUp();
    expect(cached.get(`${name}a`)?.text()).toBe(String(round));
  }
  expect(cached.state).toEqual({ status: 'current' });
});

test('a cached range is stale while its watch is interrupted, and `catchUp` then does not resolve', async () => {
  const { etcd, direct, proxy } = await proxied();
  const name = `${unique('cache')}/`;
  await using cached = await etcd.cachedRange(prefix(name));
  expect(cached.state).toEqual({ status: 'current' });
  proxy.blackhole();
  proxy.dropConnections();
  await expect.poll(() => cached.state.status).toBe('stale');
  expect(cached.state).toMatchObject({ forMs: expect.any(Number) });
  await direct.put(`${name}a`, 'later');
  const error = await errorOf(cached.catchUp({ timeoutMs: 100 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(cached.get(`${name}a`)).toBeUndefined();
  proxy.heal();
  await cached.catchUp();
  expect(cached.get(`${name}a`)?.text()).toBe('later');
  await expect.poll(() => cached.state.status).toBe('current');
});

test('a cached range is syncing from the compaction of changes that it missed until it has read all keys again', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  await using cached = await etcd.cachedRange(prefix('a'));
  const seen = new Set<string>();
  const offChange = (async () => {
    for await (const _ of cached.changes()) return;
  })();
  proxy.blackhole();
  proxy.dropConnections();
  await expect.poll(() => cached.state.status).toBe('stale');
  await direct.put('a', 'x');
  await direct.compact((await direct.put('a', 'y')).header.revision);
  const watching = new AbortController();
  const sampling = (async () => {
    while (!watching.signal.aborted) {
      seen.add(cached.state.status);
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  proxy.heal();
  await offChange;
  watching.abort();
  await sampling;
  expect(cached.get('a')?.text()).toBe('y');
  expect(cached.state).toEqual({ status: 'current' });
  expect(seen).toContain('syncing');
});

test('the state and `catchUp` of a closed cached range fail with WatchClosed', async () => {
  const cached = await openClient().cachedRange(unique('cache'));
  await cached.close();
  expect(() => cached.state).toThrow(expect.objectContaining({ reason: 'WatchClosed' }));
  expect(await errorOf(cached.catchUp())).toMatchObject({ reason: 'WatchClosed' });
});

test('`catchUp` waits for the keys of a restored store, whose revision is lower than that of the cached range', async () => {
  const header = { revision: 50n };
  const kv = { txn: async () => ({ header, succeeded: true, responses: [{ count: 0 }, { kvs: [] }] }) };
  let restore = (): void => {};
  const restored = new Promise<void>((resolve) => {
    restore = resolve;
  });
  async function* mirror(): AsyncGenerator<MirrorMessage, void> {
    yield { type: 'synced', revision: 100n, clusterId: 0n };
    await restored;
    yield {
      type: 'resync',
      cause: new EtcdError('restored', { code: 'Unavailable', reason: 'ClusterChanged', outcome: 'rejected' }),
    };
    yield { type: 'synced', revision: 50n, clusterId: 0n };
    await new Promise(() => {});
  }
  const cached = new CachedKeyRange(prefix('a/'), kv as never, mirror);
  await cached.waitForRevision(0n);
  expect(await errorOf(cached.catchUp({ timeoutMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  restore();
  await cached.catchUp();
  expect(cached.revision).toBe(50n);
  await cached.close();
});
