import { expect, test } from 'vitest';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { ownEtcd } from '../../support/own-etcd.js';

const TIMEOUT_MS = 2_000;

// Rule S41 (docs/semantics.md): The client tests the connection if a call times out without a response.
test('a client fails one call, and then reconnects, when its connection to etcd silently loses all bytes', async () => {
  const etcd = await ownEtcd();
  let connections = 0;
  const proxy = await faultProxy(etcd.endpoints[0] as string, {
    senderOf: (bytes) => (Buffer.from(bytes).toString('latin1', 0, 3) === 'PRI' ? `${++connections}` : undefined),
  });
  const client = openClient({ endpoints: [proxy.endpoint] });
  const key = unique();
  await client.put(key, 'before', { timeoutMs: TIMEOUT_MS });
  proxy.cutOff('1');
  const error = await errorOf(client.put(key, 'lost', { timeoutMs: TIMEOUT_MS }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  expect((await client.get(key, { timeoutMs: TIMEOUT_MS }))?.text()).toBe('before');
  await client.put(key, 'after', { timeoutMs: TIMEOUT_MS });
  expect(connections).toBe(2);
});
