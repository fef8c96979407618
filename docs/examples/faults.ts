// A test of a lock and of a watch while the leader is killed, connections break, and a member stops answering. Three
// contenders take turns holding the lock. At the end, the program checks that no two contenders held the lock at the same
// time, and that a watch lost no event.

import { Client, prefix, type Watch } from 'etcdwire';
import { withLock } from 'etcdwire/locks';
import { type Claim, checkLock, checkWatch, EtcdCluster, FaultProxy, type SeenEvent } from 'etcdwire/testing';

await using cluster = await EtcdCluster.start({ members: 3, etcd: process.env.ETCD_BIN });
const proxies = await Promise.all(cluster.endpoints.map((endpoint) => FaultProxy.start(endpoint)));
await using etcd = new Client({ endpoints: proxies.map((proxy) => proxy.endpoint), pingIntervalMs: 5_000 });
await using direct = new Client({ endpoints: cluster.endpoints });
const startRevision = (await direct.put('begin', '')).header.revision;
const seen = eventsUntil('lock/end', etcd.watch(prefix('lock/'), { startRevision }));

const claims: Claim[] = [];
let over = false;
const contenders = ['a', 'b', 'c'].map(async (holder) => {
  while (!over) {
    const holding = withLock(etcd, 'lock', async ({ token }) => {
      const fromMs = performance.now();
      await etcd.put('used-by', holder);
      claims.push({ holder, token, fromMs, untilMs: performance.now() });
    });
    // A contender that did not get the lock, or lost it during the put, records no claim.
    await holding.catch(() => {});
  }
});

const leader = await cluster.leader();
await leader.kill();
await etcd.get('begin'); // The other members answer once they have elected a leader.
await leader.start();
for (const proxy of proxies) proxy.reset();
proxies[0]?.blackhole();
await etcd.get('begin'); // The client leaves the silent member when a ping remains unanswered.
proxies[0]?.heal();
over = true;
await Promise.all(contenders);

// The true history, read from the members directly.
await direct.put('lock/end', '');
const truth = (await eventsUntil('lock/end', direct.watch(prefix('lock/'), { startRevision }))).flat();
console.log(claims.length > 0, checkLock(claims, truth), checkWatch(truth, await seen)); // true [] []
await Promise.all(proxies.map((proxy) => proxy.close()));

async function eventsUntil(last: string, watch: Watch): Promise<SeenEvent[][]> {
  const batches: SeenEvent[][] = [];
  for await (const { events } of watch.batches()) {
    batches.push(
      events.map((event) => ({
        revision: event.modRevision,
        type: event.type,
        key: event.key,
        value: event.type === 'put' ? event.kv.text() : '',
      })),
    );
    if (events.some((event) => event.key === last)) break;
  }
  return batches;
}
