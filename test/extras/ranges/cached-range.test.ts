import { describe, expect, test } from 'vitest';
import type { WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { type CachedRange, type Client, fromKey, keyRange, op, prefix } from '../../../src/index.js';
import { defaultTransport } from '../../../src/wire/default-transport.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied, TXN, WATCH } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { recordingTransport } from '../../support/recording-transport.js';

describe('a cached range', () => {
  test('contains the keys as of one revision, and then applies each later change', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await etcd.txn({ then: ['c', 'a', 'b'].map((key) => op.put(name + key, `${key}1`)) });
    await using cached = await etcd.cachedRange(prefix(name));
    expect(shown(cached)).toEqual(['a1', 'b1', 'c1']);
    expect([cached.size, cached.get(`${name}b`)?.text(), cached.get(`${name}x`)]).toEqual([3, 'b1', undefined]);
    await etcd.put(`${name}aa`, 'aa1');
    await etcd.put(`${name}c`, 'c2');
    const { header } = await etcd.delete(`${name}b`);
    await cached.waitForRevision(header.revision);
    expect(cached.revision).toBeGreaterThanOrEqual(header.revision);
    expect(shown(cached)).toEqual(['a1', 'aa1', 'c2']);
    expect([cached.size, cached.get(`${name}b`), cached.get(`${name}c`)?.version]).toEqual([3, undefined, 2n]);
    expect(cached.range(prefix(`${name}a`)).map((kv) => kv.text())).toEqual(['a1', 'aa1']);
    expect(cached.range(keyRange(`${name}a`, `${name}c`)).map((kv) => kv.text())).toEqual(['a1', 'aa1']);
    expect(cached.range(`${name}c`).map((kv) => kv.text())).toEqual(['c2']);
    expect(cached.range(`${name}b`)).toEqual([]);
  });

  test('contains each of 50 writes as soon as `waitForRevision` resolves for the revision of the write', async () => {
    const [etcd, key] = [openClient(), unique('cache')];
    await using cached = await etcd.cachedRange(key);
    for (let round = 0; round < 50; round += 1) {
      const { header } = await etcd.put(key, String(round));
      await cached.waitForRevision(header.revision);
      expect(cached.get(key)?.text()).toBe(String(round));
    }
  });

  test('reaches the revision of a write outside the range, although no key of the range changes', async () => {
    const etcd = openClient();
    await using cached = await etcd.cachedRange(unique('quiet'));
    for (let round = 0; round < 3; round += 1) {
      const { header } = await etcd.put(unique('other'), 'x');
      await cached.waitForRevision(header.revision);
      expect(cached.revision).toBeGreaterThanOrEqual(header.revision);
    }
    expect(cached.size).toBe(0);
  });

  test('never shows only a part of a transaction', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    const write = (value: string) => etcd.txn({ then: [op.put(`${name}a`, value), op.put(`${name}b`, value)] });
    await write('first');
    await using cached = await etcd.cachedRange(prefix(name));
    let writing = true;
    const writers = Promise.all(
      ['x', 'y', 'z'].map(async (who) => {
        for (let round = 0; round < 60; round += 1) await write(`${who}${round}`);
      }),
    ).finally(() => {
      writing = false;
    });
    const seen = new Set<bigint>();
    while (writing) {
      const [a, b] = [cached.get(`${name}a`), cached.get(`${name}b`)];
      expect([a?.text(), a?.modRevision]).toEqual([b?.text(), b?.modRevision]);
      expect(cached.revision).toBeGreaterThanOrEqual(a?.modRevision as bigint);
      seen.add(cached.revision);
      await nextTurn();
    }
    await writers;
    const { header } = await write('last');
    await cached.waitForRevision(header.revision);
    expect(shown(cached)).toEqual(['last', 'last']);
    expect(seen.size).toBeGreaterThan(10);
  });

  test('contains the last keys of the store when its range is the whole store or has no end', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    await etcd.put('\xff', 'x');
    await using whole = await etcd.cachedRange(prefix(''));
    await using rest = await etcd.cachedRange(fromKey('m'));
    for (const cached of [whole, rest]) {
      expect(cached.range(fromKey('z')).map((kv) => kv.key)).toEqual(['\xff']);
      expect(cached.range(prefix('\xff'))).toHaveLength(1);
    }
    expect(whole.get('a')).toBeUndefined();
    expect(await errorOf(() => rest.get('a'))).toMatchObject({ reason: 'InvalidInput' });
  });

  test('refuses reads of keys outside its range, because the store may contain those keys', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await using cached = await etcd.cachedRange(keyRange(`${name}b`, `${name}d`));
    await using single = await etcd.cachedRange(`${name}b`);
    const outside = [
      () => cached.get(`${name}a`),
      () => cached.get(`${name}d`),
      () => cached.get(''),
      () => cached.range(prefix(name)),
      () => cached.range(prefix('')),
      () => cached.range(fromKey(`${name}b`)),
      () => cached.range(keyRange(`${name}a`, `${name}c`)),
      () => cached.range(keyRange(`${name}c`, `${name}d\0`)),
      () => cached.range(`${name}d`),
      () => single.get(`${name}b\0`),
      () => single.range(prefix(`${name}b`)),
    ];
    for (const read of outside) expect(await errorOf(read)).toMatchObject({ reason: 'InvalidInput' });
    expect([cached.get(`${name}cz`), single.get(`${name}b`)]).toEqual([undefined, undefined]);
    for (const keys of [prefix(`${name}c`), keyRange(`${name}b`, `${name}d`), `${name}b`])
      expect(cached.range(keys)).toEqual([]);
  });
});

test('a cached range keeps its keys while the client is disconnected, and replaces all keys at once after a compaction', async () => {
  const { etcd: through, direct, proxy } = await proxied((await ownEtcd()).endpoints);
  for (let at = 0; at < 600; at += 100) {
    const names = Array.from({ length: 100 }, (_, index) => `a/${String(at + index).padStart(3, '0')}`);
    await direct.txn({ then: names.map((name) => op.put(name, 'x'.repeat(1_000))) });
  }
  await using cached = await through.cachedRange(prefix('a/'));
  // Waiting for an event shows that the watch exists. Otherwise the compaction could come before the watch is created.
  await cached.waitForRevision((await direct.put('a/seen', 'x')).header.revision);
  expect(cached.size).toBe(601);
  proxy.blackhole();
  await direct.delete(keyRange('a/000', 'a/300'));
  const { header } = await direct.put('a/new', 'x');
  await direct.compact(header.revision);
  expect([cached.size, cached.get('a/000')?.version, cached.get('a/new')]).toEqual([601, 1n, undefined]);
  proxy.heal();
  const sizes = new Set<number>();
  let waiting = true;
  const arrived = cached.waitForRevision(header.revision).finally(() => {
    waiting = false;
  });
  while (waiting) {
    sizes.add(cached.size);
    await nextTurn();
  }
  await arrived;
  sizes.add(cached.size);
  expect([...sizes]).toEqual([601, 302]);
  expect([cached.get('a/000'), cached.get('a/new')?.version]).toEqual([undefined, 1n]);
  await cached.waitForRevision((await direct.put('a/after', 'x')).header.revision);
  expect(cached.size).toBe(303);
});

describe('`waitForRevision`', () => {
  test.each([
    ['a put', (etcd: Client, key: string) => etcd.put(key, 'new'), 'new'],
    ['a deletion', (etcd: Client, key: string) => etcd.delete(key), undefined],
  ])('waits for the event of %s, even if a read has already returned the new revision', async (_what, write, value) => {
    const [direct, key] = [openClient(), unique()];
    await direct.put(key, 'old');
    const { transport, release, reads } = holdingEvents();
    await using cached = await openClient({ transport }).cachedRange(key);
    const { header } = await write(direct, key);
    let arrived = false;
    const waiting = cached.waitForRevision(header.revision).then(() => {
      arrived = true;
    });
    const before = reads();
    await expect.poll(reads).toBeGreaterThan(before + 1);
    expect([arrived, cached.get(key)?.text()]).toEqual([false, 'old']);
    release();
    await waiting;
    expect(cached.get(key)?.text()).toBe(value);
  });

  test('rejects at its time limit, and when its signal aborts, while the revision is in the future', async () => {
    await using cached = await openClient().cachedRange(unique());
    const far = cached.revision + 1_000_000n;
    expect(await errorOf(cached.waitForRevision(far, { timeoutMs: 30 }))).toMatchObject({
      reason: 'DeadlineExceeded',
      message: 'waitForRevision did not finish within timeoutMs = 30',
    });
    const stop = new AbortController();
    const waiting = errorOf(cached.waitForRevision(far, { signal: stop.signal }));
    stop.abort(new Error('enough'));
    expect(await waiting).toMatchObject({ reason: 'Canceled', cause: { message: 'enough' } });
    expect(await errorOf(cached.waitForRevision(0n, { signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
    await cached.waitForRevision(cached.revision);
  });

  test('refuses a negative revision and a `timeoutMs` of 0', async () => {
    await using cached = await openClient().cachedRange(unique());
    expect((await errorOf(cached.waitForRevision(-1n))).message).toMatch(/^revision: got -1n/);
    expect((await errorOf(cached.waitForRevision(1n, { timeoutMs: 0 }))).message).toMatch(
      /^timeoutMs: got the number 0/,
    );
  });
});

describe('a cached range', () => {
  test('cancels its watch, rejects every wait and throws on every read when the caller closes the cached range', async () => {
    const { transport, sent } = recordingTransport();
    const [etcd, key] = [openClient({ transport }), unique()];
    const cached = await etcd.cachedRange(key);
    await cached.waitForRevision((await etcd.put(key, 'x')).header.revision);
    const waiting = errorOf(cached.waitForRevision(cached.revision + 1_000_000n));
    await cached.close();
    expect(await waiting).toMatchObject({ reason: 'WatchClosed' });
    for (const read of [() => cached.get(key), () => cached.range(), () => cached.size])
      expect(await errorOf(read)).toMatchObject({ reason: 'WatchClosed' });
    expect(await errorOf(cached.waitForRevision(0n))).toMatchObject({ reason: 'WatchClosed' });
    const kinds = sent.filter(({ path }) => path === WATCH).map(({ request }) => Object(request).requestUnion.case);
    expect(kinds).toEqual(['createRequest', 'cancelRequest']);
  });

  test('rejects a wait and throws on a read when the client is closed', async () => {
    const [etcd, key] = [openClient(), unique()];
    const cached = await etcd.cachedRange(key);
    const waiting = errorOf(cached.waitForRevision(cached.revision + 1_000_000n));
    await etcd.close();
    expect(await waiting).toMatchObject({ reason: 'ClientClosed' });
    expect(await errorOf(() => cached.get(key))).toMatchObject({ reason: 'ClientClosed' });
  });

  test('is not created when its keys are invalid, no server answers in time, or its signal has aborted', async () => {
    expect(await errorOf(openClient().cachedRange(''))).toMatchObject({ reason: 'InvalidInput' });
    const dead = openClient({ endpoints: ['http://127.0.0.1:1'] });
    expect(await errorOf(dead.cachedRange('a', { timeoutMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    const { message } = await errorOf(dead.cachedRange('a', { timeoutMs: 500 }));
    expect(message).toMatch(
      /^the first read of the range did not finish within timeoutMs = 500(, because it reached no etcd|; last failure)/,
    );
    const stopped = dead.cachedRange('a', { signal: AbortSignal.abort() });
    expect(await errorOf(stopped)).toMatchObject({ reason: 'Canceled' });
  });
});

/**
 * Wraps the default transport and holds back watch events until `release` is called. `reads` returns the number of
 * completed transactions. A cached range uses transactions to read the current revision of the store.
 */
function holdingEvents(): { transport: TransportFactory; release: () => void; reads: () => number } {
  const held: (() => void)[] = [];
  let [holding, count] = [true, 0];
  const transport: TransportFactory = (endpoint, options) => {
    const inner = defaultTransport(endpoint, options);
    const stream: typeof inner.stream = (call, handler) =>
      inner.stream(call, {
        message: (message) => {
          const isHeld = holding && call.method.path === WATCH && !(message as unknown as WatchResponse).created;
          if (isHeld) held.push(() => handler.message(message));
          else handler.message(message);
        },
        end: (error) => handler.end(error),
      });
    const unary: typeof inner.unary = async (call) => {
      const response = await inner.unary(call);
      if (call.method.path === TXN) count += 1;
      return response;
    };
    return { unary, stream, close: () => inner.close() };
  };
  const release = (): void => {
    holding = false;
    for (const deliver of held.splice(0)) deliver();
  };
  return { transport, release, reads: () => count };
}

function shown(cached: CachedRange): string[] {
  return cached.range().map((kv) => kv.text());
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
