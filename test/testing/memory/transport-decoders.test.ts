import { expect, test } from 'vitest';
import { prefix } from '../../../src/client/kv/keys.js';
import { Client } from '../../../src/extras/full/client.js';
import { MemoryEtcd } from '../../../src/testing/memory/memory-etcd.js';
import { memory } from '../../../src/testing/memory/transport.js';

// `scan` decodes responses with a codec of its own, which cannot encode. The transport once encoded the responses of
// the server with that codec, so `scan` received no keys and a cached range waited forever.
test('`memory` delivers the keys of a scan and of a cached range', async () => {
  await using etcd = new Client({ transport: memory(new MemoryEtcd()) });
  for (const key of ['k/1', 'k/2']) await etcd.put(key, 'v');
  const scanned: string[] = [];
  for await (const kv of etcd.scan(prefix('k/'))) scanned.push(kv.key);
  expect(scanned).toEqual(['k/1', 'k/2']);
  await using cached = await etcd.cachedRange(prefix('k/'));
  expect(cached.size).toBe(2);
});
