import { expect, test } from 'vitest';
import { EtcdError, type KeyValue, type MirrorMessage, prefix } from '../../src/index.js';
import { CachedKeyRange } from '../../src/mirror/cached-range.js';

test('a cached range discards the keys of a read that a resync interrupts', async () => {
  const kvOf = (key: string): KeyValue => ({ key: Buffer.from(key), keyText: () => key }) as unknown as KeyValue;
  const cause = new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    yield { type: 'keys', revision: 5n, kvs: [kvOf('a'), kvOf('b')] };
    yield { type: 'resync', cause };
    yield { type: 'keys', revision: 7n, kvs: [kvOf('b')] };
    yield { type: 'synced', revision: 7n };
    await new Promise(() => {});
  }
  const kv = { txn: () => new Promise<never>(() => {}) };
  await using cached = new CachedKeyRange(prefix(''), kv, messages);
  await cached.waitForRevision(7n);
  expect(cached.range().map((each) => each.keyText())).toEqual(['b']);
});

test('`CachedRange.changes` yields the differences that the cached range finds when it reads the range again', async () => {
  const kvOf = (key: string, value: string, modRevision: bigint): KeyValue =>
    ({ key: Buffer.from(key), value: Buffer.from(value), modRevision, lease: 0n }) as unknown as KeyValue;
  const cause = new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  let goOn = (): void => {};
  const isRead = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    const first = [kvOf('deleted', '1', 2n), kvOf('kept', '1', 3n), kvOf('put', '1', 4n), kvOf('restored', '1', 5n)];
    yield { type: 'keys', revision: 5n, kvs: first };
    yield { type: 'synced', revision: 5n };
    await isRead;
    yield { type: 'resync', cause };
    // A store that was restored from a backup may use a revision again, for another value.
    const next = [kvOf('created', '2', 6n), kvOf('kept', '1', 3n), kvOf('put', '2', 7n), kvOf('restored', '2', 5n)];
    yield { type: 'keys', revision: 7n, kvs: next };
    yield { type: 'synced', revision: 7n };
    await new Promise(() => {});
  }
  const kv = { txn: () => new Promise<never>(() => {}) };
  await using cached = new CachedKeyRange(prefix(''), kv, messages);
  await cached.waitForRevision(5n);
  const changes = cached.changes();
  goOn();
  await cached.waitForRevision(7n);
  const seen: string[] = [];
  for await (const { type, key } of changes) if (seen.push(`${type} ${Buffer.from(key)}`) === 4) break;
  expect(seen).toEqual(['delete deleted', 'put created', 'put put', 'put restored']);
});
