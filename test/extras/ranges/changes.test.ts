import { describe, expect, test } from 'vitest';
import { type CachedRange, op, prefix, type RangeChange } from '../../../src/index.js';
import { randomNumbers } from '../../load/rounds.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

/** Describes a change as text: its type, the last letter of its key, and the old and the new value. */
function shown({ type, key, kv, old }: RangeChange): string {
  return `${type} ${key.at(-1)}: ${old?.text()} -> ${kv?.text()}`;
}

async function take(changes: AsyncIterableIterator<RangeChange>, count: number): Promise<string[]> {
  const taken: string[] = [];
  while (taken.length < count) taken.push(shown((await changes.next()).value));
  return taken;
}

describe('`CachedRange.changes`', () => {
  test('yields each change with the old and the new state of the key', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await etcd.put(`${name}a`, '1');
    await using cached = await etcd.cachedRange(prefix(name));
    const changes = cached.changes();
    await etcd.put(`${name}a`, '2');
    expect(await take(changes, 1)).toEqual(['put a: 1 -> 2']);
    await etcd.put(`${name}b`, '3');
    expect(await take(changes, 1)).toEqual(['put b: undefined -> 3']);
    await etcd.delete(`${name}a`);
    expect(await take(changes, 1)).toEqual(['delete a: 2 -> undefined']);
  });

  test('begins with the present keys if `initial` is true', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await etcd.txn({ then: [op.put(`${name}a`, '1'), op.put(`${name}b`, '2')] });
    await using cached = await etcd.cachedRange(prefix(name));
    expect(await take(cached.changes({ initial: true }), 2)).toEqual([
      'put a: undefined -> 1',
      'put b: undefined -> 2',
    ]);
  });

  test('gives a slow consumer one change for each key, from the first state to the last', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await etcd.put(`${name}a`, 'first');
    await using cached = await etcd.cachedRange(prefix(name));
    const changes = cached.changes();
    for (let value = 0; value < 20; value += 1) await etcd.put(`${name}a`, `${value}`);
    await etcd.put(`${name}b`, 'gone');
    const { header } = await etcd.delete(`${name}b`);
    await cached.waitForRevision(header.revision);
    await etcd.put(`${name}c`, 'end');
    expect(await take(changes, 2)).toEqual(['put a: first -> 19', 'put c: undefined -> end']);
  });

  test('gives every consumer changes that lead from the state that the consumer knows to the state of the range', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    const random = randomNumbers(7);
    await using cached = await etcd.cachedRange(prefix(name));
    const consumers = Array.from({ length: 5 }, (_, consumer) => follow(cached, consumer));
    for (let write = 0; write < 300; write += 1) {
      const key = `${name}${Math.floor(random() * 12)}`;
      if (random() < 0.4) await etcd.delete(key);
      else await etcd.put(key, `${write}`);
    }
    const { header } = await etcd.put(`${name}end`, 'end');
    await cached.waitForRevision(header.revision);
    const expected = new Map(cached.range().map((kv) => [kv.key, kv.text()]));
    for (const consumer of consumers) expect(await consumer).toEqual(expected);
  });

  /** Applies the changes to a map, and checks that each `old` is what the map contains. Ends with the key `end`. */
  async function follow(cached: CachedRange, delayTurns: number): Promise<Map<string, string>> {
    const keys = new Map<string, string>();
    let isLast = false;
    for await (const { key, kv, old } of cached.changes({ initial: true })) {
      expect(old?.text()).toBe(keys.get(key));
      if (kv === undefined) keys.delete(key);
      else keys.set(key, kv.text());
      isLast ||= key.endsWith('end');
      for (let turn = 0; turn < delayTurns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      // Changes of other keys may follow the change of the key `end`, so wait until the map equals the range.
      if (isLast && keys.size === cached.size && [...keys].every(([each, value]) => cached.get(each)?.text() === value))
        break;
    }
    return keys;
  }

  test('ends when the cached range is closed, and rejects with Canceled when its signal aborts', async () => {
    const etcd = openClient();
    const cached = await etcd.cachedRange(unique());
    const stop = new AbortController();
    const canceled = errorOf(cached.changes({ signal: stop.signal }).next());
    stop.abort();
    expect(await canceled).toMatchObject({ reason: 'Canceled' });
    expect(await errorOf(cached.changes({ signal: stop.signal }).next())).toMatchObject({ reason: 'Canceled' });
    const [one, other] = [cached.changes(), cached.changes()];
    const pending = one.next();
    await cached.close();
    expect(await pending).toEqual({ done: true, value: undefined });
    expect(await other.next()).toEqual({ done: true, value: undefined });
    expect(await errorOf(() => cached.changes())).toMatchObject({ reason: 'WatchClosed' });
  });

  test('yields no further change after its signal has aborted', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await etcd.txn({ then: [op.put(`${name}a`, '1'), op.put(`${name}b`, '2')] });
    await using cached = await etcd.cachedRange(prefix(name));
    const stop = new AbortController();
    const changes = cached.changes({ initial: true, signal: stop.signal });
    await changes.next();
    stop.abort();
    expect(await errorOf(changes.next())).toMatchObject({ reason: 'Canceled' });
    expect(await errorOf(cached.changes({ initial: true, signal: stop.signal }).next())).toMatchObject({
      reason: 'Canceled',
    });
  });

  test('rejects with ClientClosed when the client is closed', async () => {
    const etcd = openClient();
    const cached = await etcd.cachedRange(unique());
    const pending = errorOf(cached.changes().next());
    await etcd.close();
    expect(await pending).toMatchObject({ reason: 'ClientClosed' });
  });

  test('resolves two calls of `next` that wait at the same time', async () => {
    const [etcd, name] = [openClient(), `${unique('cache')}/`];
    await using cached = await etcd.cachedRange(prefix(name));
    const changes = cached.changes();
    const both = Promise.all([changes.next(), changes.next()]);
    await etcd.txn({ then: [op.put(`${name}a`, '1'), op.put(`${name}b`, '2')] });
    expect((await both).map(({ value }) => shown(value))).toEqual(['put a: undefined -> 1', 'put b: undefined -> 2']);
  });
});
