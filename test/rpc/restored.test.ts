import { describe, expect, test } from 'vitest';
import { parseEndpoint } from '../../src/host/endpoint.js';
import { prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { defaultTransport } from '../../src/wire/default-transport.js';
import type { Transport } from '../../src/wire/transport.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { restorableEtcd } from '../support/restorable-etcd.js';

// Rule S40 (docs/semantics.md): the client notices a restored cluster.
describe('the client of a cluster that is restored from an older copy', () => {
  test('ends existing watches with reason ClusterChanged, and delivers later writes to new watches', async () => {
    const etcd = await restorableEtcd();
    const client = openClient({ endpoints: etcd.endpoints });
    await client.put('k', 'before');
    await etcd.backup();
    for (let write = 0; write < 5; write += 1) await client.put('k', 'lost');
    const watch = client.watch('k');
    await watch.created();
    await client.put('k', 'seen');
    const batches = watch.batches();
    expect((await batches.next()).value?.events[0]?.kv.text()).toBe('seen');
    const ended = errorOf(batches.next());
    await etcd.restore();
    expect(await ended).toMatchObject({ reason: 'ClusterChanged', code: 'FailedPrecondition' });
    expect((await client.get('k'))?.text()).toBe('before');
    const again = client.watch('k');
    await again.created();
    await client.put('k', 'after');
    expect((await again.batches().next()).value?.events[0]?.kv.text()).toBe('after');
  });

  test('reads all keys of a cached range again', async () => {
    const etcd = await restorableEtcd();
    const client = openClient({ endpoints: etcd.endpoints });
    await client.put('k/kept', 'before');
    await etcd.backup();
    const cached = await client.cachedRange(prefix('k/'));
    const { header } = await client.put('k/lost', 'x');
    await cached.waitForRevision(header.revision);
    await etcd.restore();
    await expect.poll(() => cached.range().map((kv) => kv.key)).toEqual(['k/kept']);
    expect(cached.revision).toBeLessThan(header.revision);
    const added = await client.put('k/added', 'y');
    await cached.waitForRevision(added.header.revision);
    expect(cached.range().map((kv) => kv.key)).toEqual(['k/added', 'k/kept']);
  });

  test('reads the whole range after a restart when a mirror continues from a revision that the copy does not contain', async () => {
    const etcd = await restorableEtcd();
    const before = openClient({ endpoints: etcd.endpoints });
    await before.put('k/kept', 'before');
    await etcd.backup();
    const { header } = await before.put('k/lost', 'x');
    await etcd.restore();
    // A new client has seen no revision, so that only `fromRevision` shows that the store went back.
    const restarted = openClient({ endpoints: etcd.endpoints });
    const found: string[] = [];
    for await (const message of restarted.mirror(prefix('k/'), { fromRevision: header.revision })) {
      found.push(message.type === 'keys' ? message.kvs.map((kv) => kv.key).join() : message.type);
      if (message.type === 'synced') break;
    }
    expect(found).toEqual(['resync', 'k/kept', 'synced']);
  });

  test('ends a lock whose key is not in the copy, although the lease of the lock is in the copy', async () => {
    const etcd = await restorableEtcd();
    const client = openClient({ endpoints: etcd.endpoints });
    const session = await Session.open(client, { ttl: 60 });
    await etcd.backup();
    const held = await new Mutex(session, 'lock').lock();
    expect(held.valid()).toBe(true);
    await etcd.restore();
    await expect.poll(() => held.signal.aborted).toBe(true);
    expect(held.signal.reason).toMatchObject({ reason: 'ClusterChanged' });
    expect(session.valid()).toBe(false);
    expect(await client.get(held.key)).toBeUndefined();
  });

  test('rejects only the first ordered read after the restoration, with reason ClusterChanged', async () => {
    const etcd = await restorableEtcd();
    const client = openClient({ endpoints: etcd.endpoints, orderedReads: true });
    await client.put('k', 'before');
    await etcd.backup();
    await client.put('k', 'lost');
    await etcd.restore();
    expect(await errorOf(client.get('k', { serializable: true }))).toMatchObject({
      reason: 'ClusterChanged',
      outcome: 'rejected',
    });
    expect((await client.get('k', { serializable: true }))?.text()).toBe('before');
    await client.put('k', 'after');
    expect((await client.get('k', { serializable: true }))?.text()).toBe('after');
  });
});

// Rule S40: the client notices a replaced cluster.
describe('a client whose endpoint now belongs to another cluster', () => {
  test('rejects calls, and ends watches and sessions, with reason ClusterChanged', async () => {
    const [first, second] = [await ownEtcd(), await ownEtcd({ args: ['--initial-cluster-token=another'] })];
    const [before, after] = [first.endpoints[0] as string, second.endpoints[0] as string];
    let current = before;
    // The transport connects to `current`, so that the test can replace the server behind the address.
    const client = openClient({
      endpoints: [before],
      transport: (_endpoint, options) => {
        const transports = new Map<string, Transport>();
        const inner = (): Transport => {
          let transport = transports.get(current);
          if (transport === undefined) {
            transport = defaultTransport(parseEndpoint(current, 'endpoint'), options);
            transports.set(current, transport);
          }
          return transport;
        };
        return {
          unary: (call) => inner().unary(call),
          stream: (call, handler) => inner().stream(call, handler),
          close: async () => void (await Promise.all([...transports.values()].map((each) => each.close()))),
        };
      },
    });
    const session = await Session.open(client, { ttl: 5 });
    const watch = client.watch('k');
    await watch.created();
    const batches = watch.batches();
    current = after;
    expect(await errorOf(client.get('k'))).toMatchObject({ reason: 'ClusterChanged', endpoint: before });
    expect(await errorOf(client.put('k', 'v'))).toMatchObject({ reason: 'ClusterChanged', outcome: 'unknown' });
    const ended = errorOf(batches.next());
    await first.close();
    expect(await ended).toMatchObject({ reason: 'ClusterChanged' });
    await expect.poll(() => session.signal.aborted).toBe(true);
    expect(session.signal.reason).toMatchObject({ reason: 'ClusterChanged' });
  });
});

// The error that a server sends contains no cluster ID, so a client that only writes must make a read to learn the ID.
test('a put with `retryWrites` rejects with reason ClusterChanged and writes nothing when the endpoints belong to two clusters', async () => {
  const servers = [await ownEtcd(), await ownEtcd({ args: ['--initial-cluster-token=another'] })];
  const endpoints = servers.flatMap((server) => server.endpoints);
  const client = openClient({ endpoints, balance: 'round-robin', retryWrites: true });
  const error = await errorOf(client.put('k', 'v', { timeoutMs: Number.POSITIVE_INFINITY }));
  expect(error).toMatchObject({ reason: 'ClusterChanged', outcome: 'not-sent' });
  for (const endpoint of endpoints) {
    const reader = openClient({ endpoints: [endpoint] });
    expect(await reader.get('k')).toBeUndefined();
  }
});
