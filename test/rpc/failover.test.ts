import { expect, inject, test } from 'vitest';
import { EtcdError, prefix, type WatchEvent } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { openClient } from '../support/client.js';
import { ownEtcd } from '../support/own-etcd.js';
import { valueText } from '../support/watch-events.js';

test('a client keeps its watches and locks, and the cluster applies no put twice, when the leader of three members is killed (S2, S27, S30)', async (context) => {
  const cluster = await ownEtcd({ members: 3 });
  if (cluster.members.length === 0) return context.skip('the test cannot kill these servers');
  const etcd = openClient({ endpoints: cluster.endpoints });
  const leader = await leaderOf(cluster.endpoints);
  // The leader is first in the list, so the client is connected to the leader when the test kills the leader.
  const onLeader = openClient({ endpoints: [leader, ...cluster.endpoints.filter((endpoint) => endpoint !== leader)] });
  const watch = onLeader.watch(prefix('n/'));
  await watch.created();
  const session = await Session.open(onLeader, { ttl: 10 });
  const held = await new Mutex(session, 'lock').lock();

  const outcomes = new Map<string, string>();
  const put = async (name: string): Promise<void> => {
    try {
      await onLeader.put(`n/${name}`, name);
      outcomes.set(name, 'done');
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      outcomes.set(name, error.outcome);
    }
  };
  for (let index = 0; index < 20; index += 1) await put(`before-${index}`);
  const during = Promise.all(Array.from({ length: 20 }, (_, index) => put(`during-${index}`)));
  await cluster.members.find(({ endpoint }) => endpoint === leader)?.kill();
  await during;
  for (let index = 0; index < 20; index += 1) await put(`after-${index}`);
  await put('last');
  expect(outcomes.get('last')).toBe('done');
  expect(held.valid()).toBe(true);

  const seen: WatchEvent[] = [];
  for await (const event of watch) {
    seen.push(event);
    if (valueText(event) === 'last') break;
  }
  const { kvs } = await etcd.range(prefix('n/'), { sort: { target: 'modRevision', order: 'asc' } });
  expect(seen.map(valueText)).toEqual(kvs.map((kv) => kv.text()));
  const versions = new Map(kvs.map((kv) => [kv.text(), kv.version]));
  for (const [name, outcome] of outcomes) {
    const allowed = { done: [1n], unknown: [1n, undefined] }[outcome] ?? [undefined];
    expect([name, allowed]).toEqual([name, expect.arrayContaining([versions.get(name)])]);
  }
  await held.release();
});

test('the client moves its watches and keepalives to another member as soon as the current member sends GOAWAY, so that the current member can exit without waiting', async (context) => {
  if (inject('transport') !== 'http2') return context.skip('grpc-js does not report GOAWAY');
  const { members, endpoints } = await ownEtcd({ members: 3 });
  const [first] = members;
  if (first === undefined) return context.skip('the test cannot stop these servers');
  const etcd = openClient({ endpoints });
  const watch = etcd.watch('k');
  await watch.created();
  const session = await Session.open(etcd, { ttl: 5 });
  const startedAt = performance.now();
  await first.stop();
  // If a stream stayed open, etcd would wait for it for seven seconds.
  expect(performance.now() - startedAt).toBeLessThan(6_000);
  await etcd.get('k', { timeoutMs: 20_000 });
  await etcd.put('k', 'x');
  for await (const event of watch) {
    expect(valueText(event)).toBe('x');
    break;
  }
  expect(session.valid()).toBe(true);
});

async function leaderOf(endpoints: readonly string[]): Promise<string> {
  for (const endpoint of endpoints) {
    const { header, leader } = await openClient({ endpoints: [endpoint] }).raw.maintenance.status({});
    if (header?.memberId === leader) return endpoint;
  }
  throw new Error('no member reports that it is the leader');
}
