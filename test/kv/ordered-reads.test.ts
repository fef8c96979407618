import { describe, expect, test } from 'vitest';
import type { ResponseHeader } from '../../src/gen/etcdserverpb/rpc.js';
import { type Client, type ClientOptions, compare, op, prefix } from '../../src/index.js';
import type { FaultProxy } from '../../src/testing/index.js';
import { defaultTransport } from '../../src/transport/default-transport.js';
import type { TransportFactory } from '../../src/transport/transport.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';

// Two independent servers play the role of two members of a cluster, one of which lags behind the other.

const SERIALIZABLE = { serializable: true } as const;

describe('a serializable read (with `orderedReads` unless noted)', () => {
  test('may return an older revision than an earlier read when `orderedReads` is off', async () => {
    const { ahead, behind } = await twoServers();
    const etcd = openClient({
      endpoints: [behind.endpoint, ahead.endpoint],
      balance: 'in-order',
      transport: anonymous,
    });
    expect((await etcd.get('k', { ...SERIALIZABLE, endpoint: ahead.endpoint }))?.text()).toBe('new');
    const { kvs, header } = await etcd.range('k', SERIALIZABLE);
    expect(kvs[0]?.text()).toBe('old');
    expect(header.revision).toBeLessThan(ahead.revision);
  });

  test('is answered by another endpoint when the first endpoint lags behind an earlier read', async () => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([behind.endpoint, ahead.endpoint], { transport });
    expect((await etcd.get('k', SERIALIZABLE))?.text()).toBe('old');
    await etcd.get('k', { ...SERIALIZABLE, endpoint: ahead.endpoint });
    for (let round = 0; round < 5; round += 1) {
      const { kvs, header } = await etcd.range('k', SERIALIZABLE);
      expect([kvs[0]?.text(), header.revision]).toEqual(['new', ahead.revision]);
    }
    expect(asked(behind.endpoint)).toBeGreaterThan(5);
  });

  test('is answered within its time limit when one endpoint is down and another endpoint lags behind', async () => {
    const { ahead, behind, proxy } = await twoServers();
    const etcd = ordered([proxy.endpoint, behind.endpoint, ahead.endpoint]);
    expect((await etcd.get('k', SERIALIZABLE))?.text()).toBe('new');
    await proxy.close();
    expect((await etcd.get('k', { ...SERIALIZABLE, timeoutMs: 3_000 }))?.text()).toBe('new');
  });

  test('rejects with StaleRead at its time limit when every reachable endpoint lags behind', async () => {
    const { ahead, behind, proxy } = await twoServers();
    const etcd = ordered([behind.endpoint, proxy.endpoint]);
    await etcd.get('k', { ...SERIALIZABLE, endpoint: proxy.endpoint });
    await proxy.close();
    const error = await errorOf(etcd.get('k', { ...SERIALIZABLE, timeoutMs: 300 }));
    expect(error).toMatchObject({ reason: 'StaleRead', code: 'Unavailable', outcome: 'rejected' });
    expect(error.message).toContain(`no endpoint has reached revision ${ahead.revision}`);
    expect(error.message).toContain('timeoutMs = 300');
  });

  test('is answered as soon as the endpoint in its options has caught up', async () => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([ahead.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    const read = etcd.range('k', { ...SERIALIZABLE, endpoint: behind.endpoint });
    await expect.poll(() => asked(behind.endpoint)).toBeGreaterThan(2);
    await writeUpTo(behind.client, ahead.revision, 'caught up');
    const { kvs, header } = await read;
    expect(kvs[0]?.text()).toBe('caught up');
    expect(header.revision).toBeGreaterThanOrEqual(ahead.revision);
  });

  test('is answered as soon as a lagging endpoint has caught up, even if the other endpoint is down', async () => {
    const { ahead, behind, proxy } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([proxy.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    await proxy.close();
    const read = etcd.get('k', { ...SERIALIZABLE, timeoutMs: 5_000 });
    await Promise.all([
      expect(read.then((kv) => kv?.text())).resolves.toBe('caught up'),
      expect
        .poll(() => asked(behind.endpoint))
        .toBeGreaterThan(0)
        .then(() => writeUpTo(behind.client, ahead.revision, 'caught up')),
    ]);
  });

  test('rejects with Canceled when its signal aborts while the endpoint lags behind', async () => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([ahead.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    const stop = new AbortController();
    const read = errorOf(etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, signal: stop.signal }));
    await expect.poll(() => asked(behind.endpoint)).toBeGreaterThan(2);
    stop.abort(new Error('enough'));
    expect(await read).toMatchObject({ reason: 'Canceled', cause: { message: 'enough' } });
  });

  test('is sent only to the endpoint in its options', async () => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([ahead.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    const named = { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 };
    expect(await errorOf(etcd.get('k', named))).toMatchObject({ reason: 'StaleRead' });
    expect(asked(ahead.endpoint)).toBe(1);
  });

  test('does not return stale data in a read-only transaction or in a namespace', async () => {
    const { ahead, behind } = await twoServers();
    const etcd = ordered([behind.endpoint, ahead.endpoint]);
    await etcd.get('k', { ...SERIALIZABLE, endpoint: ahead.endpoint });
    const read = (options: { endpoint?: string; timeoutMs: number }) =>
      etcd.txn({ then: [op.get('k', SERIALIZABLE), op.range(prefix('k'), SERIALIZABLE)] }, options);
    const result = await read({ timeoutMs: 5_000 });
    expect([result.succeeded && result.responses[0]?.text(), result.header.revision]).toEqual(['new', ahead.revision]);
    const named = { endpoint: behind.endpoint, timeoutMs: 200 };
    expect(await errorOf(read(named))).toMatchObject({ reason: 'StaleRead', method: '/etcdserverpb.KV/Txn' });
    const inside = etcd.namespace('k');
    expect(await errorOf(inside.get('x', { ...SERIALIZABLE, ...named }))).toMatchObject({ reason: 'StaleRead' });
  });

  test('rejects with StaleRead when the endpoint lags behind an earlier write of the client', async () => {
    const { ahead, behind } = await twoServers();
    const etcd = ordered([ahead.endpoint, behind.endpoint]);
    const { header } = await etcd.put('k', 'newer');
    const error = await errorOf(etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 }));
    expect(error.reason).toBe('StaleRead');
    expect(error.message).toContain(`has reached revision ${header.revision},`);
  });
});

test('a slow read may, even with `orderedReads`, return an older revision than a read that started later and ended earlier', async () => {
  const { ahead, behind } = await twoServers();
  let release = (): void => {};
  let answered = false;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const etcd = ordered([ahead.endpoint, behind.endpoint], {
    transport: (endpoint, options) => {
      const inner = anonymous(endpoint, options);
      if (endpoint.url !== behind.endpoint) return inner;
      const held: typeof inner.unary = async (call) => {
        const response = await inner.unary(call);
        answered = true;
        await released;
        return response;
      };
      return { unary: held, stream: inner.stream.bind(inner), close: () => inner.close() };
    },
  });
  const slow = etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 5_000 });
  await expect.poll(() => answered).toBe(true);
  const quick = await etcd.get('k', { ...SERIALIZABLE, endpoint: ahead.endpoint });
  release();
  expect([quick?.text(), (await slow)?.text()]).toEqual(['new', 'old']);
  // A read that starts after the newer revision has arrived must not return the older revision.
  const late = etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 });
  expect(await errorOf(late)).toMatchObject({ reason: 'StaleRead' });
});

test('concurrent reads with `orderedReads` from one server all succeed at the first attempt while another client writes', async () => {
  const { ahead } = await twoServers();
  const { transport, asked } = counting();
  const etcd = ordered([ahead.endpoint], { transport });
  const revisions = new Set<bigint>();
  for (let round = 0; round < 20; round += 1) {
    const writes = Promise.all(Array.from({ length: 20 }, (_, index) => ahead.client.put('k', String(index))));
    const reads = await Promise.all(Array.from({ length: 50 }, () => etcd.range('k', SERIALIZABLE)));
    for (const { header } of reads) revisions.add(header.revision);
    await writes;
  }
  expect(asked(ahead.endpoint)).toBe(20 * 50);
  expect(revisions.size).toBeGreaterThan(10);
});

test.each([
  ['a put', (etcd: Client, endpoint: string) => etcd.put('w', 'x', { endpoint, timeoutMs: 500 })],
  ['a deletion', (etcd: Client, endpoint: string) => etcd.delete('w', { endpoint, timeoutMs: 500 })],
  [
    'a transaction that writes',
    (etcd: Client, endpoint: string) =>
      etcd.txn({ if: [compare.version('n', '==', 0n)], then: [op.put('w', 'x')] }, { endpoint, timeoutMs: 500 }),
  ],
])(
  '%s is sent only once when its response has an older revision than an earlier read, as after a restore from a backup',
  async (_what, write) => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([ahead.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    await write(etcd, behind.endpoint);
    expect(asked(behind.endpoint)).toBe(1);
  },
);

interface Place {
  readonly endpoint: string;
  /** A client of only this server, with orderedReads off. */
  readonly client: Client;
  readonly revision: bigint;
}

/**
 * Starts two servers. The key "k" has the value "new" on the server that is ahead, and "old" on the server that is
 * behind. The proxy forwards to the server that is ahead.
 */
async function twoServers(): Promise<{ ahead: Place; behind: Place; proxy: FaultProxy }> {
  const [first, second] = await Promise.all([ownEtcd(), ownEtcd()]);
  const place = async (endpoint: string, writes: readonly string[]): Promise<Place> => {
    const client = openClient({ endpoints: [endpoint] });
    let revision = 0n;
    for (const value of writes) revision = (await client.put('k', value)).header.revision;
    return { endpoint, client, revision };
  };
  const ahead = await place(first.endpoints[0] as string, ['1', '2', '3', '4', '5', 'new']);
  const behind = await place(second.endpoints[0] as string, ['old']);
  return { ahead, behind, proxy: await faultProxy(ahead.endpoint) };
}

function ordered(endpoints: readonly string[], options: Partial<ClientOptions> = {}): Client {
  return openClient({ endpoints, balance: 'in-order', orderedReads: true, transport: anonymous, ...options });
}

async function writeUpTo(client: Client, revision: bigint, value: string): Promise<void> {
  while ((await client.put('k', value)).header.revision < revision);
}

/**
 * The default transport, but with the cluster ID 0 in every unary response, because the two servers belong to different
 * clusters.
 */
const anonymous: TransportFactory = (endpoint, options) => {
  const inner = defaultTransport(endpoint, options);
  return {
    unary: async (call) => {
      const response = await inner.unary(call);
      const { header } = response as { readonly header?: ResponseHeader };
      return header === undefined ? response : { ...response, header: { ...header, clusterId: 0n } };
    },
    stream: inner.stream.bind(inner),
    close: () => inner.close(),
  };
};

/** Returns a transport that counts the unary calls to each endpoint, and a function that returns such a count. */
function counting(): { transport: TransportFactory; asked: (endpoint: string) => number } {
  const counts = new Map<string, number>();
  const asked = (endpoint: string): number => counts.get(endpoint) ?? 0;
  const transport: TransportFactory = (endpoint, options) => {
    const inner = anonymous(endpoint, options);
    return {
      unary: (call) => {
        counts.set(endpoint.url, asked(endpoint.url) + 1);
        return inner.unary(call);
      },
      stream: inner.stream.bind(inner),
      close: () => inner.close(),
    };
  };
  return { transport, asked };
}
