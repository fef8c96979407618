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

// Two servers that know nothing of each other stand for members of which one is behind, by as much as a test likes.

const SERIALIZABLE = { serializable: true } as const;

describe('serializable reads over a member that is behind', () => {
  test('go back in time where nothing was said of order', async () => {
    const { ahead, behind } = await twoServers();
    const etcd = openClient({ endpoints: [behind.endpoint, ahead.endpoint], transport: anonymous });
    expect((await etcd.get('k', { ...SERIALIZABLE, endpoint: ahead.endpoint }))?.text()).toBe('new');
    const { kvs, header } = await etcd.range('k', SERIALIZABLE);
    expect(kvs[0]?.text()).toBe('old');
    expect(header.revision).toBeLessThan(ahead.revision);
  });

  test('are put to the others, one of which has come as far', async () => {
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

  test('are put to the others in good time, though one of them is dead', async () => {
    const { ahead, behind, proxy } = await twoServers();
    const etcd = ordered([proxy.endpoint, behind.endpoint, ahead.endpoint]);
    expect((await etcd.get('k', SERIALIZABLE))?.text()).toBe('new');
    await proxy.close();
    expect((await etcd.get('k', { ...SERIALIZABLE, timeoutMs: 3_000 }))?.text()).toBe('new');
  });

  test('end with StaleRead where none of them has, when their time is up', async () => {
    const { ahead, behind, proxy } = await twoServers();
    const etcd = ordered([behind.endpoint, proxy.endpoint]);
    await etcd.get('k', { ...SERIALIZABLE, endpoint: proxy.endpoint });
    await proxy.close();
    const error = await errorOf(etcd.get('k', { ...SERIALIZABLE, timeoutMs: 300 }));
    expect(error).toMatchObject({ reason: 'StaleRead', code: 'Unavailable', outcome: 'rejected' });
    expect(error.message).toContain(`no endpoint has come as far as revision ${ahead.revision}`);
    expect(error.message).toContain('timeoutMs = 300');
  });

  test('are answered once it has caught up', async () => {
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

  test('are answered once it has caught up, though another is dead', async () => {
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

  test('end with their signal while they wait for it to catch up', async () => {
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

  test('that name it are put to no other', async () => {
    const { ahead, behind } = await twoServers();
    const { transport, asked } = counting();
    const etcd = ordered([ahead.endpoint, behind.endpoint], { transport });
    await etcd.get('k', SERIALIZABLE);
    const named = { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 };
    expect(await errorOf(etcd.get('k', named))).toMatchObject({ reason: 'StaleRead' });
    expect(asked(ahead.endpoint)).toBe(1);
  });

  test('in a transaction of nothing else are held to the same, and so are those in a namespace', async () => {
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

  test('are held to what was written before, too', async () => {
    const { ahead, behind } = await twoServers();
    const etcd = ordered([ahead.endpoint, behind.endpoint]);
    const { header } = await etcd.put('k', 'newer');
    const error = await errorOf(etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 }));
    expect(error.reason).toBe('StaleRead');
    expect(error.message).toContain(`as far as revision ${header.revision},`);
  });
});

test('a read is not too old for what another heard while it was under way', async () => {
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
  // Begun after it was heard, it is.
  const late = etcd.get('k', { ...SERIALIZABLE, endpoint: behind.endpoint, timeoutMs: 200 });
  expect(await errorOf(late)).toMatchObject({ reason: 'StaleRead' });
});

test('many reads at once, of a server that is written to, are all answered at the first attempt', async () => {
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
  '%s is sent once, whatever the revision of its answer: a restored cluster begins behind (S27)',
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
  /** Straight to it, with no order asked for. */
  readonly client: Client;
  readonly revision: bigint;
}

/** "k" is "new" on the one that is ahead, "old" on the other; the proxy stands before the one ahead. */
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
  return openClient({ endpoints, orderedReads: true, transport: anonymous, ...options });
}

async function writeUpTo(client: Client, revision: bigint, value: string): Promise<void> {
  while ((await client.put('k', value)).header.revision < revision);
}

/** The real transport, but answers do not name their cluster: the two servers of these tests are members of two. */
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

/** The real transport, with a count of the calls at each endpoint. */
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
