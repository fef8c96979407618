import { expect, inject, test } from 'vitest';
import { type Client, prefix } from '../../../src/index.js';
import { persisted } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { faultProxy } from '../../support/fault-proxy.js';

// A range in memory waits for a server when it starts, as a watch does. The time limit of the client applies to the calls
// of the range, and not to the range.

const LIMIT_MS = 50;

const STARTS: Readonly<Record<string, (etcd: Client, name: string) => Promise<unknown>>> = {
  cachedRange: async (etcd, name) => (await etcd.cachedRange(prefix(name))).get(`${name}a`)?.text(),
  'cachedRange with a greater limit': async (etcd, name) =>
    (await etcd.cachedRange(prefix(name), { timeoutMs: 60_000 })).get(`${name}a`)?.text(),
  persisted: async (etcd, name) => {
    const store = { load: async () => undefined, save: async () => {} };
    return (await persisted(etcd, prefix(name), store)).get(`${name}a`)?.text();
  },
  mirror: async (etcd, name) => {
    for await (const message of etcd.mirror(prefix(name))) if (message.type === 'keys') return message.kvs[0]?.text();
    return undefined;
  },
};

test.each(Object.keys(STARTS))('%s waits for a server for longer than the time limit of the client', async (start) => {
  const name = `${unique()}/`;
  await openClient().put(`${name}a`, '1');
  const proxy = await faultProxy(inject('endpoints')[0] as string);
  proxy.blackhole();
  const etcd = openClient({ endpoints: [proxy.endpoint], timeoutMs: LIMIT_MS, connectTimeoutMs: LIMIT_MS });
  // The client reports the first failure after its time limit, and then tries again.
  const failed = new Promise(
    (resolve) => void etcd.onEvent((event) => event.type === 'endpoint unavailable' && resolve(0)),
  );
  const starting = STARTS[start]?.(etcd, name);
  await failed;
  await expect(etcd.get('k')).rejects.toMatchObject({ reason: 'DeadlineExceeded' });
  proxy.heal();
  expect(await starting).toBe('1');
});
