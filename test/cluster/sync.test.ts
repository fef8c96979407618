import { describe, expect, test } from 'vitest';
import { Session } from '../../src/concurrency/index.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { ownEtcd } from '../support/own-etcd.js';
import { recordingTransport } from '../support/recording-transport.js';

const NOBODY = 'http://127.0.0.1:1';

describe('a client that follows the list of members', () => {
  test('finds all of them from one, and lives on where that one dies', async (context) => {
    const { endpoints, processes } = await ownEtcd({ members: 3 });
    const [first] = processes;
    if (first === undefined) return context.skip('the servers are not ours to kill');
    const etcd = openClient({ endpoints: [first.endpoint] });
    const session = await Session.open(etcd);
    const watch = etcd.watch('k');
    await watch.created();
    expect((await etcd.sync()).toSorted()).toEqual(endpoints.toSorted());
    expect(etcd.endpoints.toSorted()).toEqual(endpoints.toSorted());
    await first.kill();
    // A read may be repeated until there is a leader again, a write may not.
    await etcd.get('k', { timeoutMs: 20_000 });
    await etcd.put('k', 'x');
    for await (const { kv } of watch) {
      expect(kv.text()).toBe('x');
      break;
    }
    expect(session.valid()).toBe(true);
  });

  test('every so often, does so from the first call on and not before, and stops when closed', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const { transport, sent } = recordingTransport();
    const lists = (): number => sent.filter(({ path }) => path === '/etcdserverpb.Cluster/MemberList').length;
    const etcd = openClient({ endpoints: endpoints.slice(0, 1), autoSyncIntervalMs: 50, transport });
    expect(sent).toEqual([]);
    await etcd.get('k');
    await expect.poll(lists).toBeGreaterThan(3);
    expect(etcd.endpoints.toSorted()).toEqual(endpoints.toSorted());
    await etcd.close();
    const before = lists();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(lists()).toBe(before);
  });

  test('leaves out what is not allowed, and stays as it is where nothing is', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const [first = '', second = ''] = endpoints;
    const one = openClient({ endpoints: [first], allowEndpoint: (url) => url === second });
    expect(await one.sync()).toEqual([second]);
    const none = openClient({ endpoints: [first], allowEndpoint: () => false });
    expect(await none.sync()).toEqual([first]);
    const broken = openClient({
      endpoints: [first],
      allowEndpoint: () => {
        throw new RangeError('not a URL of ours');
      },
    });
    await expect(broken.sync()).rejects.toThrow('not a URL of ours');
    expect((await broken.get('k'))?.text()).toBeUndefined();
  });

  test('goes back to the endpoints that it was given where no other answers', async () => {
    // As behind a load balancer: what the member advertises cannot be reached from here.
    const { endpoints } = await ownEtcd({ args: [`--advertise-client-urls=${NOBODY}`] });
    const etcd = openClient({ endpoints, connectTimeoutMs: 300 });
    expect(await etcd.sync()).toEqual([NOBODY]);
    await etcd.put('k', 'x', { timeoutMs: 5_000 });
    expect((await etcd.get('k'))?.text()).toBe('x');
  });

  test('is told at once of options that are none', async () => {
    for (const options of [{ autoSyncIntervalMs: 0 }, { autoSyncIntervalMs: '5' }, { allowEndpoint: 'https://a' }]) {
      const given = Promise.resolve().then(() => openClient(options as never));
      expect(await errorOf(given)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
    }
  });
});
