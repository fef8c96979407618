import { expect, test } from 'vitest';
import { EtcdError, type KeyValue, type MirrorMessage, prefix } from '../../src/index.js';
import { CachedRange } from '../../src/mirror/cached-range.js';
import type { Mirror } from '../../src/mirror/mirror.js';

test('a reading that breaks off leaves none of its keys in the next one', async () => {
  const kv = (key: string): KeyValue => ({ key: Buffer.from(key), keyText: () => key }) as unknown as KeyValue;
  const cause = new EtcdError('gone', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  async function* messages(): AsyncGenerator<MirrorMessage, void> {
    yield { type: 'keys', revision: 5n, kvs: [kv('a'), kv('b')] };
    yield { type: 'resync', cause };
    yield { type: 'keys', revision: 7n, kvs: [kv('b')] };
    yield { type: 'synced', revision: 7n };
    await new Promise(() => {});
  }
  const source = { mirror: () => messages() as unknown as Mirror, look: () => new Promise<never>(() => {}) };
  await using cached = new CachedRange(prefix(''), source);
  await cached.waitForRevision(7n);
  expect(cached.range().map((each) => each.keyText())).toEqual(['b']);
});
