import { expect, test } from 'vitest';
import { EtcdError, type KeyValue, type MirrorMessage, prefix } from '../../src/index.js';
import { CachedRange } from '../../src/mirror/cached-range.js';

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
  await using cached = new CachedRange(prefix(''), kv, messages);
  await cached.waitForRevision(7n);
  expect(cached.range().map((each) => each.keyText())).toEqual(['b']);
});
