import { describe, expect, test } from 'vitest';
import { type Client, type Interceptor, type MirrorMessage, op, prefix } from '../../../src/index.js';
import { Random } from '../../simulation/random.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { Replica, rawEvents, stateAt, writeSome } from '../../support/replica.js';

const RANGE: string = '/etcdserverpb.KV/Range';

describe('a mirror with `fromRevision`', () => {
  test('delivers the changes after that revision, and does not read the range', async () => {
    const [etcd, start] = [openClient(), `${unique('mirror')}/`];
    await etcd.put(`${start}a`, 'applied');
    const { header } = await etcd.txn({ then: [op.put(`${start}b`, 'applied'), op.put(`${start}c`, 'applied')] });
    await etcd.txn({ then: [op.put(`${start}b`, 'new'), op.delete(`${start}c`)] });
    await etcd.put(`${start}last`, 'x');
    const messages = await take(etcd, start, { fromRevision: header.revision }, `${start}last`);
    expect(messages.map(({ type }) => type)).toEqual(['events', 'events']);
    expect(messages.flatMap((message) => (message.type === 'events' ? message.events : [])).length).toBe(3);
  });

  test.each([1, 2])('continues exactly after each restart while other clients write (seed %i)', async (seed) => {
    const [random, start] = [new Random(seed), `${unique('mirror')}/`];
    const direct = openClient();
    const writers = ['x', 'y'].map((who) => writeSome(openClient(), start, who, 40));
    const writing = Promise.all(writers).then(() => direct.put(`${start}last`, 'x'));
    const replica = new Replica();
    let fromRevision = 0n;
    let starts = 0;
    for (; !replica.has(`${start}last`); starts += 1) {
      // A restarted program has a new client. It persists the revision after a complete message, and may end at any
      // time after that.
      const etcd = openClient();
      let left = 1 + random.below(40);
      for await (const message of etcd.mirror(prefix(start), { fromRevision })) {
        replica.take(message);
        if (message.type === 'synced' || message.type === 'events') fromRevision = message.revision;
        left -= 1;
        if (replica.has(`${start}last`) || (left <= 0 && message.type !== 'keys')) break;
      }
      await etcd.close();
    }
    await writing;
    expect(starts).toBeGreaterThan(3);
    expect(replica.types.filter((type) => type === 'synced')).toHaveLength(1);
    expect(replica.events).toEqual(await rawEvents(direct, start, replica.syncedAt, `${start}last`));
    expect(replica.state).toEqual(await stateAt(direct, prefix(start), 0n));
  });

  test.each([4, 5, 6])(
    'ends with exactly the keys of the store when the history is compacted at random moments (seed %i)',
    async (seed) => {
      const random = new Random(seed);
      const { endpoints } = await ownEtcd();
      const direct = openClient({ endpoints });
      const replica = new Replica();
      let fromRevision = 0n;
      for (let round = 0; round < 12; round += 1) {
        await writeSome(direct, 'a/', String(round), 1 + random.below(5));
        const { header } = await direct.put('a/last', String(round));
        const etcd = openClient({ endpoints });
        // Some rounds compact before the mirror starts, some while it catches up, and some not at all.
        const when = random.below(3);
        const compact = (): Promise<unknown> => direct.compact(header.revision).catch(() => {});
        if (when === 0) await compact();
        const compacting = when === 1 ? compact() : undefined;
        for await (const message of etcd.mirror(prefix('a/'), { fromRevision })) {
          replica.take(message);
          if (message.type === 'keys' || message.type === 'resync') fromRevision = 0n;
          else fromRevision = message.revision;
          if (fromRevision >= header.revision) break;
        }
        await compacting;
        await etcd.close();
        expect(replica.state).toEqual(await stateAt(direct, prefix('a/'), 0n));
      }
      expect(replica.types).toContain('resync');
      expect(replica.types).toContain('events');
    },
  );

  test('first delivers `resync` and then the whole range when the changes after the revision are compacted', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const { header } = await etcd.put('a/gone', 'x');
    await etcd.delete('a/gone');
    await etcd.compact((await etcd.put('a/there', 'x')).header.revision);
    const messages = await take(etcd, 'a/', { fromRevision: header.revision }, 'a/there');
    expect(messages.map(({ type }) => type)).toEqual(['resync', 'keys', 'synced']);
    expect(messages[0]).toMatchObject({ cause: { reason: 'Compacted' } });
    expect(messages[1]).toMatchObject({ kvs: [{ value: new TextEncoder().encode('x') }] });
  });

  test('delivers no `resync` when only the revision itself and older revisions are compacted', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const { header } = await etcd.put('a/x', 'applied');
    await etcd.put('a/last', 'x');
    await etcd.compact(header.revision + 1n);
    const messages = await take(etcd, 'a/', { fromRevision: header.revision }, 'a/last');
    expect(messages.map(({ type }) => type)).toEqual(['events']);
  });

  test('first delivers `resync` and then the whole range when the store is at an older revision', async () => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const { header } = await etcd.put('a/last', 'x');
    const messages = await take(etcd, 'a/', { fromRevision: header.revision + 5n }, 'a/last');
    expect(messages.map(({ type }) => type)).toEqual(['resync', 'keys', 'synced']);
    expect(messages[0]).toMatchObject({ cause: { reason: 'ClusterChanged' } });
  });

  test('first delivers `resync` and then the whole range when another cluster than `clusterId` answers', async () => {
    const [etcd, start] = [openClient(), `${unique('mirror')}/`];
    const { header } = await etcd.put(`${start}last`, 'x');
    const { clusterId, revision } = header;
    const other = await take(etcd, start, { fromRevision: revision, clusterId: clusterId ^ 1n }, `${start}last`);
    expect(other.map(({ type }) => type)).toEqual(['resync', 'keys', 'synced']);
    expect(other[0]).toMatchObject({ cause: { reason: 'ClusterChanged' } });
    const same = await take(etcd, start, { fromRevision: revision - 1n, clusterId }, `${start}last`);
    expect(same.map(({ type }) => type)).toEqual(['events']);
  });

  test('waits at a member that has not reached the revision yet, and then delivers only later changes', async () => {
    const { endpoints } = await ownEtcd();
    const direct = openClient({ endpoints });
    const { header } = await direct.put('a/x', 'x');
    const fromRevision = header.revision + 2n;
    // The linearizable read finds the revision of the cluster, which the member of the watch has not reached yet.
    const ahead: Interceptor = {
      async unary(call, next) {
        const response = await next(call);
        if (call.method.path === RANGE) Object(response).header.revision = fromRevision;
        return response;
      },
    };
    const etcd = openClient({ endpoints, interceptors: [ahead] });
    const messages = etcd.mirror(prefix('a/'), { fromRevision })[Symbol.asyncIterator]();
    const first = messages.next();
    for (const value of ['applied', 'applied too', 'new']) await direct.put('a/x', value);
    const { value } = await first;
    expect(value).toMatchObject({ type: 'events', revision: fromRevision + 1n });
    await messages.return?.();
  });

  test.each([0, 1])('waits while no server answers at the start (with `fromRevision`: %i)', async (continues) => {
    const { direct, proxy } = await proxied();
    const start = `${unique('mirror')}/`;
    const { header } = await direct.put(`${start}a`, 'applied');
    proxy.blackhole();
    let reads = 0;
    const counts: Interceptor = {
      unary: (call, next) => {
        reads += 1;
        return next(call);
      },
    };
    const etcd = openClient({ endpoints: [proxy.endpoint], timeoutMs: 100, interceptors: [counts] });
    const fromRevision = continues ? header.revision : 0n;
    const taking = take(etcd, start, { fromRevision }, `${start}last`);
    await expect.poll(() => reads).toBeGreaterThan(2);
    await direct.put(`${start}last`, 'x');
    proxy.heal();
    proxy.dropConnections();
    const messages = await taking;
    expect(messages.map(({ type }) => type)).toEqual(continues ? ['events'] : ['keys', 'synced']);
  });

  test('continues with the revision and the cluster ID of its last message', async () => {
    const [etcd, start] = [openClient(), `${unique('mirror')}/`];
    const { header } = await etcd.put(`${start}last`, '1');
    const [, synced] = await take(etcd, start, { fromRevision: 0n }, `${start}last`);
    expect(synced).toMatchObject({ type: 'synced', clusterId: header.clusterId });
    await etcd.put(`${start}last`, '2');
    const { revision, clusterId } = synced as { readonly revision: bigint; readonly clusterId: bigint };
    const [events] = await take(openClient(), start, { fromRevision: revision, clusterId }, `${start}last`);
    expect(events).toMatchObject({ type: 'events', clusterId: header.clusterId });
  });

  test('reads the range first when `fromRevision` is 0n', async () => {
    const [etcd, start] = [openClient(), `${unique('mirror')}/`];
    await etcd.put(`${start}last`, 'x');
    const messages = await take(etcd, start, { fromRevision: 0n }, `${start}last`);
    expect(messages.map(({ type }) => type)).toEqual(['keys', 'synced']);
  });

  test('is refused when the revision or the cluster ID is not an integer in range', async () => {
    const etcd = openClient();
    for (const options of [{ fromRevision: 1.5 }, { fromRevision: -1n }, { clusterId: 2n ** 64n }])
      expect(await errorOf(() => etcd.mirror('a', options))).toMatchObject({ reason: 'InvalidInput' });
  });
});

/** Returns the messages of a mirror up to the event of the key `last`, or up to `synced`. */
async function take(
  etcd: Client,
  start: string,
  options: { readonly fromRevision: bigint; readonly clusterId?: bigint },
  last: string,
): Promise<MirrorMessage[]> {
  const messages: MirrorMessage[] = [];
  for await (const message of etcd.mirror(prefix(start), options)) {
    messages.push(message);
    if (message.type === 'synced') break;
    if (message.type === 'events' && message.events.some((event) => event.key === last)) break;
  }
  return messages;
}
